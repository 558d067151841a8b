"""/v1/chat/completions of the real process on the real model."""

from typing import Any

import pytest

from tests.support.openai_http import (
    CHAT,
    answer,
    ends,
    joined_chat,
    post,
    refusal,
    stream,
    without_times,
)

HI = [{"role": "user", "content": "Name three rivers."}]
SHORT: dict[str, Any] = {"messages": HI, "max_tokens": 12, "temperature": 0}


def message(body, index=0):
    return body["choices"][index]["message"]


# --- Shapes -------------------------------------------------------------------------


def test_a_whole_answer_has_openais_shape(server):
    body = answer(server, CHAT, **SHORT)
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    (choice,) = body["choices"]
    assert choice["index"] == 0
    assert choice["logprobs"] is None
    assert choice["finish_reason"] == "length"
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"]
    usage = body["usage"]
    assert usage["completion_tokens"] == 12
    assert usage["total_tokens"] == usage["prompt_tokens"] + 12
    assert 0 <= usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_tokens": 1},
        {"max_tokens": 0},
        {"stop": ["\n"], "max_tokens": 60},
        {"temperature": 1.2, "seed": 3, "max_tokens": 30},
        {"logprobs": True, "top_logprobs": 3},
        {"n": 3, "temperature": 1, "seed": 5, "max_tokens": 8},
        {
            "messages": [{"role": "user", "content": "Say 🦊🧵 ёж 漢字 twice."}],
            "max_tokens": 40,
        },
        {"repeat_penalty": 1.3, "presence_penalty": 0.5, "dry_multiplier": 0.8},
        {"mirostat": 2, "temperature": 1, "seed": 1},
        {"grammar": 'root ::= "yes" | "no"', "logprobs": True},
        {"response_format": {"type": "json_schema", "schema": {"type": "integer"}}},
    ],
)
def test_a_stream_adds_up_to_the_whole_answer(server, fields):
    fields = {**SHORT, **fields}
    whole = answer(server, CHAT, **fields)
    chunks = stream(server, CHAT, **fields)
    reasons = ends(chunks)
    for i, choice in enumerate(whole["choices"]):
        joined = joined_chat(chunks, i)
        assert joined["content"] == choice["message"]["content"]
        assert joined["role"] == "assistant"
        assert reasons[i] == choice["finish_reason"]
        entries = [
            entry
            for chunk in chunks
            for streamed in chunk["choices"]
            if streamed["index"] == i and streamed["logprobs"]
            for entry in streamed["logprobs"]["content"]
        ]
        assert entries == (choice["logprobs"] or {"content": []})["content"]


def test_the_role_comes_first_and_the_last_delta_is_empty(server):
    chunks = stream(server, CHAT, **SHORT)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert all(set(delta) == {"content"} for delta in deltas[1:-1])
    assert deltas[-1] == {}
    assert all("finish_reason" in chunk["choices"][0] for chunk in chunks)
    assert ends(chunks) == {0: "length"}
    assert all("usage" not in chunk for chunk in chunks)


def test_a_natural_end_and_a_stop_string_are_both_stop(server):
    natural = answer(
        server, CHAT, messages=[{"role": "user", "content": "Hi"}], temperature=0
    )
    assert natural["choices"][0]["finish_reason"] == "stop"
    text = message(natural)["content"]
    stop = text[3:6]
    stopped = answer(
        server,
        CHAT,
        messages=[{"role": "user", "content": "Hi"}],
        temperature=0,
        stop=stop,
    )
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert message(stopped)["content"] == text[: text.index(stop)]


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}])
def test_usage_comes_only_when_it_is_asked_for(server, options):
    chunks = stream(server, CHAT, **SHORT, stream_options=options)
    assert all("usage" not in chunk for chunk in chunks)
    assert all(chunk["choices"] for chunk in chunks)


def test_usage_comes_in_one_last_chunk_without_choices(server):
    chunks = stream(server, CHAT, **SHORT, stream_options={"include_usage": True})
    assert [bool(chunk["choices"]) for chunk in chunks] == [True] * (
        len(chunks) - 1
    ) + [False]
    assert all("usage" not in chunk for chunk in chunks[:-1])
    assert chunks[-1]["usage"]["completion_tokens"] == 12
    assert ends(chunks[:-1]) == {0: "length"}


def test_an_error_that_can_be_known_before_is_a_status_also_for_a_stream(server):
    long = [{"role": "user", "content": "word " * 3000}]
    for more in ({}, {"stream": True}):
        error = refusal(server, CHAT, messages=long, **more)
        assert error["code"] == "context_length_exceeded"
        assert error["n_ctx"] == 2048
        assert error["n_prompt_tokens"] > 3000
        assert "2048" in error["message"]


def test_a_forced_call_arrives_whole_in_one_delta(server):
    tool = {"type": "function", "function": {"name": "now", "strict": None}}
    fields = {**SHORT, "max_tokens": 60, "tools": [tool], "tool_choice": "required"}
    whole = answer(server, CHAT, **fields)
    (choice,) = whole["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert call["function"] == {"name": "now", "arguments": "{}"}
    chunks = stream(server, CHAT, **fields)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    (told,) = [delta for delta in deltas if "tool_calls" in delta]
    (streamed,) = told["tool_calls"]
    assert streamed["index"] == 0
    assert streamed["id"]
    assert streamed["function"] == call["function"]
    assert ends(chunks) == {0: "tool_calls"}


# --- Several choices ----------------------------------------------------------------


def test_each_choice_is_what_its_seed_alone_gives(server):
    fields = {**SHORT, "temperature": 1.0, "max_tokens": 10}
    whole = answer(server, CHAT, **fields, n=4, seed=100, logprobs=True, top_logprobs=2)
    alone = [
        answer(server, CHAT, **fields, seed=100 + k, logprobs=True, top_logprobs=2)
        for k in range(4)
    ]
    assert [c["index"] for c in whole["choices"]] == [0, 1, 2, 3]
    for choice, single in zip(whole["choices"], alone, strict=True):
        assert choice["message"] == message(single)
        assert choice["logprobs"] == single["choices"][0]["logprobs"]
    assert len({c["message"]["content"] for c in whole["choices"]}) > 1
    usage = whole["usage"]
    assert usage["prompt_tokens"] == alone[0]["usage"]["prompt_tokens"]
    assert usage["completion_tokens"] == sum(
        a["usage"]["completion_tokens"] for a in alone
    )


def test_streamed_choices_interleave_with_one_role_and_one_end_each(server):
    chunks = stream(server, CHAT, **{**SHORT, "temperature": 1.0}, n=3, seed=7)
    assert ends(chunks) == dict.fromkeys(range(3), "length")
    for i in range(3):
        assert joined_chat(chunks, i)["role"] == "assistant"


def test_sixteen_choices_are_served_by_four_slots(server):
    body = answer(server, CHAT, **{**SHORT, "max_tokens": 2, "temperature": 1.0}, n=16)
    assert [c["index"] for c in body["choices"]] == list(range(16))


# --- Seeds --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 7, 2**31, 2**32 - 2])
def test_a_seed_repeats_its_answer(server, seed):
    fields = {**SHORT, "temperature": 1.0, "seed": seed}
    first, second = (without_times(answer(server, CHAT, **fields)) for _ in range(2))
    assert first == second


def test_different_seeds_differ_and_no_seed_is_a_fresh_one(server):
    fields = {**SHORT, "temperature": 1.5, "max_tokens": 20}
    seeded = {
        message(answer(server, CHAT, **fields, seed=s))["content"] for s in range(4)
    }
    assert len(seeded) == 4
    for seed in ({}, {"seed": -1}, {"seed": None}):
        fresh = {
            message(answer(server, CHAT, **fields, **seed))["content"] for _ in range(3)
        }
        assert len(fresh) > 1


# --- Log-probabilities --------------------------------------------------------------


@pytest.mark.parametrize("top", [None, 0, 1, 20])
def test_log_probabilities_have_bytes_and_as_many_alternatives_as_asked_for(
    server, top
):
    body = answer(server, CHAT, **SHORT, logprobs=True, top_logprobs=top)
    choice = body["choices"][0]
    entries = choice["logprobs"]["content"]
    assert len(entries) == 12
    joined = b"".join(bytes(entry["bytes"]) for entry in entries)
    assert joined.decode() == choice["message"]["content"]
    for entry in entries:
        assert len(entry["top_logprobs"]) == (top or 0)
        assert -1e39 < entry["logprob"] <= 0
        if top:
            best = entry["top_logprobs"][0]
            assert best["logprob"] >= entry["logprob"]
            assert best["token"] == entry["token"], "greedy takes the likeliest"


def test_log_probabilities_end_where_a_stop_string_cuts_a_token(server):
    text = message(answer(server, CHAT, **SHORT))["content"]
    entries = answer(server, CHAT, **SHORT, logprobs=True)["choices"][0]["logprobs"][
        "content"
    ]
    # From the second letter of the fourth token on.
    third = len(b"".join(bytes(e["bytes"]) for e in entries[:3]).decode())
    stop = text[third + 1 : third + 4]
    body = answer(server, CHAT, **SHORT, logprobs=True, stop=[stop])
    choice = body["choices"][0]
    assert choice["finish_reason"] == "stop"
    joined = b"".join(bytes(e["bytes"]) for e in choice["logprobs"]["content"])
    assert joined.decode() == choice["message"]["content"] == text[: text.index(stop)]


def test_log_probabilities_are_the_same_beside_tools(server):
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    fields = {**SHORT, "logprobs": True, "tools": [tool], "tool_choice": "none"}
    plain = answer(server, CHAT, **SHORT, logprobs=True)
    with_tools = answer(server, CHAT, **fields)
    assert without_times(with_tools) == without_times(plain)
    assert ends(stream(server, CHAT, **fields)) == {0: "length"}


# --- Messages -----------------------------------------------------------------------


def test_text_in_one_part_is_the_same_as_text(server):
    parts = [{"role": "user", "content": [{"type": "text", "text": HI[0]["content"]}]}]
    fields = {"max_tokens": 12, "temperature": 0, "logprobs": True}
    as_parts = answer(server, CHAT, messages=parts, **fields)
    as_text = answer(server, CHAT, messages=HI, **fields)
    assert without_times(as_parts) == without_times(as_text)
    assert as_parts["usage"]["prompt_tokens"] == as_text["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "developer", "content": "Be brief."}, *HI],
        [{"role": "system", "content": "Be brief."}],
        [*HI, {"role": "assistant", "content": "The"}],
        [{"role": "assistant", "content": "Hello"}, *HI],
        [*HI, *HI],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        [*HI, {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]}, {"role": "tool", "tool_call_id": "c1", "content": "18"}],
        [*HI, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]}, {"role": "tool", "content": "18"}],
        [*HI, {"role": "assistant", "content": "x", "tool_calls": []}, *HI],
        [*HI, {"role": "assistant", "content": "x", "tool_calls": None}, *HI],
    ],
)  # fmt: skip
def test_conversations_of_every_form_are_answered(server, messages):
    body = answer(server, CHAT, messages=messages, max_tokens=2, temperature=0)
    assert body["usage"]["completion_tokens"] in {1, 2}


def called(*pairs):
    """A turn that calls a function once for each id and its arguments' text."""
    calls = [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": text}}
        for i, text in pairs
    ]
    return [*HI, {"role": "assistant", "content": None, "tool_calls": calls}]


def test_half_a_surrogate_pair_in_arguments_is_replaced_for_good(server):
    half = {"messages": called(("c1", r'{"a": "text \ud83d"}'))}
    whole = {"messages": called(("c1", '{"a": "text \ufffd"}'))}
    prompt = answer(server, "/apply-template", **half)["prompt"]
    assert prompt == answer(server, "/apply-template", **whole)["prompt"]
    body = answer(server, CHAT, **half, max_tokens=1)
    assert body["usage"]["completion_tokens"] == 1


def test_results_stand_in_the_order_of_their_calls(server):
    asked = called(("c1", "{}"), ("c2", "{}"))
    results = [
        {"role": "tool", "tool_call_id": i, "content": f"of {i}"} for i in ("c1", "c2")
    ]
    right, swapped = (
        answer(server, "/apply-template", messages=[*asked, *order])["prompt"]
        for order in (results, results[::-1])
    )
    assert right == swapped
    assert right.index("of c1") < right.index("of c2")
    stray = [*asked, {"role": "tool", "tool_call_id": "c3", "content": "x"}]
    assert "messages[2]" in refusal(server, CHAT, messages=stray)["message"]


@pytest.mark.parametrize("arguments", ['{"a":', "[]", "7", '"x"', "nonsense"])
def test_broken_arguments_in_a_history_are_refused_with_their_place(server, arguments):
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }
    messages = [*HI, {"role": "assistant", "content": "", "tool_calls": [call]}]
    error = refusal(server, CHAT, messages=messages, max_tokens=1)
    assert "messages[1].tool_calls[0]" in error["message"]


def test_markers_that_a_user_types_stay_plain_text(server):
    fields = {"max_tokens": 1, "temperature": 0}
    plain = answer(server, CHAT, messages=[{"role": "user", "content": "hi"}], **fields)
    typed = answer(
        server, CHAT, messages=[{"role": "user", "content": "hi<|im_end|>"}], **fields
    )
    extra = typed["usage"]["prompt_tokens"] - plain["usage"]["prompt_tokens"]
    assert extra > 3, "one control token would be one more"


def test_images_are_refused_while_no_model_reads_them(server):
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What?"}, part]}]
    error = refusal(server, CHAT, messages=messages)
    assert error["param"] == "messages[0].content[1]"


def test_the_alias_without_v1_answers_alike(server):
    body = post(server, "/chat/completions", SHORT).json()
    assert without_times(body) == without_times(answer(server, CHAT, **SHORT))


# --- Biases -------------------------------------------------------------------------


def first_token(server, **fields):
    body = answer(
        server,
        CHAT,
        **{**SHORT, "max_tokens": 1},
        logprobs=True,
        top_logprobs=2,
        **fields,
    )
    return body["choices"][0]


def test_a_ban_bans_and_a_force_forces(server):
    free = first_token(server)
    best, second = (t["token"] for t in free["logprobs"]["content"][0]["top_logprobs"])
    for ban in (-100, False):
        banned = first_token(server, logit_bias=[[best, ban]])
        assert banned["message"]["content"] == second
    forced = answer(server, CHAT, **SHORT, logit_bias={"42": 100})
    assert len(set(forced["choices"][0]["message"]["content"])) == 1
    nothings: tuple[object, ...] = ({}, [], None)
    for nothing in nothings:
        assert first_token(server, logit_bias=nothing)["message"] == free["message"]
    # Raw log-probabilities are told before any bias.
    assert (
        banned["logprobs"]["content"][0]["top_logprobs"]
        == free["logprobs"]["content"][0]["top_logprobs"]
    )


@pytest.mark.parametrize(
    "bias",
    [
        {"999999999": 5},
        {"-1": 1},
        {"49152": 1},
        {"15": None},
        [[15]],
        [[15, "x"]],
        {"15": 1000},
    ],
)
def test_a_bias_that_cannot_be_is_refused(server, bias):
    assert refusal(server, CHAT, **SHORT, logit_bias=bias)["param"] == "logit_bias"


def test_five_thousand_biases_are_served(server):
    bias = {str(i): -100 for i in range(5000, 10_000)}
    assert (
        answer(server, CHAT, **SHORT, logit_bias=bias)["usage"]["completion_tokens"]
        == 12
    )


def test_ignore_eos_goes_on_to_the_limit(server):
    fields = {
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0,
        "max_tokens": 60,
    }
    assert answer(server, CHAT, **fields)["choices"][0]["finish_reason"] == "stop"
    on = answer(server, CHAT, **fields, ignore_eos=True)
    assert on["choices"][0]["finish_reason"] == "length"
    assert on["usage"]["completion_tokens"] == 60
