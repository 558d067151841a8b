"""Golden lines: what a client reads, byte for byte."""

import json
from datetime import UTC, datetime

import pytest
from ollama import ChatResponse, GenerateResponse

from kinetic.actors.messages import Delta, Finished
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
from kinetic.web.http.written import dumps
from kinetic.web.ollama.render import Renderer, chat_shape, generate_shape

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
HEAD = '{"model":"m","created_at":"2026-01-02T03:04:05.000678Z",'
STATS = (
    '"total_duration":3250000000,"load_duration":250000000,"prompt_eval_count":11,'
    '"prompt_eval_duration":1000000000,"eval_count":7,"eval_duration":2000000000}'
)


def delta(*pieces, logprobs=()):
    return Delta(index=0, pieces=pieces, tokens=(), logprobs=logprobs)


def finished(reason="eos", n_cached=0):
    return Finished(
        index=0,
        finish=Finish(reason=reason),
        usage=Usage(n_prompt=11, n_cached=n_cached, n_generated=7),
        timings=Timings(queued_s=0.25, prompt_s=1.0, predicted_s=2.0),
        slot_id=0,
    )


def call(index, name, arguments):
    made = ToolCall(id=f"call{index:05d}", name=name, arguments=arguments)
    return CallPiece(index=index, call=made)


def streamed(shape, events, end=None, n_logprobs=None):
    renderer = Renderer(shape, "m", n_logprobs)
    lines = [dumps(line) for event in events for line in renderer.lines(event, NOW)]
    return [*lines, dumps(renderer.last_line(end or finished(), NOW))]


def whole(shape, events, end=None, n_logprobs=None):
    return dumps(Renderer(shape, "m", n_logprobs).whole(events, end or finished(), NOW))


ANSWER = [
    delta(ReasoningPiece("Let me ")),
    delta(),
    delta(ReasoningPiece("think"), ContentPiece("Par")),
    delta(ContentPiece("is"), ContentPiece(".")),
]


def test_a_chat_streams_thinking_then_text_then_the_counts():
    assert streamed(chat_shape, ANSWER) == [
        HEAD
        + '"message":{"role":"assistant","content":"","thinking":"Let me "},"done":false}',
        HEAD
        + '"message":{"role":"assistant","content":"","thinking":"think"},"done":false}',
        HEAD + '"message":{"role":"assistant","content":"Par"},"done":false}',
        HEAD + '"message":{"role":"assistant","content":"is."},"done":false}',
        HEAD
        + '"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",'
        + STATS,
    ]


def test_a_chat_as_a_whole_has_the_same_text():
    assert whole(chat_shape, ANSWER) == (
        HEAD
        + '"message":{"role":"assistant","content":"Paris.","thinking":"Let me think"},'
        '"done":true,"done_reason":"stop",' + STATS
    )


def test_generate_has_its_text_at_the_top():
    assert streamed(generate_shape, ANSWER) == [
        HEAD + '"response":"","thinking":"Let me ","done":false}',
        HEAD + '"response":"","thinking":"think","done":false}',
        HEAD + '"response":"Par","done":false}',
        HEAD + '"response":"is.","done":false}',
        HEAD + '"response":"","done":true,"done_reason":"stop",' + STATS,
    ]
    assert whole(generate_shape, ANSWER) == (
        HEAD
        + '"response":"Paris.","thinking":"Let me think","done":true,"done_reason":"stop",'
        + STATS
    )


def test_calls_come_whole_before_the_end_with_their_arguments_as_objects():
    events = [
        delta(ContentPiece("Wait.")),
        delta(call(0, "f", '{"b":1,"a":{"x":[null,"ё"]}}'), call(1, "g", "{}")),
    ]
    calls = (
        '"tool_calls":[{"id":"call00000","function":{"index":0,"name":"f","arguments":'
        '{"b":1,"a":{"x":[null,"ё"]}}}},{"id":"call00001","function":{"index":1,'
        '"name":"g","arguments":{}}}]'
    )
    end = finished("calls")
    assert streamed(chat_shape, events, end) == [
        HEAD + '"message":{"role":"assistant","content":"Wait."},"done":false}',
        HEAD
        + '"message":{"role":"assistant","content":"",'
        + calls
        + '},"done":false}',
        HEAD
        + '"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",'
        + STATS,
    ]
    assert whole(chat_shape, events, end) == (
        HEAD
        + '"message":{"role":"assistant","content":"Wait.",'
        + calls
        + '},"done":true,'
        '"done_reason":"stop",' + STATS
    )


@pytest.mark.parametrize(
    ("reason", "told"),
    [("eos", "stop"), ("stop", "stop"), ("calls", "stop"), ("limit", "length")],
)
def test_the_reason_of_the_end_is_stop_or_length(reason, told):
    (line,) = streamed(chat_shape, [], finished(reason))
    assert json.loads(line)["done_reason"] == told


def test_an_answer_without_a_token_still_ends_with_counts():
    assert streamed(generate_shape, [delta()]) == [
        HEAD + '"response":"","done":true,"done_reason":"stop",' + STATS
    ]


def test_the_prompts_count_is_full_when_it_was_reused():
    (line,) = streamed(chat_shape, [], finished(n_cached=10))
    assert json.loads(line)["prompt_eval_count"] == 11


def test_load_and_unload_are_one_object_without_counts():
    renderer = Renderer(generate_shape, "m")
    assert dumps(renderer.loaded(NOW, unloads=False)) == (
        HEAD + '"response":"","done":true,"done_reason":"load"}'
    )
    renderer = Renderer(chat_shape, "m")
    assert dumps(renderer.loaded(NOW, unloads=True)) == (
        HEAD
        + '"message":{"role":"assistant","content":""},"done":true,"done_reason":"unload"}'
    )


def entry(piece, *top):
    return TokenLogprob(token_id=1, piece=piece, logprob=-0.5, top=top)


LOGGED = [
    delta(
        ContentPiece("a"),
        logprobs=(entry(b"a", (1, b"a", -0.5), (2, b"\xf0\x9f", -1.0)),),
    ),
    delta(logprobs=(entry(b"\xf0\x9f"),)),
]


def test_log_probabilities_stand_on_the_line_of_their_text_or_on_an_empty_one():
    first, second, last = (
        json.loads(line) for line in streamed(chat_shape, LOGGED, n_logprobs=2)
    )
    assert first["logprobs"] == [
        {
            "token": "a",
            "logprob": -0.5,
            "bytes": [97],
            "top_logprobs": [
                {"token": "a", "logprob": -0.5, "bytes": [97]},
                {"token": "\ufffd", "logprob": -1.0, "bytes": [240, 159]},
            ],
        }
    ]
    assert second["message"]["content"] == ""
    assert second["logprobs"] == [
        {"token": "\ufffd", "logprob": -0.5, "bytes": [240, 159], "top_logprobs": []}
    ]
    assert "logprobs" not in last
    everything = json.loads(whole(chat_shape, LOGGED, n_logprobs=2))
    assert everything["logprobs"] == first["logprobs"] + second["logprobs"]


def test_alternatives_are_left_out_where_none_were_asked_for():
    first, *_ = streamed(generate_shape, LOGGED, n_logprobs=0)
    assert "top_logprobs" not in first


def test_the_official_client_takes_every_line():
    events = [*ANSWER, delta(call(0, "f", '{"a":1}')), *LOGGED]
    for line in streamed(chat_shape, events, n_logprobs=2):
        ChatResponse.model_validate_json(line)
    read = ChatResponse.model_validate_json(whole(chat_shape, events))
    assert read.message.tool_calls is not None
    assert read.message.tool_calls[0].function.arguments == {"a": 1}
    for line in streamed(generate_shape, events, n_logprobs=2):
        GenerateResponse.model_validate_json(line)


def test_no_line_holds_null_type_or_error():
    events = [*ANSWER, delta(call(0, "f", '{"a":1}')), *LOGGED]
    for line in streamed(chat_shape, events) + streamed(generate_shape, events):
        assert "null" not in line
        assert not {"type", "error"} & json.loads(line).keys()
