"""Log-probabilities in both shapes."""

import json

import pytest

from kinetic.types import TokenLogprob
from kinetic.web.openai.logprobs import chat_entry, text_entries, token_text


def entry(piece, logprob=-0.5, top=()):
    return TokenLogprob(token_id=1, piece=piece, logprob=logprob, top=tuple(top))


FOX = "🦊".encode()


def test_a_token_is_told_with_its_bytes():
    found = chat_entry(entry("é".encode(), top=[(1, b"e", -0.1), (2, FOX[:2], -2.0)]))
    assert found == {
        "token": "é",
        "logprob": -0.5,
        "bytes": [195, 169],
        "top_logprobs": [
            {"token": "e", "logprob": -0.1, "bytes": [101]},
            {"token": "bytes:\\xf0\\x9f", "logprob": -2.0, "bytes": [240, 159]},
        ],
    }


def test_no_alternatives_are_an_empty_list():
    assert chat_entry(entry(b"a"))["top_logprobs"] == []


def test_pieces_of_characters_never_read_alike():
    assert token_text(b"\xf0") != token_text(b"\xf1")


def test_the_lowest_log_probability_is_json():
    found = chat_entry(entry(b"a", logprob=-3.4028234663852886e38))
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_older_shape_counts_offsets_in_characters():
    entries = [
        entry("é".encode()),
        entry(FOX[:2]),
        entry(FOX[2:]),
        entry(b"x"),
        entry(b""),
    ]
    found = text_entries(entries, start=10)
    assert found["text_offset"] == [10, 11, 11, 12, 13]
    assert found["tokens"] == ["é", "bytes:\\xf0\\x9f", "bytes:\\xa6\\x8a", "x", ""]


def test_the_older_shape_tells_the_drawn_token_among_the_likeliest():
    found = text_entries([entry(b"a", -3.0, [(2, b"b", -0.1)])], start=0)
    assert found["top_logprobs"] == [{"b": -0.1, "a": -3.0}]
    found = text_entries([entry(b"a", -0.1, [(1, b"a", -0.1)])], start=0)
    assert found["top_logprobs"] == [{"a": -0.1}]


def test_of_two_tokens_with_one_text_the_likelier_stands():
    top = [(1, b"a", -0.1), (2, b"a", -2.0)]
    assert text_entries([entry(b"a", -0.1, top)], start=0)["top_logprobs"] == [
        {"a": -0.1}
    ]


def test_the_first_token_of_a_prompt_has_no_log_probability():
    found = text_entries([entry(b"a"), entry(b"b")], start=0, is_prompt=True)
    assert found["token_logprobs"] == [None, -0.5]
    assert found["top_logprobs"] == [None, {"b": -0.5}]


def test_a_token_before_the_text_stands_at_its_start():
    found = text_entries(
        [entry(b"<s>"), entry(b"ab"), entry(b"c")], start=-3, is_prompt=True
    )
    assert found["text_offset"] == [0, 0, 2]


@pytest.mark.parametrize("start", [0, 5])
def test_no_entries_are_four_empty_lists(start):
    assert text_entries([], start=start) == {
        "tokens": [],
        "token_logprobs": [],
        "top_logprobs": [],
        "text_offset": [],
    }
