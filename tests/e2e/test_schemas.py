"""What answers are held to, and judged by, in every API of the real process."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.support.openai_http import CHAT, answer, post, refusal, stream

HI = [{"role": "user", "content": "Say hello."}]
BROKEN = {
    "type": "array",
    "items": {"const": 0},
    "minItems": 2,
    "maxItems": 2,
    "uniqueItems": True,
}
"""Any answer breaks it."""
SAID = 'the answer: it breaks "uniqueItems" of the schema, at /'
TOOL: dict[str, Any] = {
    "name": "f",
    "parameters": {
        "type": "object",
        "properties": {"a": BROKEN},
        "required": ["a"],
    },
}


def tools(**changes):
    return [{"type": "function", "function": {**TOOL, **changes}}]


def format_of(schema, **more):
    return {"type": "json_schema", "json_schema": {"schema": schema, **more}}


def test_a_choice_tells_what_its_answer_breaks(server):
    fields = {"messages": HI, "response_format": format_of(BROKEN), "temperature": 0}
    (choice,) = answer(server, CHAT, **fields)["choices"]
    assert json.loads(choice["message"]["content"]) == [0, 0]
    assert choice["finish_reason"] == "stop"
    assert choice["warnings"] == [SAID]
    told = [c for chunk in stream(server, CHAT, **fields) for c in chunk["choices"]]
    assert [c.get("warnings") for c in told if c["finish_reason"]] == [[SAID]]


def test_an_answer_that_was_cut_is_not_judged(server):
    fields = {"messages": HI, "response_format": format_of(BROKEN), "max_tokens": 2}
    (choice,) = answer(server, CHAT, **fields)["choices"]
    assert choice["finish_reason"] == "length"
    assert "warnings" not in choice


def test_a_forced_calls_arguments_are_judged(server):
    fields = {"messages": HI, "tools": tools(), "tool_choice": "required"}
    (choice,) = answer(server, CHAT, **fields)["choices"]
    assert choice["finish_reason"] == "tool_calls"
    said = 'call 0, f: it breaks "uniqueItems" of the schema, at /a'
    assert choice["warnings"] == [said]


def test_strict_refuses_what_could_only_be_judged(server):
    wanted = format_of(BROKEN, strict=True)
    error = refusal(server, CHAT, messages=HI, response_format=wanted)
    assert error["param"] == "response_format.json_schema.schema"
    assert '"uniqueItems" cannot be held' in error["message"]
    fields = {"messages": HI, "tools": tools(strict=True), "tool_choice": "required"}
    error = refusal(server, CHAT, **fields)
    assert error["param"] == "tools[0].function.parameters"
    assert "at /properties/a/uniqueItems" in error["message"]
    fine = {"type": "array", "items": {"const": 0}, "maxItems": 1}
    wanted = format_of(fine, strict=True)
    assert answer(server, CHAT, messages=HI, response_format=wanted)["choices"]


def test_ollamas_last_object_tells_what_the_answer_breaks(server):
    model = httpx.get(f"{server.root}/api/tags").json()["models"][0]["name"]
    body = {"model": model, "messages": HI, "format": BROKEN}
    whole = post(server, "/api/chat", {**body, "stream": False}).json()
    assert whole["warnings"] == [SAID]
    lines = post(server, "/api/chat", body).text.splitlines()
    assert json.loads(lines[-1])["warnings"] == [SAID]


def test_the_native_final_object_tells_what_the_answer_breaks(server):
    body = {"prompt": "Hi", "json_schema": BROKEN}
    assert post(server, "/completion", body).json()["warnings"] == [SAID]


JSON_MODE: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": (CHAT, {"messages": HI, "response_format": {"type": "json_object"}}),
    "completions": (
        "/v1/completions",
        {"prompt": "Hi", "response_format": {"type": "json_object"}},
    ),
    "native": ("/completion", {"prompt": "Hi", "json_schema": {}}),
    "ollama": ("/api/generate", {"prompt": "Hi", "format": "json", "stream": False}),
}


@pytest.mark.parametrize("api", JSON_MODE)
def test_json_mode_is_an_object_whose_numbers_end(server, api):
    path, fields = JSON_MODE[api]
    body = {**fields, "temperature": 1.5, "seed": 3}
    limits = {"max_tokens": 40} if "v1" in path else {"n_predict": 40}
    if api == "ollama":
        model = httpx.get(f"{server.root}/api/tags").json()["models"][0]["name"]
        body = {"model": model, **fields, "options": {"num_predict": 40, "seed": 3}}
        limits = {}
    found = post(server, path, {**body, **limits})
    assert found.status_code == 200, found.text
    told = found.json()
    if "choices" in told:
        choice = told["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
    else:
        text = told.get("content", told.get("response"))
    assert text.startswith("{")


def test_a_number_ends_by_itself(server):
    fields = {"messages": HI, "json_schema": {"type": "number"}, "temperature": 2}
    bias = [[str(digit), 20] for digit in range(10)]
    for seed in range(3):
        found = answer(server, CHAT, **fields, seed=seed, logit_bias=bias)
        (choice,) = found["choices"]
        assert choice["finish_reason"] == "stop"
        assert abs(float(choice["message"]["content"])) < 1e308
