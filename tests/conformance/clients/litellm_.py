"""LiteLLM as people call it: completion and embedding through an address."""

import litellm
from common import (
    CHAT,
    KEY,
    MODEL,
    QUESTION,
    TEXTS,
    TOO_LONG,
    TOOL,
    VECTORS,
    check_city,
    check_vectors,
    overflows,
    tried,
)

TO = {"model": f"openai/{MODEL}", "api_base": CHAT, "api_key": KEY}
ASK = {
    "messages": [{"role": "user", "content": QUESTION}],
    "temperature": 0,
    "max_tokens": 12,
}

whole = litellm.completion(**TO, **ASK)
text = whole.choices[0].message.content
assert text
assert whole.usage.completion_tokens == 12
assert whole.choices[0].finish_reason == "length"
tried("chat")

chunks = list(litellm.completion(**TO, **ASK, stream=True))
streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
assert streamed == text
tried("streams")

called = litellm.completion(
    **TO, messages=ASK["messages"], tools=[TOOL], tool_choice="required", max_tokens=80
)
(call,) = called.choices[0].message.tool_calls
check_city(call.function.arguments)
assert called.choices[0].finish_reason == "tool_calls"
tried("tools")

with overflows(litellm.ContextWindowExceededError):
    litellm.completion(**TO, messages=[{"role": "user", "content": TOO_LONG}])
tried("overflow")

made = litellm.embedding(
    model=f"openai/{MODEL}", api_base=VECTORS, api_key=KEY, input=TEXTS
)
check_vectors([entry["embedding"] for entry in made.data])
tried("embeddings")
