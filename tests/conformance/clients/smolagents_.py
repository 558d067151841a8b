"""smolagents: a model whole and streamed, and an agent's step with a tool."""

from common import CHAT, KEY, MODEL, QUESTION, TOO_LONG, overflows, tried
from openai import BadRequestError
from smolagents import ChatMessage, OpenAIServerModel, ToolCallingAgent, tool

TO = {"model_id": MODEL, "api_base": CHAT, "api_key": KEY, "temperature": 0}
ASK = [ChatMessage(role="user", content=QUESTION)]
reported = []

model = OpenAIServerModel(**TO, max_tokens=12)
whole = model.generate(ASK).content
assert whole
tried("chat")

streamed = "".join(piece.content or "" for piece in model.generate_stream(ASK))
assert streamed == whole
tried("streams")


@tool
def report_city(name: str) -> str:
    """Report a city.

    Args:
        name: Its name.
    """
    reported.append(name)
    return f"{name} is noted."


agent = ToolCallingAgent(
    tools=[report_city],
    model=OpenAIServerModel(**TO, max_tokens=120),
    max_steps=1,
    verbosity_level=0,
)
agent.run("Report Paris with the tool.")
steps = [step for step in agent.memory.steps if getattr(step, "tool_calls", None)]
assert steps, agent.memory.steps
tried("tools")

with overflows(BadRequestError):
    model.generate([ChatMessage(role="user", content=TOO_LONG)])
tried("overflow")
