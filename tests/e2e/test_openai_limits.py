"""Limits, types and hostile bodies, on the real process, which stays alive."""

import json
from typing import Any

import httpx
import pytest

from tests.support.openai_http import (
    CHAT,
    TEXT,
    answer,
    error_in,
    post,
    refusal,
    stream,
)
from tests.support.server import running_server

HI = [{"role": "user", "content": "Hi"}]
BOTH = pytest.mark.parametrize("route", [CHAT, TEXT])


def fields(route, **more):
    own = {"messages": HI} if route == CHAT else {"prompt": "Hi"}
    return {**own, "temperature": 0, **more}


def raw(server, route, data):
    return httpx.post(
        server.root + route,
        content=data,
        headers={"Content-Type": "application/json"},
        timeout=30,
    )


N_CTX = 256


@pytest.fixture(scope="module")
def server(smollm2_path, tmp_path_factory):
    """The same model with little room, so that going to its end does not take long."""
    flags = ("-np", "4", "-c", str(N_CTX), "-t", "1")
    states = str(tmp_path_factory.mktemp("states"))
    with running_server(smollm2_path, *flags, "--cache-dir", states) as process:
        yield process


@pytest.fixture(autouse=True)
def alive(server):
    """Whatever a test sends, the server answers as before."""
    yield
    assert server.is_alive
    assert server.health()["status"] == "ok"
    assert (
        answer(server, TEXT, prompt="Hi", max_tokens=1)["usage"]["completion_tokens"]
        == 1
    )


# --- Token limits -------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("limit", "count"),
    [
        ({"max_tokens": 0}, 0),
        ({"max_tokens": 1}, 1),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 5}, 5),
        ({"n_predict": 5}, 5),
    ],
)
def test_a_token_limit_is_held_to_the_token(server, route, limit, count):
    body = answer(server, route, **fields(route, ignore_eos=True), **limit)
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == count
    chunks = stream(
        server,
        route,
        **fields(route, ignore_eos=True),
        **limit,
        stream_options={"include_usage": True},
    )
    assert chunks[-1]["usage"]["completion_tokens"] == count


@BOTH
@pytest.mark.parametrize(
    "limit",
    [
        {},
        {"max_tokens": None},
        {"max_tokens": 10**9},
        {"max_tokens": 10**30},
        {"n_predict": -1},
    ],
)
def test_no_limit_and_a_huge_one_go_to_the_end_of_the_context(server, route, limit):
    prompt = "word " * 240
    own = (
        {"messages": [{"role": "user", "content": "word " * 220}]}
        if route == CHAT
        else {"prompt": prompt}
    )
    body = answer(server, route, **own, temperature=0, ignore_eos=True, **limit)
    usage = body["usage"]
    assert usage["total_tokens"] == N_CTX
    assert body["choices"][0]["finish_reason"] == "length"


@BOTH
@pytest.mark.parametrize("value", [-1, -2, 2.5, "5", True, [], {}])
def test_other_limits_are_refused(server, route, value):
    assert (
        refusal(server, route, **fields(route, max_tokens=value))["param"]
        == "max_tokens"
    )


# --- The context --------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("count", [N_CTX, N_CTX + 1, 10 * N_CTX])
def test_a_prompt_that_leaves_no_room_is_refused_with_both_numbers(
    server, route, count, streamed
):
    own = (
        {"prompt": [504] * count}
        if route == TEXT
        else {"messages": [{"role": "user", "content": " the" * count}]}
    )
    error = refusal(server, route, **own, stream=streamed)
    assert error["code"] == "context_length_exceeded"
    assert error["type"] == "exceed_context_size_error"
    assert error["n_ctx"] == N_CTX
    assert error["n_prompt_tokens"] >= count
    assert str(error["n_prompt_tokens"]) in error["message"]
    assert str(N_CTX) in error["message"]


@pytest.mark.parametrize("streamed", [False, True])
def test_the_longest_prompt_that_fits_still_gets_one_token(server, streamed):
    prompt = [504] * (N_CTX - 1)
    if streamed:
        chunks = stream(
            server,
            TEXT,
            prompt=prompt,
            ignore_eos=True,
            stream_options={"include_usage": True},
        )
        usage, reason = chunks[-1]["usage"], chunks[-2]["choices"][0]["finish_reason"]
    else:
        body = answer(server, TEXT, prompt=prompt, ignore_eos=True)
        usage, reason = body["usage"], body["choices"][0]["finish_reason"]
    assert usage["completion_tokens"] == 1
    assert reason == "length"


# --- Types and ranges ---------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "0.7"), ("temperature", "hot"), ("temperature", True), ("temperature", -1),
        ("top_p", 1.0001), ("top_p", "1"), ("seed", 2**32), ("seed", 2**63), ("seed", 2**64), ("seed", 1.5),
        ("seed", "7"), ("n", 0), ("n", 17), ("n", 1000), ("stop", ""), ("stop", [""]), ("stop", ["x", ""]),
        ("stop", [1]), ("stop", [str(i) for i in range(17)]), ("stream", "yes"), ("temprature", 1),
        ("grammar", 5), ("response_format", {"type": "nope"}), ("mirostat", 3), ("repeat_penalty", 0),
        ("frequency_penalty", 3), ("dry_sequence_breakers", []), ("logit_bias", {"abc": None}),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_name(server, route, name, value):
    error = refusal(server, route, **fields(route, **{name: value}))
    assert error["param"].startswith(name)
    assert name in error["message"]


@BOTH
@pytest.mark.parametrize(
    "more",
    [
        {"temperature": 100}, {"temperature": 1e-30}, {"temperature": 1e-5}, {"top_p": 0}, {"top_p": 1e-30},
        {"top_k": -1}, {"top_k": 0}, {"top_k": 10**9}, {"min_p": 1}, {"min_p": 0}, {"typical_p": 0},
        {"typical_p": 1e-9}, {"top_n_sigma": 0}, {"top_n_sigma": 1000}, {"top_n_sigma": 1e-30},
        {"xtc_probability": 1, "xtc_threshold": 0}, {"repeat_penalty": 0.01}, {"repeat_penalty": 100},
        {"presence_penalty": -2, "frequency_penalty": 2}, {"repeat_last_n": -1, "repeat_penalty": 2},
        {"dry_multiplier": 100, "dry_base": 100, "dry_allowed_length": 0}, {"mirostat": 1, "mirostat_tau": 0},
        {"mirostat": 2, "mirostat_tau": 100, "mirostat_eta": 1}, {"mirostat": 1, "mirostat_eta": 0},
        {"dynatemp_range": 100}, {"dynatemp_range": 1, "dynatemp_exponent": 0}, {"min_keep": 2**31 - 1},
        {"samplers": []}, {"samplers": "t"}, {"stop": None}, {"stop": []}, {"stop": "漢"},
        {"dry_multiplier": 1, "dry_sequence_breakers": [chr(0x4E00 + i) for i in range(32)]},
        {"logit_bias": {str(i): -100 for i in range(10_000)}},
    ],
)  # fmt: skip
def test_every_value_within_its_range_is_served(server, route, more):
    given = fields(route, temperature=1.0, max_tokens=3, seed=1) | more
    body = answer(server, route, **given, logprobs=True if route == CHAT else 2)
    assert body["usage"]["completion_tokens"] >= 1


@BOTH
@pytest.mark.parametrize("streamed", [False, True])
def test_biases_that_leave_nothing_to_draw_are_the_clients_fault(
    server, route, streamed
):
    bans = [[word, False] for word in ("yes", "ye", "y")]
    given = fields(route, grammar='root ::= "yes"', logit_bias=bans, stream=streamed)
    assert refusal(server, route, **given)["param"] == "logit_bias"


# --- Hostile bodies -----------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b'{"prompt":"\xff\xfe"}', '{"prompt":"漢字"}'.encode("gbk"),
        '{"prompt":"x"}'.encode("utf-16"), b'{"prompt":"\xc0\xaf"}', b'{"temperature":NaN}',
        b'{"temperature":Infinity}', b'{"temperature":1e400}', b'{"seed":' + b"9" * 5000 + b"}",
        b'{"prompt":"x \\ud83d"}', b'{"stop":"\\ude00 y"}', b'{"messages":[{"role":"user","content":"\\ud83d"}]}',
        b'{"x":' + b"[" * 3000 + b"]" * 3000 + b"}", b'{"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b'{"x":' + b"[" * 1_000_000,
    ],
)  # fmt: skip
def test_a_body_that_is_no_json_is_a_400(server, route, data):
    response = raw(server, route, data)
    assert response.status_code == 400
    error = error_in(response)
    assert error["type"] == "invalid_request_error"
    assert error["message"].isascii()


def nested(depth):
    value: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        value = {"type": "object", "properties": {"a": value}}
    return value


@pytest.mark.parametrize(
    "more",
    [
        {
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "f", "parameters": nested(450)},
                }
            ]
        },
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": nested(450)},
            }
        },
        {"chat_template_kwargs": nested(450)},
    ],
)
def test_deep_schemas_are_refused(server, more):
    assert "128" in refusal(server, CHAT, **fields(CHAT), **more)["message"]


def test_deep_arguments_in_a_history_are_no_fault_of_the_server(server):
    deep = '{"a":' + "[" * 5000 + "]" * 5000 + "}"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": deep}}
    messages = [
        *HI,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "x"},
    ]
    assert (
        post(server, CHAT, {"messages": messages, "max_tokens": 1}).status_code == 400
    )


def test_many_choices_and_prompts_wait_for_their_slots(server):
    body = answer(
        server,
        TEXT,
        prompt=["a", "b", "c", "d", "e", "f", "g", "h"],
        n=16,
        max_tokens=1,
        temperature=1,
    )
    assert [c["index"] for c in body["choices"]] == list(range(128))
    assert refusal(server, TEXT, prompt=["a"] * 9, n=16)["param"] == "n"
    assert refusal(server, TEXT, prompt=["a"] * 65)["param"] == "prompt"


def test_a_body_of_many_megabytes_does_not_stop_the_others(server):
    big = json.dumps({"prompt": "x" * (20 << 20)})
    response = raw(server, TEXT, big)
    assert response.status_code == 400
    error = error_in(response)
    assert error["code"] == "context_length_exceeded"
    assert error["n_prompt_tokens"] > 1_000_000
    assert "about" in error["message"]
