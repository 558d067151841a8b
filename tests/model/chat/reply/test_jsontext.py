import json
import math
import re

import pytest
from hypothesis import given, strategies as st

from kinetic.model.chat.reply.jsontext import (
    MAX_DEPTH,
    decode,
    encode,
    loads,
    read_object,
)
from kinetic.model.chat.reply.source import Mismatch, Source

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


def read(text: str, watch=None, size: int | None = None):
    """The object at the text's beginning, and what is left behind it."""
    source = Source()
    reader = read_object(source, watch)
    step = size or max(len(text), 1)
    for i in range(0, len(text), step):
        source.feed(text[i : i + step])
        try:
            next(reader)
        except StopIteration as done:
            rest = source.take(len(text)) + text[i + step :]
            return done.value, rest
    source.end(truncated=False)
    try:
        next(reader)
    except StopIteration as done:
        return done.value, ""
    raise AssertionError("the reader waits behind the end")


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.integers(1, 9), st.booleans())
def test_every_object_is_read_up_to_its_end(value, size, is_ascii):
    text = json.dumps(value, ensure_ascii=is_ascii)
    assert read(f"{text} }}", size=size) == (value, " }")


@given(st.text('{}[]":,1-.eE tfn\\u0a', max_size=24), st.integers(1, 9))
def test_what_the_library_refuses_is_refused(tail, size):
    text = "{" + tail
    try:
        expected = json.JSONDecoder(strict=False).raw_decode(text)
    except ValueError:
        with pytest.raises(Mismatch):
            read(text, size=size)
    else:
        value, rest = read(text, size=size)
        assert (value, len(text) - len(rest)) == expected


def test_raw_control_characters_in_strings_are_read():
    assert read('{"a": "x\n\ty"}')[0] == {"a": "x\n\ty"}


@pytest.mark.parametrize(
    "text",
    [
        '{"a" 1}',
        "{a: 1}",
        '{"a": nil}',
        '{"a": 01}x',
        '{"a": "\\x"}',
        '{"a": [1,]}',
        "[]",
    ],
)
def test_a_mismatch_is_known_before_the_end(text: str):
    source = Source()
    reader = read_object(source)
    source.feed(text[:-1])
    with pytest.raises(Mismatch):
        next(reader)


@pytest.mark.parametrize("text", ['{"a": 1', '{"a', "{", '{"a": "b\\', '{"a": tru'])
def test_half_an_object_is_none(text: str):
    with pytest.raises(Mismatch):
        read(text)


def test_nesting_is_bounded():
    def nested(depth: int) -> str:
        return '{"a":' * depth + "0" + "}" * depth

    assert read(nested(MAX_DEPTH))[0]
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(Mismatch):
            read(nested(depth))
    with pytest.raises(Mismatch):
        decode("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2))
    with pytest.raises(Mismatch):
        decode("[" * 100_000)


@pytest.mark.parametrize(
    "text", ["1e999", "-1e999", "NaN", "Infinity", "9" * 5000, "", "a"]
)
def test_what_json_cannot_hand_on_is_no_value(text: str):
    with pytest.raises(Mismatch):
        decode(text)


def test_keys_and_strings_of_the_outermost_object_are_watched():
    seen = []
    read(
        '{"a": "x", "b": {"c": "y"}, "d": 1, "e": ["z"]}',
        lambda *pair: seen.append(pair),
    )
    assert seen == [("a", None), ("a", "x"), ("b", None), ("d", None), ("e", None)]


def test_text_is_encoded_as_it_is():
    assert encode({"a": "é漢🌧\n"}) == '{"a": "é漢🌧\\n"}'


def test_pairs_of_surrogates_are_joined_and_halves_replaced():
    assert encode("\ud83c\udf27") == '"🌧"'
    assert encode({"\udf27": "\ud83cx"}) == '{"\ufffd": "\ufffdx"}'
    encode("\ud83c").encode("utf-8")


def test_no_float_is_written_that_is_no_json():
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(math.inf)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"a": "text \ud83d"}', {"a": "text \ufffd"}),
        (r'{"\uDE00b": ["\udfff"]}', {"\ufffdb": ["\ufffd"]}),
        (r'"\ud83c\udf27"', "🌧"),
        (r'"\udf27\ud83c"', "\ufffd\ufffd"),
        (r'"\\ud83d"', r"\ud83d"),
        ('{"a": "x\ty"}', {"a": "x\ty"}),
    ],
)
def test_halves_in_others_json_are_replaced(text, value):
    assert loads(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("[1e999]", "1e999 is no finite number"),
        ("9" * 5000, "a number of 5000 digits is too long"),
    ],
)
def test_numbers_that_cannot_be_kept_are_refused_in_the_texts_of_others(text, reason):
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        loads(text)
    assert loads(f'["{text}", 1e308, -12345678901234567890]')[0] == text
