"""Haystack: a chat generator and an embedder of documents."""

from common import (
    CHAT,
    CITY,
    KEY,
    MODEL,
    QUESTION,
    TEXTS,
    TOO_LONG,
    VECTORS,
    check_city,
    check_vectors,
    overflows,
    tried,
)
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret
from openai import BadRequestError

TO = {"model": MODEL, "api_base_url": CHAT, "api_key": Secret.from_token(KEY)}
ASK = [ChatMessage.from_user(QUESTION)]
SHORT = {"temperature": 0, "max_tokens": 12}

generator = OpenAIChatGenerator(**TO, generation_kwargs=SHORT)
(whole,) = generator.run(messages=ASK)["replies"]
assert whole.text
assert whole.meta["usage"]["completion_tokens"] == 12
tried("chat")

pieces = []
(streamed,) = generator.run(messages=ASK, streaming_callback=pieces.append)["replies"]
assert streamed.text == whole.text
assert len(pieces) > 3
tried("streams")

tool = Tool("report_city", "Report.", CITY, check_city)
caller = OpenAIChatGenerator(
    **TO,
    tools=[tool],
    generation_kwargs={"tool_choice": "required", "max_tokens": 80},
)
(reply,) = caller.run(messages=ASK)["replies"]
check_city(reply.tool_call.arguments)
tried("tools")

with overflows(BadRequestError):
    generator.run(messages=[ChatMessage.from_user(TOO_LONG)])
tried("overflow")

embedder = OpenAIDocumentEmbedder(
    model=MODEL,
    api_base_url=VECTORS,
    api_key=Secret.from_token(KEY),
    batch_size=1000,
    progress_bar=False,
)
documents = embedder.run(documents=[Document(content=text) for text in TEXTS])
check_vectors([document.embedding for document in documents["documents"]])
tried("embeddings")
