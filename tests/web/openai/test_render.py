"""Chunks of both routes, and whole answers, which are their sums."""

import json
from dataclasses import replace

import pytest

from kinetic.actors.messages import Delta, Finished, PromptScored, Started
from kinetic.types import (
    CallPiece,
    ContentPiece,
    Finish,
    ReasoningPiece,
    Timings,
    TokenLogprob,
    ToolCall,
    Usage,
)
from kinetic.web.openai.render import (
    ChatWriter,
    Head,
    TextWriter,
    Totals,
    finish_reason,
)
from kinetic.web.openai.whole import WholeChat, WholeText
from kinetic.web.timings import timings_json

HEAD = Head(id="chatcmpl-1", created=1762171200, model="m", system_fingerprint="k")
USAGE = Usage(n_prompt=25, n_cached=20, n_generated=3)
TIMINGS = Timings(queued_s=0.0, prompt_s=0.5, predicted_s=1.0)


def started(index=0):
    return Started(index=index, slot_id=0, n_prompt=25, n_cached=20)


def delta(*pieces, index=0, logprobs=()):
    return Delta(index=index, pieces=pieces, tokens=(1,), logprobs=tuple(logprobs))


def finished(reason="eos", index=0, usage=USAGE):
    return Finished(
        index=index,
        finish=Finish(reason=reason),
        usage=usage,
        timings=TIMINGS,
        slot_id=0,
    )


def text(words):
    return ContentPiece(words)


def call(index, name="f", arguments='{"a":1}'):
    return CallPiece(index, ToolCall(id=f"id{index}", name=name, arguments=arguments))


def token(piece, logprob=-0.5):
    return TokenLogprob(token_id=1, piece=piece, logprob=logprob)


def written(writer, *events):
    return [chunk for event in events for chunk in writer.chunks(event)]


def deltas(chunks):
    return [chunk["choices"][0]["delta"] for chunk in chunks]


# --- Chat ---------------------------------------------------------------------------


def test_the_role_comes_once_and_first_and_the_last_delta_is_empty():
    chunks = written(
        ChatWriter(HEAD), started(), delta(text("Par")), delta(text("is.")), finished()
    )
    assert deltas(chunks) == [
        {"role": "assistant", "content": ""},
        {"content": "Par"},
        {"content": "is."},
        {},
    ]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None, None, None, "stop"]


def test_every_chunk_has_the_same_head():
    chunks = written(ChatWriter(HEAD), delta(text("a")), finished())
    chunks.append(ChatWriter(HEAD).usage_chunk({}))
    for chunk in chunks:
        assert (chunk["id"], chunk["created"], chunk["model"]) == (
            "chatcmpl-1",
            1762171200,
            "m",
        )
        assert chunk["object"] == "chat.completion.chunk"
    assert chunks[-1]["choices"] == []


def test_an_answer_without_text_still_opens_and_ends():
    assert deltas(written(ChatWriter(HEAD), finished())) == [
        {"role": "assistant", "content": ""},
        {},
    ]


def test_tokens_that_gave_no_text_make_no_chunk():
    assert deltas(written(ChatWriter(HEAD), delta(), delta(), finished())) == [
        {"role": "assistant", "content": ""},
        {},
    ]


def test_reasoning_content_and_calls_come_in_their_order():
    chunks = written(
        ChatWriter(HEAD),
        delta(ReasoningPiece("hm"), text("So: ")),
        delta(call(0), call(1, "g", "{}")),
        finished(),
    )
    assert deltas(chunks)[1:] == [
        {"reasoning_content": "hm"},
        {"content": "So: "},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "id0",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"a":1}'},
                }
            ]
        },
        {
            "tool_calls": [
                {
                    "index": 1,
                    "id": "id1",
                    "type": "function",
                    "function": {"name": "g", "arguments": "{}"},
                }
            ]
        },
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_calls_are_answered_in_the_old_form_where_tools_came_in_it():
    whole = WholeChat(HEAD, has_functions=True)
    events = (delta(call(0)), finished("calls"))
    chunks = written(ChatWriter(HEAD, has_functions=True), *events)
    function = {"name": "f", "arguments": '{"a":1}'}
    assert deltas(chunks)[1:] == [{"function_call": function}, {}]
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"
    for event in events:
        whole.add(event)
    (choice,) = whole.to_json({})["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "function_call": function,
    }
    assert choice["finish_reason"] == "function_call"


@pytest.mark.parametrize(
    ("reason", "has_calls", "word"),
    [
        ("eos", False, "stop"),
        ("stop", False, "stop"),
        ("limit", False, "length"),
        ("eos", True, "tool_calls"),
        ("calls", True, "tool_calls"),
        ("stop", True, "tool_calls"),
        ("limit", True, "length"),
    ],
)
def test_reasons_to_end_in_openais_words(reason, has_calls, word):
    assert finish_reason(Finish(reason=reason), has_calls=has_calls) == word


def test_choices_interleave_by_index_with_a_role_and_an_end_each():
    chunks = written(
        ChatWriter(HEAD, n_choices=2),
        delta(text("a"), index=1),
        delta(text("b"), index=0),
        finished("limit", index=1),
        finished(index=0),
    )
    by_index = [(c["choices"][0]["index"], c["choices"][0]["delta"]) for c in chunks]
    assert by_index == [
        (1, {"role": "assistant", "content": ""}),
        (1, {"content": "a"}),
        (0, {"role": "assistant", "content": ""}),
        (0, {"content": "b"}),
        (1, {}),
        (0, {}),
    ]
    assert all("timings" not in chunk for chunk in chunks)


def test_log_probabilities_stand_in_the_chunk_of_their_text():
    chunks = written(
        ChatWriter(HEAD),
        delta(text("Par"), logprobs=[token(b"Par")]),
        delta(logprobs=[token(b"")]),
        finished(),
    )
    shapes = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert [bool(shape) for shape in shapes] == [False, True, False]
    assert shapes[1]["content"][0]["token"] == "Par"


def test_log_probabilities_that_come_without_text_are_not_lost():
    chunks = written(ChatWriter(HEAD), delta(logprobs=[token(b"x")]))
    assert chunks[1]["choices"][0]["delta"] == {"content": ""}
    assert chunks[1]["choices"][0]["logprobs"]["content"][0]["token"] == "x"


# --- Whole chat answers -------------------------------------------------------------


def whole_chat(*events, logprobs=False):
    whole, totals = WholeChat(HEAD, logprobs=logprobs), Totals()
    for event in events:
        if isinstance(event, Finished):
            totals.add(event)
        whole.add(event)
    return whole.to_json(totals.to_json())


def test_a_whole_answer_is_its_chunks_together():
    found = whole_chat(started(), delta(text("Par")), delta(text("is.")), finished())
    assert found.pop("timings")["predicted_n"] == 3
    assert found == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1762171200,
        "model": "m",
        "system_fingerprint": "k",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Paris."},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 25,
            "completion_tokens": 3,
            "total_tokens": 28,
            "prompt_tokens_details": {"cached_tokens": 20},
        },
    }


def test_content_is_null_only_beside_calls():
    message = whole_chat(delta(call(0)), finished())["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {
            "id": "id0",
            "type": "function",
            "function": {"name": "f", "arguments": '{"a":1}'},
        }
    ]
    assert "reasoning_content" not in message
    assert whole_chat(finished())["choices"][0]["message"]["content"] == ""


def test_text_before_calls_and_reasoning_are_kept():
    message = whole_chat(
        delta(ReasoningPiece("h"), ReasoningPiece("m")),
        delta(text("So"), call(0)),
        finished(),
    )["choices"][0]["message"]
    assert message["reasoning_content"] == "hm"
    assert message["content"] == "So"
    assert len(message["tool_calls"]) == 1


def test_log_probabilities_that_were_asked_for_are_a_list_even_when_empty():
    assert whole_chat(finished(), logprobs=True)["choices"][0]["logprobs"] == {
        "content": []
    }
    assert whole_chat(finished())["choices"][0]["logprobs"] is None
    found = whole_chat(
        delta(text("ab"), logprobs=[token(b"a"), token(b"b")]),
        finished(),
        logprobs=True,
    )
    assert [e["token"] for e in found["choices"][0]["logprobs"]["content"]] == [
        "a",
        "b",
    ]


def test_choices_are_sorted_by_index():
    found = whole_chat(
        delta(text("b"), index=1), delta(text("a")), finished(index=1), finished()
    )
    assert [c["message"]["content"] for c in found["choices"]] == ["a", "b"]


def test_a_whole_answer_says_what_its_stream_says():
    events = (
        delta(ReasoningPiece("h"), logprobs=[token(b"h")]),
        delta(text("So"), call(0), logprobs=[token(b"So"), token(b"")]),
        delta(call(1, "g", "{}"), logprobs=[token(b"x")]),
        finished("calls"),
    )
    chunks = written(ChatWriter(HEAD), *events)
    (choice,) = whole_chat(*events, logprobs=True)["choices"]
    message, told = choice["message"], deltas(chunks)
    assert message["content"] == "".join(d.get("content", "") for d in told)
    assert message["reasoning_content"] == "h"
    calls = [c for d in told for c in d.get("tool_calls", ())]
    assert [{"index": i, **c} for i, c in enumerate(message["tool_calls"])] == calls
    shapes = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    entries = [entry for shape in shapes if shape for entry in shape["content"]]
    assert choice["logprobs"]["content"] == entries
    assert choice["finish_reason"] == chunks[-1]["choices"][0]["finish_reason"]


# --- Text ---------------------------------------------------------------------------


def whole_text(*events, logprobs=False, echoes=()):
    writer = TextWriter(HEAD, echoes=echoes)
    whole = WholeText(HEAD, echoes=echoes, logprobs=logprobs)
    chunks = written(writer, *events)
    for event in events:
        whole.add(event)
    choices = whole.to_json({})["choices"]
    # Whole or streamed, it is the same answer.
    for choice in choices:
        own = [c for k in chunks for c in k["choices"] if c["index"] == choice["index"]]
        assert choice["text"] == "".join(c["text"] for c in own)
        assert choice["finish_reason"] == own[-1]["finish_reason"]
        for key, told in (choice["logprobs"] or {}).items():
            streamed = [e for c in own if c["logprobs"] for e in c["logprobs"][key]]
            assert told == streamed
    return chunks, choices


def test_text_chunks_end_with_an_empty_one_and_its_reason():
    chunks, choices = whole_text(
        started(), delta(text("Par")), delta(), delta(text("is")), finished("limit")
    )
    assert [chunk["choices"][0] for chunk in chunks] == [
        {"text": "Par", "index": 0, "logprobs": None, "finish_reason": None},
        {"text": "is", "index": 0, "logprobs": None, "finish_reason": None},
        {"text": "", "index": 0, "logprobs": None, "finish_reason": "length"},
    ]
    assert choices == [
        {"text": "Paris", "index": 0, "logprobs": None, "finish_reason": "length"}
    ]
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}


def test_an_echo_comes_before_the_answer_once_for_each_choice():
    _, choices = whole_text(
        delta(text("x"), index=1),
        delta(text("y"), index=0),
        delta(text("z"), index=1),
        finished(index=0),
        finished(index=1),
        echoes=["one ", "two "],
    )
    assert [choice["text"] for choice in choices] == ["one y", "two xz"]


def test_an_echo_alone_is_the_whole_text():
    _, choices = whole_text(finished("limit"), echoes=["The sky"])
    assert choices[0]["text"] == "The sky"
    assert choices[0]["finish_reason"] == "length"


def test_a_scored_echo_lists_the_prompts_tokens_and_then_the_answers():
    scored = PromptScored(index=0, tokens=(token(b"The", 0.0), token(b" sky", -2.0)))
    chunks, choices = whole_text(
        started(), scored, delta(text(" is"), logprobs=[token(b" is", -1.0)]), finished(),
        logprobs=True, echoes=["The sky"],
    )  # fmt: skip
    assert choices[0]["text"] == "The sky is"
    assert choices[0]["logprobs"] == {
        "tokens": ["The", " sky", " is"],
        "token_logprobs": [None, -2.0, -1.0],
        "top_logprobs": [None, {" sky": -2.0}, {" is": -1.0}],
        "text_offset": [0, 3, 7],
    }
    assert len(chunks) == 3


def test_a_bos_before_the_echo_is_listed_but_is_no_text():
    scored = PromptScored(index=0, tokens=(token(b"<s>"), token(b"The", -2.0)))
    _, choices = whole_text(scored, finished("limit"), logprobs=True, echoes=["The"])
    assert choices[0]["text"] == "The"
    assert choices[0]["logprobs"]["tokens"] == ["<s>", "The"]
    assert choices[0]["logprobs"]["text_offset"] == [0, 0]


def test_the_end_token_keeps_its_entry_in_the_older_shape():
    _, choices = whole_text(
        delta(logprobs=[token(b"", -0.1)]), finished(), logprobs=True
    )
    assert choices[0]["logprobs"]["token_logprobs"] == [-0.1]


# --- Counts and times ---------------------------------------------------------------


def test_answers_are_summed_and_each_prompt_is_counted_once():
    totals = Totals(n_per_prompt=2)
    totals.add(finished(index=1, usage=Usage(n_prompt=10, n_cached=10, n_generated=4)))
    totals.add(finished(index=0, usage=Usage(n_prompt=10, n_cached=3, n_generated=5)))
    totals.add(finished(index=2, usage=Usage(n_prompt=7, n_cached=0, n_generated=1)))
    totals.add(finished(index=3, usage=Usage(n_prompt=7, n_cached=7, n_generated=1)))
    assert totals.to_json() == {
        "prompt_tokens": 17,
        "completion_tokens": 11,
        "total_tokens": 28,
        "prompt_tokens_details": {"cached_tokens": 3},
    }


def test_drafts_are_told_where_there_were_some():
    totals = Totals()
    for drafted, accepted in ((6, 4), (0, 0), (3, 1)):
        usage = replace(USAGE, n_drafted=drafted, n_accepted=accepted)
        totals.add(finished(usage=usage))
    assert totals.to_json()["completion_tokens_details"] == {
        "accepted_prediction_tokens": 5,
        "rejected_prediction_tokens": 4,
    }
    plain = Totals()
    plain.add(finished())
    assert "completion_tokens_details" not in plain.to_json()


@pytest.mark.parametrize(
    "usage",
    [
        USAGE,
        Usage(n_prompt=5, n_cached=5, n_generated=0),
        Usage(n_prompt=5, n_cached=0, n_generated=1),
    ],
)
@pytest.mark.parametrize("seconds", [0.0, 1e-9, 2.0])
def test_times_are_finite_numbers(usage, seconds):
    found = timings_json(
        usage, Timings(queued_s=0.0, prompt_s=seconds, predicted_s=seconds)
    )
    json.dumps(found, allow_nan=False)
    assert found["prompt_n"] + found["cache_n"] == usage.n_prompt


def test_speeds_leave_out_the_first_token():
    found = timings_json(USAGE, TIMINGS)
    assert found["prompt_per_second"] == 10.0
    assert found["predicted_n"] == 3
    assert found["predicted_per_second"] == 2.0
