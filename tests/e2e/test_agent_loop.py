"""An agent's loop through the official client: tools, calls, results, an answer."""

from __future__ import annotations

import json
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from tests.support import tiny_models
from tests.support.server import running_server

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", "Lima", "Paris"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
TIME = {
    "type": "object",
    "properties": {"zone": {"type": "string", "maxLength": 12}},
    "required": ["zone"],
    "additionalProperties": False,
}
SCHEMAS = {"get_weather": WEATHER, "get_time": TIME}
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": name, "parameters": schema},
    }
    for name, schema in SCHEMAS.items()
]


@pytest.fixture
def client(server):
    with openai.OpenAI(
        base_url=server.base_url, api_key="any", max_retries=0, timeout=300
    ) as made:
        yield made


def whole(client, **asked):
    """Calls and finish reason of an unstreamed answer."""
    choice = client.chat.completions.create(model="any", **asked).choices[0]
    calls = [
        (call.id, call.function.name, call.function.arguments)
        for call in choice.message.tool_calls or []
    ]
    return calls, choice.message.content, choice.finish_reason


def streamed(client, **asked):
    """The same, put together from a stream as clients do."""
    calls: dict[int, list[str]] = {}
    text, finishes = "", []
    for chunk in client.chat.completions.create(model="any", stream=True, **asked):
        for choice in chunk.choices:
            if choice.finish_reason:
                finishes.append(choice.finish_reason)
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                if call.index not in calls:
                    calls[call.index] = [call.id, call.function.name, ""]
                calls[call.index][2] += call.function.arguments or ""
    (finish,) = finishes
    assert sorted(calls) == list(range(len(calls)))
    return [tuple(calls[i]) for i in sorted(calls)], text or None, finish


@pytest.mark.parametrize("run", [whole, streamed])
@pytest.mark.parametrize("parallel", [False, True])
def test_two_turns_with_forced_calls_and_their_results(client, run, parallel):
    messages: list[Any] = [
        {"role": "user", "content": "Weather in Oslo and in Lima, please."}
    ]
    calls, content, finish = run(
        client,
        messages=messages,
        tools=TOOLS,
        tool_choice="required",
        parallel_tool_calls=parallel,
        temperature=0.8,
        seed=3,
        max_tokens=300,
    )
    assert calls
    assert parallel or len(calls) == 1
    assert finish in ({"tool_calls", "length"} if parallel else {"tool_calls"})
    assert content is None
    assert len({call_id for call_id, _, _ in calls}) == len(calls)
    for _, name, arguments in calls:
        jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    messages.append(
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
                for call_id, name, arguments in calls
            ],
        }
    )
    messages += [
        {
            "role": "tool",
            "tool_call_id": call_id,
            "content": json.dumps({"temp_c": 18, "sky": "clear"}),
        }
        for call_id, _, _ in calls
    ]
    more, content, finish = run(
        client, messages=messages, tools=TOOLS, temperature=0, max_tokens=24
    )
    assert finish in {"stop", "length", "tool_calls"}
    assert content or more


def test_a_named_function_is_the_one_that_is_called(client):
    calls, _, finish = whole(
        client,
        messages=[{"role": "user", "content": "Hello there"}],
        tools=TOOLS,
        tool_choice={"type": "function", "function": {"name": "get_time"}},
        max_tokens=200,
    )
    assert [name for _, name, _ in calls] == ["get_time"]
    assert finish == "tool_calls"


def test_whole_and_streamed_forced_calls_are_the_same(client):
    asked = {
        "messages": [{"role": "user", "content": "Weather in Paris?"}],
        "tools": TOOLS,
        "tool_choice": "required",
        "temperature": 1.0,
        "seed": 11,
        "max_tokens": 200,
    }

    def told(answer):
        calls, content, finish = answer
        return [call[1:] for call in calls], content, finish

    assert told(whole(client, **asked)) == told(streamed(client, **asked))


def test_an_answer_that_is_held_to_a_grammar_follows_it_to_its_end(client):
    call = r"<tool_call>{\"name\": \"get_time\", \"arguments\": {\"zone\": \"x\"}}"
    choice = client.chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": "Go."}],
        tools=TOOLS,
        max_tokens=200,
        extra_body={"grammar": f'root ::= "{call}</tool_call>" " {call}</tool_call>"'},
    ).choices[0]
    calls = choice.message.tool_calls or []
    assert [call.function.name for call in calls] == ["get_time", "get_time"]
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
def test_functions_in_their_old_form_are_called_and_answered(client, stream):
    messages: list[Any] = [{"role": "user", "content": "What time is it in Oslo?"}]
    asked: dict[str, Any] = {
        "model": "any",
        "functions": [tool["function"] for tool in TOOLS],
        "temperature": 0,
        "max_tokens": 200,
        "stream": stream,
    }
    answer = client.chat.completions.create(
        messages=messages, function_call={"name": "get_time"}, **asked
    )
    if stream:
        choices = [choice for chunk in answer for choice in chunk.choices]
        (call,) = (c.delta.function_call for c in choices if c.delta.function_call)
        assert not any(c.delta.tool_calls for c in choices)
        finish = choices[-1].finish_reason
    else:
        (choice,) = answer.choices
        call, finish = choice.message.function_call, choice.finish_reason
        assert choice.message.tool_calls is None
        assert choice.message.content is None
    assert (call.name, finish) == ("get_time", "function_call")
    jsonschema.validate(json.loads(call.arguments), TIME)
    messages += [
        {"role": "assistant", "content": None, "function_call": call.model_dump()},
        {"role": "function", "name": "get_time", "content": "12:30"},
    ]
    again = client.chat.completions.create(
        messages=messages, **asked | {"stream": False, "max_tokens": 8}
    )
    assert again.choices[0].finish_reason in {"stop", "length", "function_call"}


def allowed(mode, *names):
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def test_only_allowed_tools_are_called_and_the_prompt_is_the_same(client):
    asked: dict[str, Any] = {
        "model": "any",
        "messages": [{"role": "user", "content": "Weather in Paris?"}],
        "tools": TOOLS,
        "max_tokens": 200,
    }
    free = client.chat.completions.create(**asked | {"max_tokens": 1})
    held = client.chat.completions.create(
        **asked, tool_choice=allowed("required", "get_time")
    )
    calls = held.choices[0].message.tool_calls or []
    assert [call.function.name for call in calls] == ["get_time"]
    assert held.usage.prompt_tokens == free.usage.prompt_tokens


@pytest.mark.parametrize("name", ["get_time", "get_weather"])
def test_a_call_of_a_tool_that_is_not_allowed_is_text(client, name):
    call = r"<tool_call>{\"name\": \"get_time\", \"arguments\": {\"zone\": \"x\"}}"
    choice = client.chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": "Go."}],
        tools=TOOLS,
        tool_choice=allowed("auto", name),
        extra_body={"grammar": f'root ::= "{call}</tool_call>"'},
    ).choices[0]
    calls = choice.message.tool_calls or []
    if name == "get_time":
        assert [call.function.name for call in calls] == ["get_time"]
    else:
        assert calls == []
        assert choice.message.content.startswith("<tool_call>")
        assert choice.finish_reason == "stop"


def test_there_is_no_receipt_beside_allowed_tools_yet(client):
    with pytest.raises(openai.BadRequestError, match="allowed_tools") as refused:
        client.chat.completions.create(
            model="any",
            messages=[{"role": "user", "content": "Go."}],
            tools=TOOLS,
            tool_choice=allowed("auto", "get_time"),
            extra_body={"receipt": True},
        )
    assert refused.value.param == "receipt"


@pytest.fixture(scope="module")
def with_marker():
    """A model whose calls begin with a token of their own: a client, and that token."""
    flags = ("-c", "512", "-np", "1", "-t", "1", "--cache-disk", "0")
    with (
        running_server(tiny_models.qwen3(), *flags) as process,
        openai.OpenAI(base_url=process.base_url, api_key="any", max_retries=0) as made,
    ):
        found = httpx.post(f"{process.root}/tokenize", json={"content": "<tool_call>"})
        (marker,) = found.json()["tokens"]
        yield made, marker


@pytest.mark.parametrize("name", ["get_time", "get_weather"])
def test_a_model_that_begins_a_call_can_only_make_an_allowed_one(with_marker, name):
    client, marker = with_marker
    asked: dict[str, Any] = {
        "model": "any",
        "messages": [{"role": "user", "content": "Go."}],
        "tools": TOOLS,
        "max_tokens": 300,
        "temperature": 0,
    }
    text = client.chat.completions.create(
        **asked | {"max_tokens": 20}, tool_choice=allowed("auto", name)
    )
    assert text.choices[0].message.content
    # The marker is made far likelier than anything else, as often as it may stand.
    called = client.chat.completions.create(
        **asked, tool_choice=allowed("auto", name), logit_bias={str(marker): 100}
    )
    calls = called.choices[0].message.tool_calls or []
    assert [call.function.name for call in calls] == [name]
    jsonschema.validate(json.loads(calls[0].function.arguments), SCHEMAS[name])
