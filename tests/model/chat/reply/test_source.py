import re

import pytest
from hypothesis import given, strategies as st

from kinetic.model.chat.reply.source import Mismatch, Source, overlap, skip_blanks

WORD = re.compile(r"\w+")


def resume(reader):
    """The reader's result, or None if it still waits."""
    try:
        next(reader)
    except StopIteration as done:
        return done.value
    return None


def ended(text: str) -> Source:
    source = Source()
    source.feed(text)
    source.end(truncated=False)
    return source


def test_a_run_waits_for_where_it_ends():
    source = Source()
    reader = source.read_run(WORD)
    assert resume(reader) is None
    source.feed("ab")
    assert resume(reader) is None
    source.feed("c d")
    assert resume(reader) == "abc"
    assert source.now == " "


def test_a_run_ends_with_the_text():
    source = ended("abc")
    assert resume(source.read_run(WORD)) == "abc"
    assert source.exhausted
    assert resume(source.peek()) == ""


def test_the_longest_option_is_chosen():
    source = Source()
    source.feed("ab")
    reader = source.choose(("ab", "abcd", "x"))
    assert resume(reader) is None
    source.feed("ce")
    assert resume(reader) == "ab"
    assert source.offset == 0


def test_options_that_cannot_come_are_not_waited_for():
    source = Source()
    source.feed("y")
    reader = source.choose(("xy", "z"))
    with pytest.raises(StopIteration) as done:
        next(reader)
    assert done.value.value is None


def test_what_is_expected_must_come():
    with pytest.raises(Mismatch):
        next(ended("b").expect("a"))


def test_blanks_are_skipped_up_to_what_follows():
    source = Source()
    source.feed(" \n")
    reader = skip_blanks(source)
    assert resume(reader) is None
    source.feed("\t x")
    assert resume(reader) == "x"
    assert source.offset == 4


def test_marked_text_can_be_read_again_after_any_feeding():
    source = Source()
    source.feed("abc")
    source.take(1)
    outer = source.mark()
    source.take(1)
    inner = source.mark()
    for char in "defg":
        source.feed(char)
        source.take(1)
    source.rewind(inner)
    source.release()
    assert (source.offset, source.take(3), source.marked) == (2, "cde", True)
    source.feed("h")
    source.rewind(outer)
    source.release()
    assert (source.offset, source.take(99), source.marked) == (1, "bcdefgh", False)


def test_what_was_read_without_a_mark_is_let_go():
    source = Source()
    for _ in range(100):
        source.feed("x" * 100)
        source.take(100)
    assert len(source._window) <= 100
    assert source._kept == []


def test_text_stops_before_the_stop_text():
    source = Source()
    source.feed("ab</")
    source.stop_before("</x>")
    assert (source.take(9), source.exhausted) == ("ab", False)
    source.feed("x>c")
    assert (source.exhausted, source.stopped) == (True, True)
    source.stop_before(None)
    assert (source.exhausted, source.take(9)) == (False, "</x>c")


def test_a_tail_that_was_no_stop_text_is_released():
    source = Source()
    source.stop_before("</x>")
    source.feed("a</")
    assert source.take(9) == "a"
    source.feed("y")
    assert source.take(9) == "</y"
    source.feed("</x")
    source.end(truncated=True)
    assert source.take(9) == "</x"
    assert (source.exhausted, source.stopped, source.truncated) == (True, False, True)


def test_a_stop_text_may_lie_in_what_is_given_back():
    source = Source()
    source.stop_before("--")
    source.feed("ab")
    start = source.mark()
    source.take(2)
    source.feed("c--d")
    source.take(9)
    source.rewind(start)
    source.release()
    assert source.take(9) == "abc"
    assert source.stopped


@given(st.text("ab", max_size=8), st.text("ab", min_size=1, max_size=4))
def test_an_overlap_is_the_longest_that_may_go_on(text, stop):
    fits = [n for n in range(len(stop)) if text.endswith(stop[:n])]
    assert overlap(text, stop) == max(fits)


@given(st.text("ab-", max_size=20), st.integers(1, 5))
def test_any_cut_stops_at_the_same_place(text, size):
    source = Source()
    source.stop_before("--")
    read = ""
    for i in range(0, len(text), size):
        source.feed(text[i : i + size])
        read += source.take(99)
    source.end(truncated=False)
    read += source.take(99)
    assert read == text.split("--")[0]
