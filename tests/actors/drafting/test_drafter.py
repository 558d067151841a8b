"""When drafts pay: costs as measured, chances as seen, and what is made of both."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from kinetic.actors.drafting.drafter import (
    LEAST_GAIN,
    PRIOR_ROW,
    SLOWEST,
    Chances,
    DraftBasis,
    Drafting,
    DraftOptions,
    StepClock,
    TextDrafter,
    best_count,
    why_off,
)
from kinetic.actors.messages import Passes, StepCosts

FREE = StepCosts(step_s=1.0, extra=(0.0,) * 15)


def passes(row, *, n_sequences=1, last_s=1.0, most=15):
    """Passes in which each further row costs `row` steps of a second."""
    extra = tuple(row * k for k in range(1, most + 1))
    costs = StepCosts(step_s=1.0, extra=extra)
    return Passes(costs=costs, last_s=last_s, n_sequences=n_sequences)


# --- Whether it pays ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("chances", "row", "count"),
    [
        ([1.0] * 8, 0.7, 8),
        ([0.9] * 8, 0.6, 2),
        ([0.9] * 8, 0.3, 5),
        ([0.7] * 8, 0.7, 0),  # as likely as dear
        ([0.5] * 8, 0.9, 0),
        ([0.5] * 8, 0.0, 8),
        ([0.9, 0.1, 0.9], 0.3, 1),
        ([], 0.0, 0),
    ],
)
def test_as_many_tokens_as_give_the_most_a_second(chances, row, count):
    assert best_count(chances, passes(row)).count == count


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0, 2))
def test_a_draft_is_always_expected_to_be_faster(chances, row):
    choice = best_count(chances, passes(row))
    assert choice.count <= min(len(chances), 15)
    if choice.count:
        assert choice.gain >= LEAST_GAIN
        reach, tokens = 1.0, 1.0
        for chance in chances[: choice.count]:
            reach *= chance
            tokens += reach
        assert choice.gain == pytest.approx(tokens / (1 + row * choice.count))
    else:
        assert choice.gain == 1


def test_nothing_is_drafted_before_a_step_was_measured():
    assert best_count([1.0] * 8, Passes()).count == 0


@pytest.mark.parametrize("n_sequences", [2, 4])
def test_others_wait_hardly_longer_for_rows_that_are_not_theirs(n_sequences):
    # A pass of as many rows as sequences, and drafts that are surely right.
    shared = passes(0.7, n_sequences=n_sequences, last_s=1 + 0.7 * (n_sequences - 1))
    assert best_count([1.0] * 15, shared).count == 0
    cheap = passes(0.01, n_sequences=n_sequences, last_s=1.0)
    count = best_count([1.0] * 15, cheap).count
    assert 0 < count * 0.01 <= SLOWEST / n_sequences


def test_beside_a_long_prompt_a_row_more_is_little():
    shared = passes(0.7, n_sequences=2, last_s=30.0)
    assert best_count([1.0] * 15, shared).count == 2


# --- What passes cost ---------------------------------------------------------------


def test_rows_have_a_guessed_price_until_they_are_measured():
    clock = StepClock(16)
    assert clock.costs.step_s == 0
    clock.saw(0.02, 1)
    assert clock.costs.step_s == 0.02
    assert clock.costs.extra == tuple(PRIOR_ROW * k for k in range(1, 16))


@pytest.mark.parametrize("row", [0.1, 0.5, 1.0])
def test_what_rows_cost_is_learned_from_their_passes(row):
    clock = StepClock(16)
    clock.saw(0.02, 1)
    for _ in range(60):
        clock.saw(0.02 * (1 + 4 * row), 5)
    extra = clock.costs.extra
    assert extra[3] == pytest.approx(4 * row, rel=0.01)
    # Those beside it learn of it, and the further away the less.
    assert abs(extra[4] / 5 - row) <= abs(extra[14] / 15 - row) < abs(PRIOR_ROW - row)
    assert list(extra) == sorted(extra)


def test_a_pause_of_the_machine_ends_no_drafting():
    clock = StepClock(16)
    for _ in range(20):
        clock.saw(0.02, 1)
        clock.saw(0.024, 3)
    before = clock.costs
    clock.saw(3.0, 1)
    clock.saw(3.0, 3)
    assert clock.costs.step_s <= 1.25 * before.step_s
    assert clock.costs.extra[1] <= before.extra[1] + 0.6


def test_old_prices_fade_while_nothing_is_drafted():
    clock = StepClock(16)
    clock.saw(0.02, 1)
    for _ in range(60):
        clock.saw(0.2, 5)
    dear = clock.costs.extra[3]
    for _ in range(64 * 60):
        clock.saw(0.02, 1)
    assert dear > 5
    assert clock.costs.extra[3] == pytest.approx(4 * PRIOR_ROW, rel=0.1)


def test_costs_that_were_handed_out_do_not_change():
    clock = StepClock(16)
    clock.saw(0.02, 1)
    costs = clock.costs
    clock.saw(0.5, 4)
    assert costs == StepCosts(step_s=0.02, extra=costs.extra)
    assert clock.costs is not costs


def test_rows_before_a_step_and_beyond_the_plan_say_nothing():
    clock = StepClock(4)
    clock.saw(1.0, 3)
    assert clock.costs.step_s == 0
    clock.saw(0.02, 1)
    clock.saw(9.0, 5)
    assert clock.costs.extra == tuple(PRIOR_ROW * k for k in range(1, 4))


# --- Chances ------------------------------------------------------------------------


def test_chances_start_as_given_and_follow_what_is_seen():
    chances = Chances((0.3, 0.8))
    assert (chances.of(0), chances.of(1)) == (0.3, 0.8)
    for _ in range(200):
        chances.saw(0, right=True)
    assert chances.of(0) > 0.95
    assert chances.of(1) == 0.8
    for _ in range(60):
        chances.saw(0, right=False)
    assert chances.of(0) < 0.3


# --- Drafting from the text ---------------------------------------------------------


class _Matcher:
    """A constraint that asks for these tokens next."""

    def __init__(self, forced):
        self.tokens = forced

    def forced(self):
        return tuple(self.tokens)


def drafter(prompt, matcher=None, *, ends=(), most=8, least=1):
    basis = DraftBasis(
        slot_id=0,
        job=SimpleNamespace(prompt=tuple(prompt)),
        matcher=matcher,
        n_vocab=1000,
        ends=frozenset(ends),
        n_ctx=512,
    )
    return TextDrafter(basis, DraftOptions(most=most, least=least))


LINE = list(range(100, 130))


def test_repeated_text_is_drafted_once_it_has_been_right():
    found = drafter([*LINE, 7, *LINE[:3]])
    # Three tokens that agree are a weak sign where rows are dear.
    assert found.draft(8, passes(0.7)) == ()
    for at in range(3, 20):
        found.keep([LINE[at]])
    drafted = found.draft(8, passes(0.7))
    assert tuple(drafted) == tuple(LINE[20 : 20 + len(drafted)])
    assert len(drafted) >= 2
    assert len(found.draft(8, passes(0.0))) == 8


def test_text_that_only_seems_to_repeat_is_left_alone():
    found = drafter([])
    for i in range(60):
        # The same four tokens, and each time another one behind them.
        found.keep([1, 2, 3, 4, 200 + i])
    found.keep([1, 2, 3, 4])
    assert found.draft(8, passes(0.3)) == ()


def test_no_more_is_drafted_than_asked_for_and_allowed():
    found = drafter([*LINE, *LINE[:9]], most=5)
    free = Passes(costs=FREE)
    assert found.draft(3, free) == tuple(LINE[9:12])
    assert found.draft(9, free) == tuple(LINE[9:14])


def test_drafts_shorter_than_the_least_are_not_made():
    found = drafter([*LINE, *LINE[:9]], least=4)
    free = Passes(costs=FREE)
    assert found.draft(3, free) == ()
    assert found.draft(4, free) == tuple(LINE[9:13])


def test_ends_and_what_is_no_text_are_never_drafted():
    free = Passes(costs=FREE)
    for strange in (5, -1, 1000):
        text = [*LINE[:12], strange, 1, 2, *LINE[:9]]
        assert drafter(text, ends=[5]).draft(8, free) == tuple(LINE[9:12])


def test_what_a_constraint_leaves_no_choice_about_is_drafted():
    matcher = _Matcher([41, 42, 43])
    found = drafter([1], matcher)
    assert found.draft(8, passes(0.5)) == (41, 42, 43)
    found.keep([41, 42, 43, 44])
    matcher.tokens = ()
    assert found.draft(8, passes(0.5)) == ()


def test_a_constraint_whose_text_is_cut_otherwise_is_soon_left_alone():
    matcher = _Matcher([41, 42, 43])
    found = drafter([1], matcher)
    for i in range(20):
        found.draft(8, passes(0.7))
        found.keep([300 + i])
    assert found.draft(8, passes(0.7)) == ()


# --- Where it cannot be -------------------------------------------------------------


def test_the_reason_is_told_where_nothing_is_drafted():
    on = DraftOptions()
    assert why_off(on, n_rows=16, can_cut=True) == ""
    assert "switched off" in why_off(DraftOptions(most=0), n_rows=16, can_cut=True)
    assert "one row" in why_off(on, n_rows=1, can_cut=True)
    assert "step back" in why_off(on, n_rows=16, can_cut=False)


def test_a_plan_bounds_the_drafts():
    drafting = Drafting(make=lambda _: None, most=20)
    assert drafting.within(16).most == 15
    assert drafting.within(4).most == 3
    assert drafting.within(1) is None
