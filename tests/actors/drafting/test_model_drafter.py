"""When the draft model is asked, how its answers are judged, and when it rests."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kinetic.actors.drafting.drafter import DraftBasis, DraftOptions, TextDrafter
from kinetic.actors.drafting.model_drafter import ModelDrafter, ModelDrafting, Worth
from kinetic.actors.messages import Ask, Passes, StepCosts
from kinetic.model.drafts.draft_model import ModelGuess


def passes(row=0.3, *, n_sequences=1, last_s=1.0):
    """Passes whose steps take a second and whose rows cost `row` of one."""
    costs = StepCosts(step_s=1.0, extra=tuple(row * k for k in range(1, 16)))
    return Passes(costs=costs, last_s=last_s, n_sequences=n_sequences)


def basis(prompt=(1, 2, 3), *, slot_id=0, images=()):
    return DraftBasis(
        slot_id=slot_id,
        job=SimpleNamespace(prompt=tuple(prompt), images=images),
        matcher=None,
        n_vocab=1000,
        ends=frozenset({9}),
        n_ctx=512,
    )


def drafter(worth=None, *, prompt=(1, 2, 3), most=8, least=1):
    options = DraftOptions(most=most, least=least)
    return ModelDrafter(basis(prompt), options, worth or Worth(), step_s=0.1)


def guessed(*tokens, sure=0.9, step_s=0.1, n_steps=None):
    return ModelGuess(
        tokens=tokens,
        chances=(sure,) * len(tokens),
        step_s=step_s,
        n_steps=len(tokens) if n_steps is None else n_steps,
    )


class Text:
    """An answer of ever new tokens, of which some guesses are right."""

    def __init__(self, found):
        self._found = found
        self._next = 100

    def round(self, *, n_right, n_guessed=3, step_s=0.1, row=0.3):
        """Whether the model was asked, and what it then said was judged."""
        ask = self._found.draft(8, passes(row))
        if not isinstance(ask, Ask):
            assert tuple(ask) == ()
            self._found.keep([self._fresh()])
            return False
        right = [self._fresh() for _ in range(n_right)]
        wrong = [0] * (n_guessed - n_right)
        fed = self._found.take(guessed(*right, *wrong, step_s=step_s))
        assert tuple(fed) == (*right, *wrong)
        self._found.keep([*right, self._fresh()])
        return True

    def _fresh(self):
        self._next += 1
        return self._next


def test_the_model_is_told_the_prompt_and_then_what_is_new():
    found = drafter()
    found.keep([4])
    assert found.draft(8, passes()) == Ask(
        first=0, tokens=(1, 2, 3, 4), count=2, least=0.0
    )
    found.take(guessed(5, 6))
    found.keep([5, 7])
    assert found.draft(8, passes()) == Ask(first=4, tokens=(5, 7), count=2, least=0.0)


def test_the_text_is_asked_first():
    line = range(100, 130)
    found = drafter(prompt=[*line, *list(line)[:20]])
    drafted = tuple(found.draft(8, passes(0.0)))
    assert drafted == tuple(line)[20:28]


def test_nothing_is_asked_before_a_step_was_measured():
    assert drafter().draft(8, Passes()) == ()


def test_others_do_not_wait_for_the_draft_model():
    assert drafter().draft(8, passes(n_sequences=2, last_s=2.0)) == ()
    ask = drafter().draft(8, passes(0.1, n_sequences=2, last_s=20.0))
    assert isinstance(ask, Ask)


def test_ends_are_not_checked_and_neither_is_what_is_too_short():
    found = drafter()
    found.draft(8, passes())
    assert found.take(guessed(5, 9, 6)) == (5,)
    found = drafter(least=2)
    found.draft(8, passes())
    assert found.take(guessed(5)) == ()


def test_good_guesses_are_asked_for_again_and_in_full():
    text = Text(found := drafter())
    for _ in range(30):
        assert text.round(n_right=3)
    ask = found.draft(8, passes())
    assert ask.count == 8
    # Rows and guesses cost 0.4 of a step: what is right half of the time still pays.
    assert ask.least <= 0.85


def test_guesses_that_cost_more_than_they_gain_make_the_model_rest():
    worth = Worth()
    text = Text(drafter(worth))
    asked = [text.round(n_right=0) for _ in range(300)]
    assert sum(asked[:10]) == 6
    # Then it rests, and is tried again.
    assert 6 < sum(asked) <= 12
    assert asked.index(True, 10) >= 200


def test_rests_grow_longer_and_outlive_an_answer():
    worth = Worth()
    tries = []
    for _ in range(12):
        # A new answer, the same slot.
        text = Text(drafter(worth))
        tries.append(sum(text.round(n_right=0) for _ in range(300)))
    assert tries[0] > 0
    assert sum(tries) <= 6 * 5
    assert 0 in tries


def test_a_rest_ends_where_guesses_became_good():
    worth = Worth()
    text = Text(drafter(worth))
    for _ in range(20):
        text.round(n_right=0)
    asked = [text.round(n_right=3) for _ in range(600)]
    assert all(asked[-200:])


def test_a_model_that_costs_as_much_as_it_could_gain_is_never_asked():
    text = Text(drafter())
    assert not any(text.round(n_right=3, row=0.9) for _ in range(100))
    text = Text(found := drafter())
    assert text.round(n_right=3)
    found.draft(8, passes())
    found.take(guessed(500, step_s=0.8))
    found.keep([600])
    assert found.draft(8, passes()) == ()


def test_rows_that_turn_out_dear_leave_little_to_gain():
    text = Text(drafter())
    asked = [text.round(n_right=1, row=0.6) for _ in range(100)]
    assert sum(asked) <= 6


def test_a_model_that_is_still_reading_is_not_judged():
    worth = Worth()
    found = drafter(worth)
    for i in range(20):
        assert isinstance(found.draft(8, passes()), Ask)
        assert found.take(ModelGuess()) == ()
        found.keep([50 + i])
    assert worth.is_trial
    assert worth.is_on


@pytest.mark.parametrize("images", [(), ("a picture",)])
def test_pictures_are_for_the_text_drafter_alone(images):
    make = ModelDrafting(DraftOptions(), step_s=0.1)
    found = make(basis(images=images))
    assert isinstance(found, TextDrafter if images else ModelDrafter)


def test_each_slot_judges_for_itself():
    make = ModelDrafting(DraftOptions(), step_s=0.1)
    first, second = make(basis(slot_id=0)), make(basis(slot_id=1))
    text = Text(first)
    for _ in range(20):
        text.round(n_right=0)
    assert first.draft(8, passes()) == ()
    assert isinstance(second.draft(8, passes()), Ask)
    assert make(basis(slot_id=0)).draft(8, passes()) == ()
