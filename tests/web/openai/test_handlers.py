"""The OpenAI routes over HTTP with a scripted inside: failures, silence, slow readers."""

import asyncio
import json

import pytest

from kinetic.actors.messages import Failed
from kinetic.errors import (
    ClientGone,
    ContextExceeded,
    InternalError,
    Overloaded,
    ReaderTooSlow,
    RequestError,
    ShuttingDown,
)
from kinetic.types import CallPiece, ToolCall
from kinetic.web.http import connection, sse
from tests.support.raw_http import RawClient, exchange, request
from tests.support.web_app import Script, delta, finished, talk

ROUTES = pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/completions", {"prompt": "hi"}),
    ],
)
CHAT = "/v1/chat/completions"
HI = {"messages": [{"role": "user", "content": "hi"}]}


def ask(route, body, script):
    answers = []

    async def story(client):
        data = request("POST", route, json.dumps(body).encode())
        answers.append(await exchange(client.url, data))

    talk(story, script)
    return answers[0]


def failed(error):
    return Failed(index=0, error=error)


ERRORS = [
    (Overloaded("too many"), 503, "unavailable_error"),
    (ShuttingDown("the server is stopping"), 503, "unavailable_error"),
    (InternalError("broke"), 500, "server_error"),
    (
        RequestError("no token is left", param="logit_bias"),
        400,
        "invalid_request_error",
    ),
    (ReaderTooSlow("too slow"), 408, "timeout_error"),
]


@ROUTES
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("error", "status", "kind"), ERRORS)
def test_a_failure_before_the_first_piece_has_its_status_also_in_a_stream(
    route, body, stream, error, status, kind
):
    answer = ask(route, {**body, "stream": stream}, Script([failed(error)]))
    assert answer.status == status
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json()["error"]["type"] == kind
    assert answer.json()["error"]["message"] == str(error)
    assert ("retry-after" in answer.headers) == (status == 503)


@ROUTES
@pytest.mark.parametrize(("error", "status", "kind"), ERRORS)
def test_a_failure_after_the_first_piece_is_one_event_and_no_done(
    route, body, error, status, kind
):
    script = Script([delta("Hel"), failed(error)])
    answer = ask(route, {**body, "stream": True}, script)
    assert answer.status == 200
    *chunks, last, nothing = answer.body.decode().split("\n\n")
    assert nothing == ""
    told = json.loads(last.removeprefix("data: "))["error"]
    assert told["type"] == kind
    assert set(told) >= {"message", "type", "code"}
    assert "Hel" in chunks[-1]
    assert all('"finish_reason":null' in chunk for chunk in chunks)
    whole = ask(route, body, Script([delta("Hel"), failed(error)]))
    assert whole.status == status


@ROUTES
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_cannot_be_built_is_refused_before_anything_is_sent(
    route, body, stream
):
    script = Script(
        refusal=ContextExceeded(n_prompt=5000, n_ctx=4096, param="messages")
    )
    answer = ask(route, {**body, "stream": stream}, script)
    assert answer.status == 400
    error = answer.json()["error"]
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (5000, 4096)
    assert error["code"] == "context_length_exceeded"


@ROUTES
@pytest.mark.parametrize("stream", [False, True])
def test_every_answer_names_its_request(route, body, stream):
    answer = ask(route, {**body, "stream": stream}, Script())
    first = answer.body.decode().split("\n\n")[0].removeprefix("data: ")
    assert json.loads(first)["id"] == answer.headers["x-request-id"]


def test_half_a_surrogate_pair_in_a_call_goes_out_as_a_replacement():
    call = ToolCall(id="abcdefghi", name="f", arguments='{"a": "\ud83d é"}')
    for stream in (False, True):
        script = Script([delta(CallPiece(0, call)), finished("calls")])
        answer = ask(CHAT, {**HI, "stream": stream}, script)
        assert answer.status == 200
        assert "\ufffd é".encode() in answer.body
        assert b"tool_calls" in answer.body


def test_silence_is_broken_by_a_comment_that_clients_skip(monkeypatch):
    monkeypatch.setattr(sse, "SILENCE_S", 0.05)
    script = Script([])

    async def story(client):
        async with RawClient(client.url) as raw:
            body = json.dumps({**HI, "stream": True}).encode()
            await raw.send(request("POST", CHAT, body))
            async with asyncio.timeout(10):
                await raw.reader.readuntil(b"\r\n3\r\n:\n\n\r\n")
            (sink,) = script._sinks.values()
            for event in (delta("Hello"), finished()):
                sink.put(event)
            async with asyncio.timeout(10):
                await raw.reader.readuntil(b"data: [DONE]\n\n")

    talk(story, script)


def test_a_failure_behind_a_comment_is_an_event(monkeypatch):
    monkeypatch.setattr(sse, "SILENCE_S", 0.05)
    script = Script([])

    async def story(client):
        async with RawClient(client.url) as raw:
            body = json.dumps({**HI, "stream": True}).encode()
            await raw.send(request("POST", CHAT, body))
            async with asyncio.timeout(10):
                await raw.reader.readuntil(b":\n\n")
            (sink,) = script._sinks.values()
            sink.put(failed(InternalError("broke")))
            async with asyncio.timeout(10):
                rest = await raw.reader.readuntil(b"\r\n0\r\n\r\n")
            assert b'data: {"error":' in rest
            assert b"[DONE]" not in rest

    talk(story, script)


def test_a_client_that_reads_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(connection, "WRITE_S", 0.3)
    script = Script([delta("x" * (16 << 20))])

    async def story(client):
        async with RawClient(client.url) as raw:
            raw.stop_reading()
            body = json.dumps({**HI, "stream": True}).encode()
            await raw.send(request("POST", CHAT, body))
            async with asyncio.timeout(10):
                while not script.cancelled:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.01)

    talk(story, script)
    assert isinstance(script.cancelled[0], ClientGone)
