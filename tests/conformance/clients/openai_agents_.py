"""OpenAI's agents, over chat completions: text, a tool's loop, a typed result."""

import asyncio
from typing import Literal

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from common import CHAT, KEY, MODEL, QUESTION, TOO_LONG, check_city, overflows, tried
from openai import AsyncOpenAI, BadRequestError
from pydantic import BaseModel, Field

set_tracing_disabled(True)
reported = []


class City(BaseModel):
    """A city."""

    name: Literal["Paris", "Oslo"]
    rank: int = Field(ge=1, le=9)


@function_tool
def report_city(name: Literal["Paris", "Oslo"]) -> str:
    """Report a city."""
    reported.append(name)
    return f"{name} is noted."


async def everything():
    """One loop for all, as the client keeps its connections in it."""
    async with AsyncOpenAI(base_url=CHAT, api_key=KEY, max_retries=0) as client:
        model = OpenAIChatCompletionsModel(MODEL, client)
        short = ModelSettings(temperature=0, max_tokens=12)
        agent = Agent("a", instructions="Be brief.", model=model, model_settings=short)
        text = (await Runner.run(agent, QUESTION)).final_output
        assert text
        tried("chat")

        streamed = Runner.run_streamed(agent, QUESTION)
        kinds = [event.type async for event in streamed.stream_events()]
        assert kinds.count("raw_response_event") > 3
        assert streamed.final_output == text
        tried("streams")

        forced = ModelSettings(tool_choice="required", max_tokens=80)
        caller = Agent("b", model=model, tools=[report_city], model_settings=forced)
        assert (await Runner.run(caller, QUESTION, max_turns=3)).final_output
        assert reported
        assert set(reported) <= {"Paris", "Oslo"}
        tried("tools")

        roomy = ModelSettings(max_tokens=80)
        typed = Agent("c", model=model, output_type=City, model_settings=roomy)
        check_city((await Runner.run(typed, QUESTION)).final_output.model_dump())
        tried("schemas")

        with overflows(BadRequestError):
            await Runner.run(agent, TOO_LONG)
        tried("overflow")


asyncio.run(everything())
