"""DSPy: a language model and an embedder."""

import dspy
from common import (
    CHAT,
    KEY,
    MODEL,
    QUESTION,
    TEXTS,
    TOO_LONG,
    VECTORS,
    check_vectors,
    overflows,
    tried,
)

TO = {"model": f"openai/{MODEL}", "api_base": CHAT, "api_key": KEY, "cache": False}

model = dspy.LM(**TO, temperature=0, max_tokens=12, num_retries=0)
(text,) = model(QUESTION)
assert text
tried("chat")

with overflows(dspy.ContextWindowExceededError):
    model(TOO_LONG)
tried("overflow")

embed = dspy.Embedder(
    f"openai/{MODEL}", batch_size=1000, caching=False, api_base=VECTORS, api_key=KEY
)
check_vectors(embed(TEXTS).tolist())
tried("embeddings")
