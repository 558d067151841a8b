"""Drafters for tests: right and wrong drafts on purpose, whatever they cost."""

from __future__ import annotations

import random
from dataclasses import replace

from kinetic.actors.drafting.drafter import Chances, Drafting, DraftOptions, TextDrafter
from kinetic.actors.drafting.model_drafter import ModelDrafter, Worth
from kinetic.actors.messages import Passes, StepCosts

MOST = 15
FREE = Passes(costs=StepCosts(step_s=1.0, extra=(0.0,) * MOST))
"""Passes in which drafted rows cost nothing."""


def always(n):
    """The same number each time."""
    return lambda _: n


def up_to(n):
    """A number from 0 to n."""
    return lambda rng: rng.randint(0, n)


SHAPES = {
    "right": (always(MOST), always(0)),
    "wrong": (always(0), always(MOST)),
    "mixed": (up_to(6), up_to(3)),
}
"""How many tokens of a draft are right, and how many wrong ones follow."""


class Scripts:
    """Drafts along answers that are known beforehand, in the shape that is set now.

    What was not announced is drafted nothing for.
    """

    def __init__(self, *, most=MOST):
        self.shape = SHAPES["right"]
        self._answers = {}
        self._rng = random.Random(5)
        self.drafting = Drafting(make=self._make, most=most)

    def expect(self, job, tokens):
        """A job with this prompt and sampling will be answered so."""
        self._answers[job.prompt, job.sampling] = list(tokens)

    def _make(self, basis):
        job = basis.job
        answer = self._answers.get((job.prompt, job.sampling))
        if answer is None:
            return None
        n_right, n_wrong = self.shape
        rng = random.Random(self._rng.random())
        counts = lambda: (n_right(rng), n_wrong(rng))  # noqa: E731
        return _Scripted(answer, basis.n_vocab, counts)


class _Scripted:
    def __init__(self, answer, n_vocab, counts):
        self._answer = answer
        self._n_vocab = n_vocab
        self._counts = counts
        self._at = 0

    def keep(self, tokens):
        known = self._answer[self._at : self._at + len(tokens)]
        assert list(tokens)[: len(known)] == known, "not the answer it was to be"
        self._at += len(tokens)

    def draft(self, most, passes):
        n_right, n_wrong = self._counts()
        right = self._answer[self._at : self._at + n_right]
        behind = self._answer[self._at + len(right) :][:1] or [0]
        wrong = [(behind[0] + 1 + i) % self._n_vocab for i in range(n_wrong)]
        # What is too much is the slot's to refuse.
        return [*right, *wrong]


class _Eager:
    """The product's drafter, told that rows are free: it drafts whatever it guesses."""

    def __init__(self, inner):
        self._inner = inner
        self.keep = inner.keep
        self.take = inner.take

    def draft(self, most, passes):
        return self._inner.draft(most, replace(FREE, last_s=passes.last_s))


def eager(most=MOST):
    """Drafting from text and constraint that never asks whether it pays."""
    options = DraftOptions(most=most)
    return Drafting(make=lambda basis: _Eager(TextDrafter(basis, options)), most=most)


def thrifty(most=8):
    """Drafting from text and constraint as the server does it."""
    options = DraftOptions(most=most)
    return Drafting(make=lambda basis: TextDrafter(basis, options), most=most)


def eager_model(most=MOST):
    """Drafting that asks the draft model in every step and believes that it is free."""
    options = DraftOptions(most=most)

    def make(basis):
        worth = Worth(chances=Chances((1.0,) * 5))
        return _Eager(ModelDrafter(basis, options, worth, step_s=0.001))

    return Drafting(make=make, most=most)
