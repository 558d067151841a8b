"""Finding receipts in what people keep, and refusing what is hostile."""

import json

import pytest

from kinetic.errors import ReceiptError
from kinetic.receipts import reading
from tests.support.receipts import sealed_chat

ONE = sealed_chat()
TWO = sealed_chat(signed=False)


def encoded(value):
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (encoded(ONE), [ONE]),
        (json.dumps(ONE, indent=2).encode(), [ONE]),
        (b"\xef\xbb\xbf" + encoded(ONE), [ONE]),
        (encoded([ONE, TWO]), [ONE, TWO]),
        (encoded(ONE) + b"\n\n" + encoded(TWO) + b"\n", [ONE, TWO]),
        (encoded({"id": "x", "choices": [], "receipt": ONE}), [ONE]),
        (encoded({"choices": [{"receipt": ONE}, {}, {"receipt": TWO}]}), [ONE, TWO]),
        (encoded({"done": False}) + b"\n" + encoded({"receipt": ONE}), [ONE]),
        (
            b"data: " + encoded({"choices": [{}]}) + b"\n\n"
            b": a comment\n\n"
            b"data: " + encoded({"receipt": ONE}) + b"\n\ndata: [DONE]\n\n",
            [ONE],
        ),
        (b"data: " + encoded({"receipt": ONE}) + b"\n\n", [ONE]),
        (encoded([{"receipt": ONE}, TWO]), [ONE, TWO]),
    ],
)
def test_receipts_are_found_wherever_they_are_kept(content, found):
    assert reading.receipts_in(content) == found


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"nonsense", "not JSON"),
        (b"{}", "no receipt"),
        (b"3", "no receipt"),
        (b"[[]]", "no receipt"),
        (b"null", "no receipt"),
        (encoded({"receipt": None}), "no receipt"),
        (encoded({"choices": 3}), "no receipt"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "too long"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udc00": 1}', "surrogate"),
        (b"[" * 200 + b"]" * 200, "deep"),
        (b"[" * 1_000_000, "deep"),
        (b'{"a":' * 100_000, "deep"),
        (encoded(ONE) + b"\n{broken\n", "value 2 of 2"),
        (encoded(ONE)[:-1], "not JSON"),
    ],
)
def test_what_holds_none_or_is_hostile_is_refused_in_words(content, said):
    with pytest.raises(ReceiptError, match=said):
        reading.receipts_in(content)


def test_a_file_too_long_is_refused_before_it_is_read():
    with pytest.raises(ReceiptError, match="64 MiB"):
        reading.receipts_in(b" " * (reading.BYTES_MAX + 1))


def test_more_receipts_than_anyone_has_are_refused():
    line = b'{"receipt": {}}\n'
    with pytest.raises(ReceiptError, match="10000 receipts"):
        reading.receipts_in(line * (reading.RECEIPTS_MAX + 1))


def test_key_order_is_kept():
    assert list(reading.json_value('{"b": 1, "a": 2}', ValueError)) == ["b", "a"]
