"""Guessing from repeated text: the same however the text came, and always plausible."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kinetic.model.drafts.repeats import LONGEST, SHORTEST, RepeatIndex

# Few different tokens, so that a lot repeats; pictures stand as negative ones.
TEXTS = st.lists(st.integers(-2, 4), max_size=120)


def index(tokens=(), capacity=256):
    return RepeatIndex(tokens, capacity=capacity)


def grown(tokens, capacity=256):
    found = index(capacity=capacity)
    for token in tokens:
        found.append(token)
    return found


@given(TEXTS, TEXTS)
def test_a_text_taken_at_once_is_found_as_one_that_grew(first, second):
    at_once, bit_by_bit = index(first), grown(first)
    assert at_once._before == bit_by_bit._before
    assert at_once._newest == bit_by_bit._newest
    for token in second:
        at_once.append(token)
        bit_by_bit.append(token)
    assert at_once._before == bit_by_bit._before
    assert len(at_once) == len(first) + len(second)


@given(TEXTS, st.integers(0, 20))
def test_what_is_guessed_followed_the_same_tokens_before(text, count):
    found = grown(text)
    guesses = found.guesses(count)
    n = found.n_matched
    if n == 0:
        assert guesses == []
        assert found.guess is None
        return
    assert SHORTEST <= n <= LONGEST
    assert len(guesses) == count
    assert guesses[:1] in ([found.guess], [])
    end = [*text[len(text) - n :], *guesses[:1]]
    places = [i for i in range(len(text) - len(end) + 1) if text[i:][: len(end)] == end]
    assert places


@given(TEXTS)
def test_every_repetition_of_the_last_tokens_is_found(text):
    last = text[len(text) - SHORTEST :]
    repeats = len(text) > SHORTEST and any(
        text[i : i + SHORTEST] == last for i in range(len(text) - SHORTEST)
    )
    # 256 hashes for at most 343 threes: others may stand in front of the right one.
    found = grown(text, capacity=1 << 16)
    assert (found.n_matched >= SHORTEST) == repeats


@pytest.mark.parametrize("text", [[], [1], [1, 2], [1, 2, 3], [5, 5, 5], [1, 2, 1, 2]])
def test_short_texts_repeat_nothing(text):
    assert index(text).guesses(4) == []


def test_the_longer_match_wins_over_the_newer_place():
    old, new = [9, 1, 2, 3, 7], [8, 1, 2, 3, 6]
    assert index([*old, *new, 9, 1, 2, 3]).guesses(2) == [7, 8]


def test_the_newest_of_equal_places_wins():
    assert index([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3]).guesses(1) == [8]


def test_a_text_that_repeats_itself_goes_on_so():
    assert index([4, 1, 2, 3, 1, 2, 3, 1, 2, 3]).guesses(7) == [1, 2, 3, 1, 2, 3, 1]


def test_a_guess_that_comes_true_is_read_on_from_its_place():
    text = list(range(20))
    found = index([*text, *text[:3]])
    for token in text[3:19]:
        assert found.guess == token
        found.append(token)
    assert found.n_matched == 19
    found.append(99)
    assert found.guess is None


def test_long_texts_need_no_more_than_their_table_and_eight_bytes_a_token():
    n = 200_000
    found = index([i * 7919 % 50_000 for i in range(n)], capacity=n)
    size = found._newest.itemsize * len(found._newest)
    assert size <= 1 << 19
    assert len(found._before) == len(found._tokens) == n
