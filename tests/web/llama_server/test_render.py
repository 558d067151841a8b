"""From output to llama-server's objects: names, order, values."""

from __future__ import annotations

import json
import math

import pytest

from kinetic.actors.messages import (
    Delta,
    Failed,
    Finished,
    Job,
    PromptMoved,
    PromptScored,
    Started,
)
from kinetic.errors import InternalError
from kinetic.types import (
    ContentPiece,
    Finish,
    SamplingParams,
    Timings,
    TokenLogprob,
    Usage,
)
from kinetic.web.llama_server.render import (
    CompletionWriter,
    Style,
    picked,
    probabilities,
)
from kinetic.web.llama_server.settings import Settings, float32
from kinetic.web.timings import timings_json


def words(text: str) -> list[str]:
    return text.split()


FINAL_KEYS = words(
    "index content tokens id_slot stop model tokens_predicted tokens_evaluated"
    " generation_settings prompt has_new_line truncated stop_type stopping_word"
    " tokens_cached timings"
)
PARTIAL_KEYS = words(
    "index content tokens stop id_slot tokens_predicted tokens_evaluated"
)
SETTINGS_KEYS = words(
    "seed temperature dynatemp_range dynatemp_exponent top_k top_p min_p top_n_sigma"
    " xtc_probability xtc_threshold typical_p repeat_last_n repeat_penalty"
    " presence_penalty frequency_penalty dry_multiplier dry_base dry_allowed_length"
    " dry_penalty_last_n dry_sequence_breakers mirostat mirostat_tau mirostat_eta"
    " adaptive_target adaptive_decay stop max_tokens n_predict n_keep n_discard"
    " ignore_eos stream logit_bias n_probs min_keep grammar grammar_lazy"
    " grammar_triggers preserved_tokens chat_format reasoning_format"
    " reasoning_in_content generation_prompt samplers speculative.types"
    " timings_per_token post_sampling_probs backend_sampling lora"
)
ONLY_WHOLE = words(
    "dry_sequence_breakers stop logit_bias grammar grammar_lazy grammar_triggers"
    " preserved_tokens"
)
TIMINGS_KEYS = words(
    "cache_n prompt_n prompt_ms prompt_per_token_ms prompt_per_second predicted_n"
    " predicted_ms predicted_per_token_ms predicted_per_second"
)
TIMES = Timings(queued_s=0.5, prompt_s=0.25, predicted_s=0.5)


def job(index: int = 0, **fields) -> Job:
    named = {"prompt": (72, 105), "sampling": SamplingParams(seed=3), **fields}
    return Job(request_id="r", index=index, **named)


def writer(*jobs: Job, **style) -> CompletionWriter:
    return CompletionWriter(
        Style(model="m", **style), jobs or (job(),), bytes, ends=(2, 7)
    )


def started(index: int = 0, n_cached: int = 0) -> Started:
    return Started(index=index, slot_id=1, n_prompt=2, n_cached=n_cached)


def delta(text: str, token: int, n: int, index: int = 0, **fields) -> Delta:
    pieces = (ContentPiece(text),) if text else ()
    return Delta(index=index, pieces=pieces, tokens=(token,), n_generated=n, **fields)


def finished(
    reason: str = "limit", *, index: int = 0, n: int = 2, n_cached: int = 0, **finish
) -> Finished:
    return Finished(
        index=index,
        finish=Finish(reason=reason, **finish),
        usage=Usage(n_prompt=2, n_cached=n_cached, n_generated=n),
        timings=TIMES,
        slot_id=1,
    )


def entry(token: int, piece: bytes, logprob: float = -0.5, top=()) -> TokenLogprob:
    return TokenLogprob(token_id=token, piece=piece, logprob=logprob, top=top)


def whole(made: CompletionWriter, *events):
    for event in events:
        made.pieces(event)
    return made.whole()


# --- Whole answers ------------------------------------------------------------------


def test_a_whole_answer_has_llama_servers_names_in_its_order():
    (found,) = whole(
        writer(), started(), delta("a", 97, 1), delta("b", 98, 2), finished()
    )
    assert list(found) == FINAL_KEYS
    assert list(found["generation_settings"]) == SETTINGS_KEYS
    assert list(found["timings"]) == TIMINGS_KEYS


def test_a_whole_answer_tells_its_text_counts_and_end():
    (found,) = whole(
        writer(), started(), delta("a\n", 97, 1), delta("b", 98, 2), finished()
    )
    del found["generation_settings"], found["timings"]
    assert found == {
        "index": 0,
        "content": "a\nb",
        "tokens": [],
        "id_slot": 1,
        "stop": True,
        "model": "m",
        "tokens_predicted": 2,
        "tokens_evaluated": 2,
        "prompt": "Hi",
        "has_new_line": True,
        "truncated": False,
        "stop_type": "limit",
        "stopping_word": "",
        "tokens_cached": 3,
    }


def test_token_ids_come_where_they_are_asked_for():
    (found,) = whole(
        writer(return_tokens=True), delta("a", 97, 1), delta("", 2, 2), finished("eos")
    )
    assert found["tokens"] == [97, 2]


@pytest.mark.parametrize(
    ("finish", "told"),
    [
        ({"reason": "eos"}, ("eos", "", False)),
        ({"reason": "stop", "stop_string": "END"}, ("word", "END", False)),
        ({"reason": "limit"}, ("limit", "", False)),
        ({"reason": "limit", "context_full": True}, ("limit", "", True)),
    ],
)
def test_the_end_is_told_in_llama_servers_words(finish, told):
    (found,) = whole(writer(), finished(**finish))
    assert (found["stop_type"], found["stopping_word"], found["truncated"]) == told


def test_no_token_makes_no_negative_count():
    (found,) = whole(writer(), finished(n=0))
    assert (found["tokens_predicted"], found["tokens_cached"]) == (0, 2)


def test_several_answers_come_in_the_order_of_their_index():
    made = writer(job(0), job(1))
    found = whole(
        made,
        delta("b", 98, 1, index=1),
        finished(index=1),
        delta("a", 97, 1),
        finished(),
    )
    assert [(one["index"], one["content"]) for one in found] == [(0, "a"), (1, "b")]


def test_only_the_fields_asked_for_are_kept():
    paths = ("content", "generation_settings/top_k", "timings/x", "nope", "stop/x")
    (found,) = whole(writer(response_fields=paths), delta("a", 97, 1), finished())
    assert found == {"content": "a", "generation_settings/top_k": 40}


def test_a_path_through_a_list_leads_nowhere():
    assert picked({"a": [1]}, ["a/0", "a"]) == {"a": [1]}


def test_a_prompt_that_is_no_text_is_shown_with_marks():
    (found,) = whole(writer(job(prompt=(0xF0, 0x9F))), finished())
    assert found["prompt"] == "\ufffd"


# --- Streams ------------------------------------------------------------------------


def test_each_token_is_an_event_with_its_id():
    made = writer(stream=True)
    assert made.pieces(started()) == []
    (first,) = made.pieces(delta("a", 97, 1))
    assert list(first) == PARTIAL_KEYS
    assert first == {
        "index": 0,
        "content": "a",
        "tokens": [97],
        "stop": False,
        "id_slot": -1,
        "tokens_predicted": 1,
        "tokens_evaluated": 2,
    }
    (end_of_answer,) = made.pieces(delta("", 2, 2))
    assert (end_of_answer["content"], end_of_answer["tokens"]) == ("", [2])


def test_the_last_event_is_whole_but_for_the_text():
    made = writer(stream=True, return_tokens=True)
    made.pieces(delta("a\n", 97, 1))
    (last,) = made.pieces(finished("eos"))
    assert list(last) == FINAL_KEYS
    assert (last["content"], last["tokens"], last["stop"]) == ("", [], True)
    assert last["has_new_line"]


def test_times_come_with_each_event_where_asked_for():
    plain = writer(stream=True)
    (event,) = plain.pieces(delta("a", 97, 1, timings=TIMES))
    assert "timings" not in event
    made = writer(stream=True, timings_per_token=True)
    made.pieces(started(n_cached=1))
    (event,) = made.pieces(delta("a", 97, 3, timings=TIMES))
    assert event["timings"] == {
        "cache_n": 1,
        "prompt_n": 1,
        "prompt_ms": 250.0,
        "prompt_per_token_ms": 250.0,
        "prompt_per_second": 4.0,
        "predicted_n": 3,
        "predicted_ms": 500.0,
        "predicted_per_token_ms": 250.0,
        "predicted_per_second": 4.0,
    }


def test_progress_is_told_where_asked_for():
    moved = PromptMoved(index=0, n_done=2, seconds=0.1259)
    assert writer(stream=True).pieces(moved) == []
    made = writer(stream=True, return_progress=True)
    made.pieces(started(n_cached=1))
    (event,) = made.pieces(moved)
    assert list(event) == [*PARTIAL_KEYS, "prompt_progress"]
    assert (event["content"], event["tokens"], event["tokens_predicted"]) == (
        "",
        [0],
        0,
    )
    assert event["prompt_progress"] == {
        "total": 2,
        "cache": 1,
        "processed": 2,
        "time_ms": 125,
    }


def test_progress_comes_with_times_where_both_are_asked_for():
    made = writer(stream=True, return_progress=True, timings_per_token=True)
    made.pieces(started())
    (event,) = made.pieces(PromptMoved(index=0, n_done=1, seconds=0.5))
    assert list(event)[-2:] == ["timings", "prompt_progress"]
    assert event["timings"]["prompt_n"] == 1
    assert event["timings"]["predicted_n"] == 0


def test_failures_and_scores_add_nothing():
    made = writer(stream=True)
    assert made.pieces(Failed(index=0, error=InternalError("x"))) == []
    assert made.pieces(PromptScored(index=0, tokens=())) == []


# --- Probabilities ------------------------------------------------------------------


def test_raw_probabilities_are_told_as_logarithms():
    top = ((97, b"a", -0.5), (98, b"b", -1.5))
    assert probabilities([entry(97, b"a", top=top)], post_sampling=False) == [
        {
            "id": 97,
            "token": "a",
            "bytes": [97],
            "logprob": -0.5,
            "top_logprobs": [
                {"id": 97, "token": "a", "bytes": [97], "logprob": -0.5},
                {"id": 98, "token": "b", "bytes": [98], "logprob": -1.5},
            ],
        }
    ]


def test_probabilities_behind_the_samplers_have_names_of_their_own():
    (found,) = probabilities([entry(97, b"a", 1.0)], post_sampling=True)
    assert list(found) == ["id", "token", "bytes", "prob", "top_probs"]


def test_half_a_character_stands_in_bytes_alone():
    (found,) = probabilities([entry(5, b"x\xf0\x9f")], post_sampling=False)
    assert (found["token"], found["bytes"]) == ("x", [120, 0xF0, 0x9F])


def test_a_stream_tells_probabilities_with_the_text_that_they_are_of():
    made = writer(job(n_logprobs=0), stream=True)
    (held,) = made.pieces(delta("", 97, 1))
    assert "completion_probabilities" not in held
    entries = (entry(97, b"a"), entry(98, b"b"))
    (out,) = made.pieces(delta("ab", 98, 2, logprobs=entries))
    assert [one["id"] for one in out["completion_probabilities"]] == [97, 98]


def test_a_whole_answer_tells_all_probabilities_last():
    made = writer(job(n_logprobs=1))
    (found,) = whole(made, delta("a", 97, 1, logprobs=(entry(97, b"a"),)), finished())
    assert list(found) == [*FINAL_KEYS, "completion_probabilities"]
    assert [one["id"] for one in found["completion_probabilities"]] == [97]


def test_a_stream_keeps_nothing_of_what_it_has_sent():
    made = writer(job(n_logprobs=1), stream=True)
    made.pieces(delta("a", 97, 1, logprobs=(entry(97, b"a"),)))
    (last,) = made.pieces(finished())
    assert "completion_probabilities" not in last


# --- Settings and times -------------------------------------------------------------


def test_settings_show_what_the_job_was_given():
    sampling = SamplingParams(
        seed=9,
        temperature=0.8,
        logit_bias=((5, 0.1), (6, -math.inf)),
        samplers=("top_k",),
    )
    given = job(
        sampling=sampling,
        max_tokens=4,
        stops=("x",),
        n_logprobs=2,
        ignore_eos=True,
        settings={"n_keep": 3, "stream": True, "grammar": "g"},
    )
    found = Settings.of(given, ends=(7, 2)).whole()
    assert (found["seed"], found["n_predict"], found["max_tokens"]) == (9, 4, 4)
    assert found["temperature"] == 0.800000011920929
    assert (found["stop"], found["n_probs"], found["samplers"]) == (["x"], 2, ["top_k"])
    assert (found["n_keep"], found["stream"], found["grammar"]) == (3, True, "g")
    assert found["logit_bias"] == [
        {"bias": 0.10000000149011612, "token": 5},
        {"bias": None, "token": 6},
        {"bias": None, "token": 2},
        {"bias": None, "token": 7},
    ]
    json.dumps(found, allow_nan=False)


def test_short_settings_leave_texts_and_lists_out():
    short = Settings.defaults(SamplingParams(), None).short()
    assert list(short) == [key for key in SETTINGS_KEYS if key not in ONLY_WHOLE]
    assert (short["seed"], short["n_predict"]) == (2**32 - 1, -1)
    assert Settings.defaults(SamplingParams(), 5).short()["n_predict"] == 5


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.5, 1e-30])
def test_floats_are_shown_as_c_holds_them(value):
    assert abs(float32(value) - value) <= abs(value) * 2**-24


def test_times_of_one_token_or_none_are_finite():
    for n in (0, 1):
        usage = Usage(n_prompt=2, n_cached=2, n_generated=n)
        found = timings_json(usage, Timings(queued_s=0, prompt_s=0, predicted_s=0))
        assert all(math.isfinite(value) for value in found.values())
        assert (found["prompt_n"], found["predicted_per_second"]) == (0, 0.0)


def test_drafts_are_told_where_there_were_some():
    usage = Usage(n_prompt=2, n_cached=0, n_generated=3, n_drafted=4, n_accepted=2)
    found = timings_json(usage, TIMES)
    assert (found["draft_n"], found["draft_n_accepted"]) == (4, 2)
