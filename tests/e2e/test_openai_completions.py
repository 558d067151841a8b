"""/v1/completions of the real process on the real model."""

from typing import Any

import pytest

from tests.support.openai_http import (
    TEXT,
    answer,
    ends,
    joined_text,
    post,
    refusal,
    stream,
    without_times,
)

RIVERS = "The longest rivers of the world are the"
FIXED: dict[str, Any] = {"prompt": RIVERS, "max_tokens": 16, "temperature": 0}


def only(body):
    (choice,) = body["choices"]
    return choice


# --- Shapes and streams -------------------------------------------------------------


def test_a_whole_answer_has_openais_shape(server):
    body = answer(server, TEXT, **FIXED)
    assert body["object"] == "text_completion"
    assert body["id"].startswith("cmpl-")
    choice = only(body)
    assert set(choice) == {"text", "index", "logprobs", "finish_reason"}
    assert choice["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 16


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"prompt": "Repeat: 🦊🧵 ёж 漢字\nRepeat:", "max_tokens": 40},
        {"prompt": "a b c d e f g h", "stop": ["e f g"], "max_tokens": 40},
        {"prompt": "a b c d e f g h", "stop": ["e f", "e f g"], "max_tokens": 40},
        {
            "prompt": "The quick brown fox. The quick",
            "stop": ["wn fo"],
            "max_tokens": 20,
        },
        {"prompt": "漢字漢字漢字漢", "stop": ["漢字"], "max_tokens": 30},
        {"logprobs": 2},
        {"logprobs": 1, "echo": True},
        {"echo": True},
        {"max_tokens": 0, "echo": True},
        {
            "prompt": ["one two", "three"],
            "n": 2,
            "temperature": 1,
            "seed": 3,
            "max_tokens": 6,
        },
    ],
)
def test_a_stream_adds_up_to_the_whole_answer(server, fields):
    fields = {**FIXED, **fields}
    whole = answer(server, TEXT, **fields)
    chunks = stream(server, TEXT, **fields)
    reasons = ends(chunks)
    for choice in whole["choices"]:
        i = choice["index"]
        assert joined_text(chunks, i) == choice["text"]
        assert reasons[i] == choice["finish_reason"]
        shapes = [
            c["logprobs"]
            for chunk in chunks
            for c in chunk["choices"]
            if c["index"] == i and c["logprobs"]
        ]
        if choice["logprobs"] is None:
            assert shapes == []
        else:
            for key, values in choice["logprobs"].items():
                assert [v for shape in shapes for v in shape[key]] == values


@pytest.mark.parametrize(
    ("prompt", "stop"),
    [
        ("a b c d e f g h i j k l m n", "p q"),
        ("The quick brown fox jumps. " * 4 + "The quick brown", "x jum"),
        ("漢字漢字漢字漢字漢字漢", "字漢字"),
    ],
)
def test_a_stop_string_across_tokens_ends_the_text_before_it(server, prompt, stop):
    free = only(answer(server, TEXT, prompt=prompt, temperature=0, max_tokens=30))[
        "text"
    ]
    assert stop in free, free
    stopped = only(
        answer(server, TEXT, prompt=prompt, temperature=0, max_tokens=30, stop=[stop])
    )
    assert stopped["text"] == free[: free.index(stop)]
    assert stopped["finish_reason"] == "stop"


def test_usage_comes_only_when_it_is_asked_for(server):
    assert all("usage" not in chunk for chunk in stream(server, TEXT, **FIXED))
    chunks = stream(server, TEXT, **FIXED, stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 16


# --- Prompts ------------------------------------------------------------------------


def test_several_prompts_keep_their_order_and_are_each_what_they_are_alone(server):
    prompts = ["One, two,", "Red, green,", "", "Monday,"]
    body = answer(server, TEXT, **{**FIXED, "prompt": prompts, "max_tokens": 5})
    assert [c["index"] for c in body["choices"]] == [0, 1, 2, 3]
    for prompt, choice in zip(prompts, body["choices"], strict=True):
        alone = only(
            answer(server, TEXT, **{**FIXED, "prompt": prompt, "max_tokens": 5})
        )
        assert choice["text"] == alone["text"]


def test_the_choices_of_each_prompt_stand_together(server):
    fields = {**FIXED, "max_tokens": 4, "temperature": 1.0, "seed": 40}
    body = answer(server, TEXT, **{**fields, "prompt": ["One,", "Red,"]}, n=2)
    for i, (prompt, k) in enumerate(
        [("One,", 0), ("One,", 1), ("Red,", 0), ("Red,", 1)]
    ):
        alone = only(
            answer(server, TEXT, **{**fields, "prompt": prompt, "seed": 40 + k})
        )
        assert body["choices"][i]["text"] == alone["text"]


def test_token_ids_are_the_same_as_their_text(server):
    scored = only(
        answer(server, TEXT, **{**FIXED, "max_tokens": 0}, echo=True, logprobs=0)
    )
    count = len(scored["logprobs"]["tokens"])
    # 504 is " the" here; the text itself is tokenised by the server's own route.
    ids = post(server, "/tokenize", {"content": RIVERS}).json()["tokens"]
    assert len(ids) == count
    by_ids = answer(server, TEXT, **{**FIXED, "prompt": ids})
    by_lists = answer(server, TEXT, **{**FIXED, "prompt": [ids]})
    by_text = answer(server, TEXT, **FIXED)
    assert without_times(by_ids) == without_times(by_text) == without_times(by_lists)
    echoed = only(
        answer(server, TEXT, **{**FIXED, "prompt": ids, "max_tokens": 0}, echo=True)
    )
    assert echoed["text"] == RIVERS


def test_an_empty_prompt_starts_from_the_first_token(server):
    body = answer(server, TEXT, **{**FIXED, "prompt": "", "max_tokens": 3})
    assert body["usage"]["prompt_tokens"] == 1
    assert (
        answer(server, TEXT, **{**FIXED, "prompt": [""], "max_tokens": 3})["choices"]
        == body["choices"]
    )


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ([], "prompt"),
        ([[]], "prompt[0]"),
        (["a", 5], "prompt[1]"),
        (None, "prompt"),
        ([49152], "prompt"),
        ([-1], "prompt"),
        ([2**70], "prompt"),
    ],
)
def test_prompts_that_cannot_be_are_refused(server, prompt, param):
    assert refusal(server, TEXT, **{**FIXED, "prompt": prompt})["param"] == param


# --- Log-probabilities --------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 6, 20])
def test_log_probabilities_come_in_the_older_shape(server, count):
    choice = only(answer(server, TEXT, **FIXED, logprobs=count))
    shape = choice["logprobs"]
    assert list(shape) == ["tokens", "token_logprobs", "top_logprobs", "text_offset"]
    assert {len(values) for values in shape.values()} == {16}
    assert "".join(shape["tokens"]) == choice["text"]
    for token, logprob, top, offset in zip(*shape.values(), strict=True):
        assert len(top) in {max(count, 1), count + 1}
        assert top[token] == logprob
        assert choice["text"].startswith(token, offset)


def test_an_echo_scores_the_prompt_and_its_first_token_has_nothing(server):
    choice = only(
        answer(
            server, TEXT, prompt="The sky is blue", echo=True, logprobs=1, max_tokens=0
        )
    )
    shape = choice["logprobs"]
    assert choice["text"] == "The sky is blue"
    assert choice["finish_reason"] == "length"
    assert shape["tokens"] == ["The", " sky", " is", " blue"]
    assert shape["token_logprobs"][0] is None
    assert shape["top_logprobs"][0] is None
    assert all(logprob < 0 for logprob in shape["token_logprobs"][1:])
    assert shape["text_offset"] == [0, 3, 7, 10]


def test_a_prompts_scores_do_not_depend_on_what_was_run_before(server):
    fields = {
        "prompt": RIVERS,
        "echo": True,
        "logprobs": 1,
        "max_tokens": 1,
        "temperature": 0,
    }
    first = only(answer(server, TEXT, **fields))
    answer(server, TEXT, **FIXED)
    assert only(answer(server, TEXT, **fields)) == first


def test_generated_and_echoed_scores_agree(server):
    written = only(answer(server, TEXT, **{**FIXED, "max_tokens": 4}, logprobs=1))
    echoed = only(
        answer(
            server,
            TEXT,
            prompt=RIVERS + written["text"],
            echo=True,
            logprobs=1,
            max_tokens=0,
        )
    )
    assert (
        echoed["logprobs"]["token_logprobs"][-4:]
        == written["logprobs"]["token_logprobs"]
    )


# --- What lm-evaluation-harness sends -----------------------------------------------


def test_local_completions_scores_batches_of_token_ids(server):
    """The request and the parsing of lm-evaluation-harness's `local-completions`."""
    texts = [
        ("The capital of France is", " Paris"),
        ("The capital of France is", " pizza"),
    ]
    pairs = [
        [post(server, "/tokenize", {"content": part}).json()["tokens"] for part in pair]
        for pair in texts
    ]
    body = answer(
        server, TEXT, model="x", prompt=[context + rest for context, rest in pairs],
        temperature=0, max_tokens=1, logprobs=1, seed=1234, echo=True,
    )  # fmt: skip
    scores = []
    choices = sorted(body["choices"], key=lambda choice: choice["index"])
    for choice, (context, _) in zip(choices, pairs, strict=True):
        logprobs = choice["logprobs"]["token_logprobs"][len(context) : -1]
        tops = choice["logprobs"]["top_logprobs"][len(context) : -1]
        is_greedy = all(
            lp == max(top.values()) for lp, top in zip(logprobs, tops, strict=True)
        )
        scores.append((sum(logprobs), is_greedy))
    assert scores[0][0] > scores[1][0]
    assert scores[0][1]
    assert not scores[1][1]


def test_local_completions_gets_its_generated_texts(server):
    body = answer(
        server, TEXT, model="x", prompt=["One, two,", "Red, green,"], max_tokens=5,
        temperature=0, stop=["\n"], seed=1234,
    )  # fmt: skip
    assert all(choice["text"] for choice in body["choices"])


# --- Refusals -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("suffix", "x"),
        ("best_of", 2),
        ("messages", [{"role": "user", "content": "x"}]),
        ("tools", [{}]),
        ("logprobs", 21),
        ("logprobs", True),
    ],
)
def test_what_is_not_served_is_refused_by_name(server, name, value):
    assert refusal(server, TEXT, **FIXED, **{name: value})["param"] == name
