"""LlamaIndex's OpenAILike, for text and for vectors."""

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
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool, ToolMetadata
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from openai import BadRequestError
from pydantic import create_model

TO = {"model": MODEL, "api_base": CHAT, "api_key": KEY, "temperature": 0}
ASK = [ChatMessage(role="user", content=QUESTION)]

model = OpenAILike(**TO, is_chat_model=True, max_tokens=12, max_retries=0)
whole = model.chat(ASK).message.content
assert whole
tried("chat")

assert "".join(piece.delta or "" for piece in model.stream_chat(ASK)) == whole
tried("streams")

plain = OpenAILike(**TO, is_chat_model=False, max_tokens=8, max_retries=0)
assert plain.complete("The sky is").text
tried("completions")


class Arguments(create_model("Arguments")):
    """Arguments whose schema is the one of all scripts."""

    @classmethod
    def model_json_schema(cls, *args, **kwargs):
        """The schema."""
        return CITY


meta = ToolMetadata(name="report_city", description="Report.", fn_schema=Arguments)
tool = FunctionTool(fn=check_city, metadata=meta)
caller = OpenAILike(
    **TO, is_chat_model=True, is_function_calling_model=True, max_tokens=80
)
reply = caller.chat_with_tools([tool], chat_history=ASK, tool_required=True)
(call,) = caller.get_tool_calls_from_response(reply)
check_city(call.tool_kwargs)
tried("tools")

with overflows(BadRequestError):
    model.chat([ChatMessage(role="user", content=TOO_LONG)])
tried("overflow")

embedder = OpenAILikeEmbedding(
    model_name=MODEL, api_base=VECTORS, api_key=KEY, embed_batch_size=1000
)
check_vectors(embedder.get_text_embedding_batch(TEXTS))
tried("embeddings")
