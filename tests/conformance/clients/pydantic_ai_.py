"""Pydantic AI: an agent that answers in text, through a tool and by a schema."""

import asyncio
from typing import Literal

from common import CHAT, KEY, MODEL, QUESTION, TOO_LONG, check_city, overflows, tried
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class City(BaseModel):
    """A city."""

    name: Literal["Paris", "Oslo"]
    rank: int = Field(ge=1, le=9)


model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=CHAT, api_key=KEY))
SHORT = {"temperature": 0, "max_tokens": 12}


async def whole_and_streamed():
    """The same text both ways."""
    agent = Agent(model, model_settings=SHORT)
    text = (await agent.run(QUESTION)).output
    async with agent.run_stream(QUESTION) as stream:
        streamed = [piece async for piece in stream.stream_text(delta=True)]
    assert "".join(streamed) == text != ""
    tried("chat")
    tried("streams")


async def held():
    """An object by a tool and by a schema."""
    for output, what in ((ToolOutput(City), "tools"), (NativeOutput(City), "schemas")):
        agent = Agent(model, output_type=output, model_settings={"max_tokens": 80})
        check_city((await agent.run(QUESTION)).output.model_dump())
        tried(what)


async def overflow():
    """A prompt that does not fit."""
    with overflows(ModelHTTPError):
        await Agent(model).run(TOO_LONG)
    tried("overflow")


async def everything():
    """One loop for all, as the client keeps its connections in it."""
    await whole_and_streamed()
    await held()
    await overflow()


asyncio.run(everything())
