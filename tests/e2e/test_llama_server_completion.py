"""/completion of the real process on the real model."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.native_http import LIMIT_S, answer, events, post, read, refusal

CAPITAL = "The capital of France is"
TURN = "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n"
GREEDY: dict[str, Any] = {"prompt": CAPITAL, "temperature": 0, "n_predict": 12}
# The end of the turn made likely: the small model talks on for long otherwise.
ENDED: dict[str, Any] = {
    "prompt": TURN,
    "temperature": 0,
    "n_predict": 60,
    "logit_bias": [[2, 9]],
}


def told(body):
    """What of a final object is not the run's own."""
    times = body.pop("timings")
    assert times["cache_n"] + times["prompt_n"] == body["tokens_evaluated"]
    assert times["predicted_n"] == body["tokens_predicted"]
    settings = body.pop("generation_settings")
    del body["id_slot"]
    settings.pop("stream")
    return {**body, "settings": settings}


# --- Whole and streamed -------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n_predict": 0},
        {"n_predict": 1},
        {"temperature": 1.1, "seed": 7, "n_predict": 24},
        {"stop": ["\n\n"], "n_predict": 24},
        {"stop": ["nited St"], "n_predict": 40, "n_probs": 2},
        {"n_probs": 3},
        {"n_probs": 2, "post_sampling_probs": True, "temperature": 0.9, "seed": 2},
        {"prompt": "Emoji: 😀 😀 😀 😀 ", "n_predict": 10, "n_probs": 1},
        ENDED,
        {"prompt": [504, " capital of France is"]},
        {"grammar": 'root ::= "yes" | "no"', "n_probs": 1},
        {"json_schema": {"type": "integer", "minimum": 3, "maximum": 9}},
        {"samplers": "kt", "temperature": 0.7, "seed": 4},
        {"mirostat": 2, "temperature": 1, "seed": 1},
        {"prompt": ""},
    ],
    ids=str,
)
def test_a_stream_tells_what_the_whole_answer_tells(server, fields):
    asked: dict[str, Any] = {**GREEDY, "seed": 1, "return_tokens": True, **fields}
    whole = answer(server, **asked)
    *pieces, last = events(server, **asked)
    assert "".join(piece["content"] for piece in pieces) == whole["content"]
    assert [t for piece in pieces for t in piece["tokens"]] == whole["tokens"]
    assert len(whole["tokens"]) == whole["tokens_predicted"]
    probabilities = [
        one for piece in pieces for one in piece.get("completion_probabilities", ())
    ]
    assert probabilities == whole.pop("completion_probabilities", [])
    assert last["content"] == ""
    assert last["tokens"] == []
    whole["content"], whole["tokens"] = "", []
    assert told(last) == told(whole)


def test_bytes_of_probabilities_are_the_texts_own(server):
    body = answer(
        server, prompt="Emoji: 😀 😀 😀 😀 ", n_predict=4, temperature=0, n_probs=1
    )
    joined = b"".join(bytes(one["bytes"]) for one in body["completion_probabilities"])
    assert joined == body["content"].encode()


def test_the_likeliest_token_is_the_greedy_one(server):
    body = answer(server, **GREEDY, n_probs=2, return_tokens=True)
    for token, one in zip(
        body["tokens"], body["completion_probabilities"], strict=True
    ):
        first, second = one["top_logprobs"]
        assert one["id"] == first["id"] == token
        assert 0 >= one["logprob"] == first["logprob"] >= second["logprob"]


def test_probabilities_behind_the_samplers_add_up_to_one(server):
    body = answer(
        server,
        prompt=CAPITAL,
        n_predict=5,
        temperature=0.8,
        top_k=3,
        seed=3,
        n_probs=5,
        post_sampling_probs=True,
    )
    for one in body["completion_probabilities"]:
        tops = one["top_probs"]
        assert 1 <= len(tops) <= 3
        assert sum(top["prob"] for top in tops) == pytest.approx(1, abs=1e-5)
        assert one["prob"] in [top["prob"] for top in tops]


# --- Ends ---------------------------------------------------------------------------


def test_each_end_has_its_name(server):
    limit = answer(server, **GREEDY)
    assert (limit["stop_type"], limit["tokens_predicted"]) == ("limit", 12)
    word = answer(server, **GREEDY, stop=["zzz", "."])
    assert (word["stop_type"], word["stopping_word"]) == ("word", ".")
    assert word["content"] == " Paris"
    end = answer(server, **ENDED)
    assert (end["stop_type"], end["stopping_word"]) == ("eos", "")
    assert not any(body["truncated"] for body in (limit, word, end))


def test_banned_ends_let_the_answer_go_on_to_its_limit(server):
    body = answer(server, prompt=TURN, temperature=0, n_predict=40, ignore_eos=True)
    assert (body["stop_type"], body["tokens_predicted"]) == ("limit", 40)
    banned = body["generation_settings"]["logit_bias"]
    assert {"bias": None, "token": 2} in banned


def test_a_time_limit_ends_the_answer_at_a_new_line(server):
    body = answer(
        server,
        prompt="One line each:\n1\n2\n3\n",
        n_predict=400,
        temperature=0,
        t_max_predict_ms=1,
        ignore_eos=True,
    )
    assert body["stop_type"] == "limit"
    assert body["tokens_predicted"] < 400
    assert body["content"].endswith("\n")


def test_lines_that_lose_their_indent_end_the_answer(server):
    body = answer(
        server, prompt="def f(x):\n", n_indent=4, n_predict=200, temperature=0
    )
    assert all(
        line.startswith("    ") for line in body["content"].split("\n")[1:-1] if line
    )


# --- Exactness ----------------------------------------------------------------------


def test_prompts_answered_together_are_answered_as_alone(server):
    prompts = [CAPITAL, "One, two,", TURN, "def f(x):"]
    common: dict[str, Any] = {
        "temperature": 0.9,
        "seed": 11,
        "n_predict": 16,
        "n_probs": 1,
    }
    together = answer(server, prompt=prompts, **common)
    alone = [answer(server, prompt=prompt, **common) for prompt in prompts]
    for one, other in zip(together, alone, strict=True):
        for name in ("content", "completion_probabilities", "tokens_predicted"):
            assert one[name] == other[name]
    assert [one["index"] for one in together] == [0, 1, 2, 3]


def test_answers_of_one_prompt_draw_with_seeds_of_their_own(server):
    common: dict[str, Any] = {"prompt": CAPITAL, "temperature": 1, "n_predict": 12}
    several = answer(server, **common, seed=5, n_cmpl=3)
    assert [one["generation_settings"]["seed"] for one in several] == [5, 6, 7]
    alone = [answer(server, **common, seed=seed)["content"] for seed in (5, 6, 7)]
    assert [one["content"] for one in several] == alone


def test_a_drawn_seed_is_told_and_repeats_the_answer(server):
    common: dict[str, Any] = {"prompt": CAPITAL, "temperature": 1.2, "n_predict": 16}
    first = answer(server, **common)
    seed = first["generation_settings"]["seed"]
    assert answer(server, **common, seed=seed)["content"] == first["content"]


def test_a_repeated_prompt_is_reused_without_changing_the_answer(server):
    prompt = "A long story about a fox, a bear and a river. " * 4
    first = answer(server, **{**GREEDY, "prompt": prompt, "n_probs": 1})
    again = answer(server, **{**GREEDY, "prompt": prompt, "n_probs": 1})
    assert again["timings"]["cache_n"] > 0
    assert again["content"] == first["content"]
    assert again["completion_probabilities"] == first["completion_probabilities"]


# --- Fields -------------------------------------------------------------------------


def test_the_slot_asked_for_is_used(server):
    for slot in (2, 0, 6):
        assert answer(server, **GREEDY, id_slot=slot)["id_slot"] == slot % 4


def test_a_busy_slot_is_waited_for(server):
    with ThreadPoolExecutor(3) as pool:
        made = [pool.submit(answer, server, **GREEDY, id_slot=3) for _ in range(3)]
        found = [one.result(LIMIT_S) for one in made]
    assert {one["id_slot"] for one in found} == {3}
    assert len({one["content"] for one in found}) == 1


@pytest.mark.parametrize("bias", [[[7042, False]], {"7042": False}, {" Paris": False}])
def test_a_banned_token_is_not_drawn(server, bias):
    assert 7042 in answer(server, **GREEDY, return_tokens=True)["tokens"]
    body = answer(server, **GREEDY, logit_bias=bias, return_tokens=True)
    assert 7042 not in body["tokens"]


def test_progress_is_told_from_the_kept_tokens_to_the_whole_prompt(server):
    prompt = "Numbers: " + ", ".join(str(i) for i in range(50))
    found = events(server, prompt=prompt, n_predict=2, return_progress=True)
    told = [one["prompt_progress"] for one in found if "prompt_progress" in one]
    done = [one["processed"] for one in told]
    assert done[0] == told[0]["cache"]
    assert done == sorted(done)
    assert done[-1] == told[-1]["total"] == found[-1]["tokens_evaluated"]


def test_times_come_with_each_token_where_asked_for(server):
    *pieces, last = events(server, **GREEDY, timings_per_token=True)
    assert [one["timings"]["predicted_n"] for one in pieces] == list(range(1, 13))
    spent = [one["timings"]["predicted_ms"] for one in (*pieces, last)]
    assert spent == sorted(spent)


def test_an_answer_is_held_to_its_schema(server):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
        "additionalProperties": False,
    }
    body = answer(server, prompt=TURN, json_schema=schema, n_predict=80, temperature=0)
    assert list(json.loads(body["content"])) == ["city"]


# --- Bad requests -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"grammar": 'root ::= "yes'}, "grammar"),
        ({"grammar": 'answer ::= "y"'}, "grammar"),
        ({"json_schema": {"type": "nope"}}, "json_schema"),
        ({"grammar": 'root ::= "a"', "json_schema": {}}, "json_schema"),
        ({"logit_bias": {"999999999": 5}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": [[49152, 1]]}, "logit_bias"),
        ({"prompt": [49152]}, "49152"),
        ({"prompt": [-1]}, "-1"),
        ({"n_predict": -2}, "n_predict"),
        ({"repeat_penalty": 0}, "repeat_penalty"),
        ({"dry_sequence_breakers": []}, "dry_sequence_breakers"),
        ({"n_probs": 49152}, "n_probs"),
        ({"lora": [{"id": 0, "scale": 1}]}, "lora"),
        ({"n_cmpl": 5}, "n_cmpl"),
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_request_is_refused_by_name_and_hurts_nobody(
    server, fields, named, stream
):
    error = refusal(server, **{**GREEDY, "stream": stream, **fields})
    assert named in error["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1e9, "seed": 1},
        {"top_n_sigma": 1e9, "temperature": 1, "seed": 1},
        {"typical_p": -5, "temperature": 1, "seed": 1},
        {"dynatemp_range": 1e9, "dynatemp_exponent": 1e9, "temperature": 1, "seed": 1},
        {"mirostat": 1, "mirostat_tau": -1e9, "mirostat_eta": 1e9, "seed": 1},
        {"mirostat": 2, "mirostat_tau": 1e9, "mirostat_eta": -1e9, "seed": 1},
        {"dry_multiplier": 1e9, "dry_base": 1e9, "dry_allowed_length": 0},
        {"repeat_penalty": 1e9, "frequency_penalty": -1e9, "presence_penalty": 1e9},
        {"repeat_last_n": 2**31 - 1, "repeat_penalty": 2},
        {"min_keep": 2**31 - 1, "top_p": 0, "temperature": 1, "seed": 1},
        {"logit_bias": [[i, 1e6] for i in range(5000)]},
        {"xtc_probability": 1, "xtc_threshold": 0, "temperature": 1, "seed": 1},
        {"samplers": "kkkkpppp", "seed": 1},
        {"samplers": [], "seed": 1},
    ],
    ids=str,
)
def test_values_at_the_edge_are_answered_and_hurt_nobody(server, fields):
    body = answer(server, **{**GREEDY, "n_predict": 4, **fields})
    assert body["tokens_predicted"] <= 4
    server.health()


def test_a_body_that_is_no_json_is_the_clients_fault(server):
    response = post(server, "/completion", "{")
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_reader_that_leaves_frees_its_slot(server):
    body = {"prompt": CAPITAL, "n_predict": 2000, "stream": True, "ignore_eos": True}
    with httpx.stream(
        "POST", server.root + "/completion", json=body, timeout=LIMIT_S
    ) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("data: ")
        assert server.health()["slots_processing"] != 0
    server.wait_until_idle()
    assert read(server, "/health")["slots_processing"] == 0
