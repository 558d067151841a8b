"""LangChain's ChatOllama, OllamaLLM and OllamaEmbeddings."""

from common import (
    CHAT,
    CITY,
    QUESTION,
    TEXTS,
    TOO_LONG,
    VECTORS,
    check_city,
    check_vectors,
    overflows,
    tried,
)
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM
from ollama import Client, ResponseError


def served(address):
    """The root of a server, and what its model is called there."""
    root = address.removesuffix("/v1")
    return {"base_url": root, "model": Client(root).list().models[0].model}


TO = {**served(CHAT), "temperature": 0}

model = ChatOllama(**TO, num_predict=12)
whole = model.invoke(QUESTION)
assert whole.content
assert whole.usage_metadata["output_tokens"] == 12
tried("chat")

assert "".join(piece.content for piece in model.stream(QUESTION)) == whole.content
tried("streams")

plain = OllamaLLM(**TO, num_predict=8)
assert plain.invoke(QUESTION)
tried("completions")

schema = {"title": "city", "description": "A city.", **CITY}
roomy = ChatOllama(**TO, num_predict=80)
held = roomy.with_structured_output(schema, method="json_schema")
check_city(held.invoke(QUESTION))
tried("schemas")

with overflows(ResponseError):
    model.invoke(TOO_LONG)
tried("overflow")

check_vectors(OllamaEmbeddings(**served(VECTORS)).embed_documents(TEXTS))
tried("embeddings")
