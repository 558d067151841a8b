"""Receipts over real HTTP, in every API's shape; the inside is scripted."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kinetic.actors.messages import Finished
from kinetic.receipts import reading
from kinetic.receipts.record import signer_json
from kinetic.types import Finish, Timings, Usage
from kinetic.web.openai.render import ChatWriter, Head, TextWriter
from kinetic.web.openai.whole import WholeChat, WholeText
from tests.support.receipts import SIGNER, sealed_chat
from tests.support.web_app import Script, delta, finished, talk

RECEIPT = sealed_chat()
EVENTS = (delta("Hel"), delta("lo"), replace(finished(), receipt=RECEIPT))
MESSAGES = {"messages": [{"role": "user", "content": "Hi"}]}
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": MESSAGES,
    "/v1/completions": {"prompt": "Hi"},
    "/completion": {"prompt": "Hi"},
    "/api/chat": {"model": "tiny", **MESSAGES},
    "/api/generate": {"model": "tiny", "prompt": "Hi"},
}
HEADERS = {"Content-Type": "application/json"}
EVERY = pytest.mark.parametrize("route", ROUTES)


def ask(method, route, body=None, *, prepare=None, script=None):
    answers = []
    raw = None if body is None else json.dumps(body)

    async def story(client):
        if prepare is not None:
            prepare(client.service)
        answers.append(await client.send(method, route, raw, HEADERS))

    script = script or Script(events=EVENTS)
    talk(story, script)
    return answers[0], script


def last_of(answer):
    """The last object of a stream."""
    said = [line for line in answer.body.decode().splitlines() if line.strip()]
    said = [line.removeprefix("data: ") for line in said]
    return json.loads([line for line in said if line != "[DONE]"][-1])


@EVERY
def test_a_whole_answer_holds_the_receipt_beside_what_it_always_holds(route):
    body = {**ROUTES[route], "receipt": True, "stream": False}
    answer, script = ask("POST", route, body)
    assert answer.status == 200
    assert script.requests[0].receipt is True
    assert json.loads(answer.body)["receipt"] == RECEIPT
    assert reading.receipts_in(answer.body) == [RECEIPT]


@EVERY
def test_a_stream_s_last_object_holds_it_and_no_other(route):
    body = {**ROUTES[route], "receipt": True, "stream": True}
    answer, _ = ask("POST", route, body)
    assert answer.status == 200
    assert last_of(answer)["receipt"] == RECEIPT
    assert answer.body.count(b"kinetic-receipt") == 1
    assert reading.receipts_in(answer.body) == [RECEIPT]


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
def test_the_last_chunk_is_that_of_the_token_counts_where_there_is_one(route):
    body = {
        **ROUTES[route],
        "receipt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answer, _ = ask("POST", route, body)
    last = last_of(answer)
    assert last["choices"] == []
    assert last["receipt"] == RECEIPT
    assert answer.body.count(b"kinetic-receipt") == 1


@EVERY
@pytest.mark.parametrize("value", [False, None])
def test_without_being_asked_for_there_is_none(route, value):
    body = {**ROUTES[route], "receipt": value, "stream": False}
    script = Script()
    answer, script = ask("POST", route, body, script=script)
    assert answer.status == 200
    assert script.requests[0].receipt is False
    assert "receipt" not in json.loads(answer.body)


@EVERY
@pytest.mark.parametrize("value", ["yes", 1, [], {}])
def test_anything_but_true_and_false_is_refused_by_name(route, value):
    answer, script = ask("POST", route, {**ROUTES[route], "receipt": value})
    assert answer.status == 400
    assert b"receipt" in answer.body
    assert not script.requests


def test_picked_fields_of_a_native_answer_keep_the_receipt():
    body = {"prompt": "Hi", "receipt": True, "response_fields": ["content"]}
    answer, _ = ask("POST", "/completion", body)
    assert set(json.loads(answer.body)) == {"content", "receipt"}


# --- Several choices ----------------------------------------------------------------


def ends(n):
    for index in range(n):
        yield Finished(
            index=index,
            finish=Finish(reason="eos"),
            usage=Usage(n_prompt=1, n_cached=0, n_generated=1),
            timings=Timings(queued_s=0, prompt_s=0, predicted_s=0),
            slot_id=0,
            receipt={**RECEIPT, "digest": f"{index:064x}"},
        )


HEAD = Head(id="x", created=1, model="m", system_fingerprint="k")


@pytest.mark.parametrize(
    ("writer", "whole"),
    [
        (
            ChatWriter(HEAD, n_choices=3, usage_follows=True),
            WholeChat(HEAD, n_choices=3),
        ),
        (
            TextWriter(HEAD, n_choices=3, usage_follows=True),
            WholeText(HEAD, n_choices=3),
        ),
    ],
)
def test_several_choices_hold_one_each(writer, whole):
    chunks = [chunk for event in ends(3) for chunk in writer.chunks(event)]
    usage = writer.usage_chunk({})
    assert all("receipt" not in chunk for chunk in (*chunks, usage))
    for event in ends(3):
        whole.add(event)
    answer = whole.to_json({})
    assert "receipt" not in answer
    found = [choice["receipt"]["digest"] for choice in answer["choices"]]
    assert found == [f"{i:064x}" for i in range(3)]
    assert reading.receipts_in(json.dumps(answer).encode()) == [
        choice["receipt"] for choice in answer["choices"]
    ]
    # In a stream each choice's last chunk has its own.
    told = [c for chunk in chunks for c in chunk["choices"] if "receipt" in c]
    assert [c["finish_reason"] for c in told] == ["stop"] * 3


# --- The key ------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/receipts/key", "/receipts/key"])
def test_the_public_key_is_served(path):
    key = signer_json(SIGNER.public_key)

    def sign(service):
        service.receipt_key = key

    answer, _ = ask("GET", path, prepare=sign)
    assert answer.status == 200
    assert json.loads(answer.body) == {"object": "receipt.key", **key}


def test_without_a_key_a_404_says_how_to_get_one():
    answer, _ = ask("GET", "/v1/receipts/key")
    assert answer.status == 404
    error = json.loads(answer.body)["error"]
    assert error["code"] == "receipts_not_signed"
    assert "--sign-key" in error["message"]
