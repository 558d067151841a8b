"""Chroma with its embedding function for OpenAI: add a thousand texts, find one."""

import chromadb
from chromadb.utils.embedding_functions import OpenAIEmbeddingFunction
from common import KEY, MODEL, N_NUMBERS, TEXTS, VECTORS, tried

embed = OpenAIEmbeddingFunction(api_key=KEY, api_base=VECTORS, model_name=MODEL)
client = chromadb.EphemeralClient()
texts = client.create_collection("texts", embedding_function=embed)
texts.add(ids=[f"{n}" for n in range(len(TEXTS))], documents=TEXTS)
assert texts.count() == len(TEXTS)
found = texts.query(query_texts=["number 321"], n_results=1)
assert found["ids"] == [["321"]], found
assert len(texts.get("7", include=["embeddings"])["embeddings"][0]) == N_NUMBERS
tried("embeddings")
