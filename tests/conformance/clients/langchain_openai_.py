"""LangChain's ChatOpenAI and OpenAIEmbeddings."""

from common import (
    CHAT,
    CITY,
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
from langchain_core.exceptions import ContextOverflowError
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

TO = {"model": MODEL, "base_url": CHAT, "api_key": KEY, "temperature": 0}

model = ChatOpenAI(**TO, max_tokens=12)
whole = model.invoke(QUESTION)
assert whole.content
assert whole.usage_metadata["output_tokens"] == 12
tried("chat")

pieces = list(model.stream(QUESTION))
assert "".join(piece.content for piece in pieces) == whole.content
tried("streams")

roomy = ChatOpenAI(**TO, max_tokens=80)
(call,) = roomy.bind_tools([TOOL], tool_choice="required").invoke(QUESTION).tool_calls
check_city(call["args"])
tried("tools")

schema = {"title": "city", "description": "A city.", **CITY}
held = roomy.with_structured_output(schema, method="json_schema")
check_city(held.invoke(QUESTION))
tried("schemas")

with overflows(ContextOverflowError):
    model.invoke(TOO_LONG)
tried("overflow")

embeddings = OpenAIEmbeddings(
    model=MODEL, base_url=VECTORS, api_key=KEY, check_embedding_ctx_length=False
)
check_vectors(embeddings.embed_documents(TEXTS))
tried("embeddings")
