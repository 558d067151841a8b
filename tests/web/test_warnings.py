"""What a whole answer breaks of its schema, over real HTTP in every API's shape."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kinetic.web.openai.render import ChatWriter, Head, TextWriter
from kinetic.web.openai.whole import WholeChat, WholeText
from tests.support.web_app import Script, delta, finished, talk

WARNINGS = ('the answer: it breaks "uniqueItems" of the schema, at /tags',)
EVENTS = (delta("Hel"), delta("lo"), replace(finished(), warnings=WARNINGS))
MESSAGES = {"messages": [{"role": "user", "content": "Hi"}]}
OPENAI: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": MESSAGES,
    "/v1/completions": {"prompt": "Hi"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "/completion": {"prompt": "Hi"},
    "/api/chat": {"model": "tiny", **MESSAGES},
    "/api/generate": {"model": "tiny", "prompt": "Hi"},
}


def ask(route, body, events=EVENTS):
    answers = []

    async def story(client):
        headers = {"Content-Type": "application/json"}
        answers.append(await client.send("POST", route, json.dumps(body), headers))

    talk(story, Script(events=events))
    assert answers[0].status == 200
    return answers[0].body.decode()


def objects(text):
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.strip()]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("route", OPENAI)
def test_openais_choices_hold_warnings(route):
    body = OPENAI[route]
    whole = json.loads(ask(route, body))
    assert whole["choices"][0]["warnings"] == list(WARNINGS)
    choices = [
        c for o in objects(ask(route, {**body, "stream": True})) for c in o["choices"]
    ]
    told = [c for c in choices if "warnings" in c]
    assert [c["warnings"] for c in told] == [list(WARNINGS)]
    assert told == [c for c in choices if c["finish_reason"] is not None]


@pytest.mark.parametrize("route", OTHERS)
def test_the_others_last_object_holds_warnings(route):
    body = OTHERS[route]
    assert json.loads(ask(route, {**body, "stream": False}))["warnings"] == list(
        WARNINGS
    )
    *before, last = objects(ask(route, {**body, "stream": True}))
    assert last["warnings"] == list(WARNINGS)
    assert all("warnings" not in found for found in before)


@pytest.mark.parametrize("route", [*OPENAI, *OTHERS])
def test_an_answer_without_any_has_no_such_field(route):
    body = {**OPENAI, **OTHERS}[route]
    for stream in (True, False):
        text = ask(route, {**body, "stream": stream}, (delta("Hi"), finished()))
        assert "warnings" not in text


def test_picked_fields_of_a_native_answer_keep_them():
    body = {"prompt": "Hi", "response_fields": ["content"]}
    assert set(json.loads(ask("/completion", body))) == {"content", "warnings"}


@pytest.mark.parametrize(
    ("writer", "whole"),
    [(ChatWriter, WholeChat), (TextWriter, WholeText)],
)
def test_each_of_several_choices_has_its_own(writer, whole):
    head = Head(id="x", created=1, model="m", system_fingerprint="k")
    made, summed = writer(head, n_choices=2), whole(head, n_choices=2)
    for index in range(2):
        warnings = (f"{index}",) if index else ()
        end = replace(finished(), index=index, warnings=warnings)
        told = [chunk["choices"][0].get("warnings") for chunk in made.chunks(end)]
        assert told[-1] == (list(warnings) or None)
        summed.add(end)
    choices = summed.to_json({})["choices"]
    assert [choice.get("warnings") for choice in choices] == [None, ["1"]]
