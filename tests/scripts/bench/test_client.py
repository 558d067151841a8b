"""Reading streams: what is counted, and what counts as a failure."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scripts.bench.client import Answer, Client, RequestError, chat, spoken, together


@contextmanager
def answering(*events, status=200):
    """A server on loopback that streams the same events to everybody."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers["Content-Length"])
            asked.append(json.loads(self.rfile.read(length)))
            self.send_response(status)
            self.end_headers()
            for event in events:
                said = event if isinstance(event, str) else json.dumps(event)
                self.wfile.write(f"data: {said}\n\n".encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join(10)


def asked_of(url, body, *, is_binding=False):
    async def ask():
        async with Client(url, is_binding=is_binding) as client:
            return await client.ask(body)

    return asyncio.run(ask())


def piece(**delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def end(reason):
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 5}}


def test_tokens_are_those_of_the_usage_where_there_is_one():
    events = [piece(role="assistant"), piece(content="a b"), piece(content=" c"), USAGE]
    with answering(*events, "[DONE]") as (url, _):
        answer = asked_of(url, chat("Hi", 9))
    assert (answer.n_tokens, answer.n_prompt, answer.text) == (5, 11, "a b c")
    assert len(answer.times) == 2
    assert answer.began < answer.times[0] <= answer.times[1] <= answer.ended


@pytest.mark.parametrize(("reason", "n"), [("length", 9), ("stop", 2)])
def test_without_a_usage_a_cut_answer_has_all_its_tokens_and_another_its_pieces(
    reason, n
):
    events = [piece(content="a"), piece(content="b"), end(reason)]
    with answering(*events) as (url, _):
        answer = asked_of(url, chat("Hi", 9))
    assert (answer.n_tokens, answer.n_prompt) == (n, None)


def test_reasoning_and_calls_are_pieces_too():
    call = {"index": 0, "function": {"name": "f", "arguments": '{"a":'}}
    rest = {"index": 0, "function": {"arguments": "1}"}}
    events = [
        piece(reasoning_content="hm"),
        piece(tool_calls=[call]),
        piece(tool_calls=[rest]),
        end("tool_calls"),
    ]
    with answering(*events) as (url, _):
        answer = asked_of(url, chat("Hi", 9))
    assert (answer.n_tokens, answer.text, answer.arguments) == (3, "hm", '{"a":1}')


@pytest.mark.parametrize(
    ("events", "status", "said"),
    [
        (["no room"], 503, "503"),
        ([piece(content="a"), {"error": {"message": "it broke"}}], 200, "it broke"),
        ([end("stop")], 200, "no tokens"),
    ],
)
def test_a_refused_broken_or_empty_answer_is_a_failure(events, status, said):
    with (
        answering(*events, status=status) as (url, _),
        pytest.raises(RequestError, match=said),
    ):
        asked_of(url, chat("Hi", 9))


def test_nobody_there_is_a_failure():
    with answering() as (url, _):
        pass
    with pytest.raises(RequestError, match="ConnectError"):
        asked_of(url, chat("Hi", 1))


def test_the_binding_hears_its_own_words():
    schema = {"type": "object"}
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = chat(
        "Hi",
        1,
        response_format=shape,
        tools=tools,
        tool_choice="required",
        ignore_eos=1,
    )
    assert spoken(body, is_binding=False) == body
    said = spoken(body, is_binding=True)
    assert said["response_format"] == {"type": "json_object", "schema": schema}
    assert said["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert not {"ignore_eos", "stream_options"} & set(said)
    with answering(piece(content="a"), end("stop")) as (url, asked):
        asked_of(url, body, is_binding=True)
    assert asked == [said]


def answer_at(began, times, ended, n_tokens):
    return Answer(began, times, ended, n_tokens, None, "", "")


def test_a_rate_counts_from_the_first_token():
    answer = answer_at(1.0, (3.0, 4.0, 5.0), 5.0, 9)
    assert answer.first_s == 2.0
    assert answer.rate == 4.0
    assert answer.gaps_s == (1.0, 1.0)


def test_answers_together_count_from_the_first_to_the_last():
    early = answer_at(0.0, (1.0, 2.0), 3.0, 5)
    late = answer_at(0.0, (2.0, 3.0), 5.0, 9)
    assert together([early, late]) == 3.0
