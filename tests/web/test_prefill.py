"""POST /v1/prefill with a scripted inside: it shapes the prompt of the chat route."""

from __future__ import annotations

import json

import pytest

from tests.support.web_app import Script, talk

MESSAGES = [{"role": "user", "content": "What does the report say"}]
TOOL = {"type": "function", "function": {"name": "f"}}
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": "required"},
        {"functions": [TOOL["function"]], "function_call": {"name": "f"}},
        {"chat_template_kwargs": {"mode": "short"}},
        {"enable_thinking": False},
        {"thinking": {"type": "disabled"}},
        {"reasoning_effort": "none"},
    ],
    ids=lambda fields: " ".join(fields),
)
def test_whatever_shapes_a_prompt_shapes_it_here_too(fields):
    body = {"messages": MESSAGES, **fields}
    script = Script()

    async def story(client):
        for path in ("/v1/chat/completions", "/v1/prefill"):
            answer = await client.send("POST", path, json.dumps(body), JSON)
            assert answer.status == 200, answer.body

    talk(story, script)
    chat, prefill = script.requests
    assert chat.inputs == prefill.inputs
    plain = {"messages": MESSAGES}
    bare = Script()

    async def without(client):
        await client.send("POST", "/v1/prefill", json.dumps(plain), JSON)

    talk(without, bare)
    assert bare.requests[0].inputs != prefill.inputs


def test_what_shapes_only_the_answer_is_of_no_matter():
    body = {"messages": MESSAGES, "temperature": "hot", "stream": True}
    script = Script()

    async def story(client):
        answer = await client.send("POST", "/v1/prefill", json.dumps(body), JSON)
        assert json.loads(answer.body)["object"] == "prefill"

    talk(story, script)
    assert script.requests[0].prefill
