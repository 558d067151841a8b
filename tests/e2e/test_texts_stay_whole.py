"""Any text in any field comes through whole, or is refused by its field's name.

What the model was given is read off the receipt: its prompt's tokens, as text again.
"""

import json
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings, strategies as st

from tests.support import tiny_models
from tests.support.server import running_server
from tests.support.texts import FAR_TOO_LONG, HALVES, WHOLE

FLAGS = ("-c", "4096", "-np", "2", "-t", "1", "--cache-disk", "0", "--cache-ram", "0")
N_RANDOM = 12
"""Random texts for each field, beside those below."""

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


def user(content):
    return {"role": "user", "content": content}


def openai(*messages, **fields):
    return "/v1/chat/completions", {"messages": list(messages), **fields}


def ollama(*messages, **fields):
    return "/api/chat", {"model": MODEL, "messages": list(messages), **fields}


def called(arguments, content, **fields):
    """A conversation with one call and its result."""
    call = {
        "id": "abcdefghi",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }
    return [
        user("Go."),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": content, **fields},
    ]


MODEL = "tiny"
ID = {"tool_call_id": "abcdefghi"}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
}


def described(text):
    return [{**TOOL, "function": {**TOOL["function"], "description": text}}]


PLACES = {
    "a user's text": lambda t: openai(user(t)),
    "a user's part": lambda t: openai(user([{"type": "text", "text": t}])),
    "one part of two": lambda t: openai(
        user([{"type": "text", "text": "a"}, {"type": "text", "text": t}])
    ),
    "a system text": lambda t: openai({"role": "system", "content": t}, user("a")),
    "a developer's text": lambda t: openai(
        {"role": "developer", "content": t}, user("a")
    ),
    "an earlier user's text": lambda t: openai(
        user(t), {"role": "assistant", "content": "b"}, user("c")
    ),
    "a tool's result": lambda t: openai(*called("{}", t, **ID), tools=[TOOL]),
    "a tool's result in a part": lambda t: openai(
        *called("{}", [{"type": "text", "text": t}], **ID), tools=[TOOL]
    ),
    "a tool's description": lambda t: openai(user("a"), tools=described(t)),
    "a call's arguments": lambda t: openai(*called({"a": t}, "b", **ID), tools=[TOOL]),
    "a call's arguments as text": lambda t: openai(
        *called(json.dumps({"a": t}), "b", **ID), tools=[TOOL]
    ),
    "a prompt": lambda t: ("/v1/completions", {"prompt": t}),
    "one prompt of several": lambda t: ("/v1/completions", {"prompt": [t]}),
    "llama-server's prompt": lambda t: ("/completion", {"prompt": t}),
    "a text among ids": lambda t: ("/completion", {"prompt": [[5, t, 6]]}),
    "Ollama's user": lambda t: ollama(user(t)),
    "Ollama's system text": lambda t: ollama(
        {"role": "system", "content": t}, user("a")
    ),
    "Ollama's tool result": lambda t: ollama(
        *called({}, t, tool_name="f"), tools=[TOOL]
    ),
    "Ollama's prompt": lambda t: ("/api/generate", {"model": MODEL, "prompt": t}),
    "Ollama's raw prompt": lambda t: (
        "/api/generate",
        {"model": MODEL, "prompt": t, "raw": True},
    ),
    "Ollama's system": lambda t: (
        "/api/generate",
        {"model": MODEL, "prompt": "a", "system": t},
    ),
}
every_place = pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))


@pytest.fixture(scope="module")
def client():
    path = tiny_models.qwen3()
    with (
        running_server(path, *FLAGS, "--alias", MODEL) as server,
        httpx.Client(base_url=server.root, timeout=50) as opened,
    ):
        yield opened
        assert server.is_alive


def send(client, route, body):
    # Written by hand: httpx refuses halves of surrogate pairs itself.
    return client.post(
        route,
        content=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )


def asked(client, place, text, **fields):
    route, body = place(text)
    short = {"options": {"num_predict": 1}} if "/api/" in route else {"n_predict": 1}
    return send(
        client, route, {**body, **short, "stream": False, "receipt": True, **fields}
    )


def seen_by_the_model(client, answer):
    """The prompt's text, put together from the tokens that were run."""
    tokens = answer.json()["receipt"]["request"]["prompt_tokens"]
    return send(client, "/detokenize", {"tokens": tokens}).json()["content"]


def forms(text):
    """The text, and as templates write it into JSON."""
    return (
        text,
        json.dumps(text, ensure_ascii=False)[1:-1],
        json.dumps(text)[1:-1],
    )


def comes_through(client, place, text):
    answer = asked(client, place, text)
    assert answer.status_code == 200, answer.text
    seen = seen_by_the_model(client, answer)
    assert any(form in seen for form in forms(text)), (text, seen)


@every_place
@pytest.mark.parametrize("text", WHOLE.values(), ids=list(WHOLE))
def test_a_nasty_text_comes_through_whole(client, place, text):
    comes_through(client, place, text)


@every_place
def test_any_text_comes_through_whole(client, place):
    @settings(max_examples=N_RANDOM)
    @example(" a ")
    @given(texts)
    def holds(text):
        comes_through(client, place, text)

    holds()


def refused(answer):
    """The message and, where the API has a place for it, the field."""
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    if isinstance(error, str):
        return error, None
    return error["message"], error.get("param")


@every_place
@pytest.mark.parametrize("text", FAR_TOO_LONG.values(), ids=list(FAR_TOO_LONG))
def test_a_text_that_is_far_too_long_is_never_cut(client, place, text):
    answer = asked(client, place, text)
    if answer.status_code == 200:
        seen = seen_by_the_model(client, answer)
        assert any(form in seen for form in forms(text))
    else:
        message, param = refused(answer)
        assert "is too long" in message
        assert param in {None, "messages", "prompt"}


# Where a text is JSON itself, its escapes are none of the body's.
by_the_body = pytest.mark.parametrize(
    "name", [n for n in PLACES if n != "a call's arguments as text"]
)


@by_the_body
@pytest.mark.parametrize("text", HALVES.values(), ids=list(HALVES))
def test_half_of_a_surrogate_pair_is_refused_by_name(client, name, text):
    place = PLACES[name]
    message, param = refused(asked(client, place, text))
    assert "half of a surrogate pair" in message
    named = param or message.split(" holds ")[0]
    assert named.split("[")[0] in {"messages", "prompt", "tools", "system"}


# --- Texts that the model does not read ----------------------------------------------


@pytest.mark.parametrize("text", WHOLE.values(), ids=list(WHOLE))
@pytest.mark.parametrize(
    "place", ["a user's text", "a prompt", "llama-server's prompt", "Ollama's user"]
)
def test_a_stop_string_is_kept_whole(client, place, text):
    fields: dict[str, Any] = {"stop": [text]}
    if place == "Ollama's user":
        fields = {"options": {"num_predict": 1, "stop": [text]}}
    answer = asked(client, PLACES[place], "a", **fields)
    assert answer.status_code == 200, answer.text
    assert answer.json()["receipt"]["request"]["stop"] == [text]


@pytest.mark.parametrize("text", WHOLE.values(), ids=list(WHOLE))
def test_tokens_are_read_and_written_whole(client, text):
    tokens = send(client, "/tokenize", {"content": text}).json()["tokens"]
    assert send(client, "/detokenize", {"tokens": tokens}).json()["content"] == text


@pytest.mark.parametrize("text", WHOLE.values(), ids=list(WHOLE))
def test_an_echoed_prompt_is_whole(client, text):
    body = {"prompt": text, "echo": True, "max_tokens": 0, "logprobs": 1}
    answer = send(client, "/v1/completions", body)
    assert answer.json()["choices"][0]["text"] == text


@pytest.mark.parametrize("text", WHOLE.values(), ids=list(WHOLE))
def test_a_conversation_is_shown_whole(client, text):
    answer = send(client, "/apply-template", {"messages": [user(text)]})
    assert text in answer.json()["prompt"]
