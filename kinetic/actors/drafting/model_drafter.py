"""Drafting with a second, smaller model. Pure: no threads, no clock.

Its guesses cost its own steps on top of the rows that check them, so they must be right
more often than those which the text gives for nothing. Whether they are is tried a few
rounds at a time, and then again, ever more rarely, where it was not worth it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinetic.actors.drafting.drafter import (
    LEAST_GAIN,
    SLOWEST,
    Chances,
    DraftBasis,
    Drafter,
    DraftOptions,
    TextDrafter,
)
from kinetic.actors.messages import Ask, Passes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.model.drafts.draft_model import ModelGuess

_TRIAL_ROUNDS = 6
_TRIAL_COUNT = 2  # tokens of a draft while it is not known whether they pay
_PAUSE = 256  # tokens of answers
_LONGEST_PAUSE = 8192
_FORGETTING = 0.95
_SURENESS = (0.5, 0.7, 0.85, 0.95)  # how sure the model was of a guess
_PRIORS = (0.3, 0.5, 0.7, 0.8, 0.92)


@dataclass(slots=True)
class Worth:
    """Whether a slot's guesses gain more time than they cost; outlives its answers."""

    chances: Chances = field(default_factory=lambda: Chances(_PRIORS))
    _gained: float = 0.0  # steps saved lately
    _spent: float = 0.0
    _rounds: int = 0
    _pause: int = 0  # tokens until the next trial
    _next_pause: int = _PAUSE

    @property
    def is_on(self) -> bool:
        """Whether guesses are to be asked for now."""
        return self._pause <= 0

    @property
    def is_trial(self) -> bool:
        """Whether it is not known yet if they pay."""
        return self._rounds < _TRIAL_ROUNDS

    def kept(self, count: int) -> None:
        """An answer grew by `count` tokens."""
        self._pause = max(self._pause - count, 0)

    def saw(self, gained: float, spent: float) -> None:
        """A round of guesses saved and cost this many steps."""
        self._gained = self._gained * _FORGETTING + gained
        self._spent = self._spent * _FORGETTING + spent
        self._rounds += 1
        if self.is_trial or self._gained >= self._spent * LEAST_GAIN:
            if not self.is_trial:
                self._next_pause = _PAUSE
            return
        self._pause = self._next_pause
        self._next_pause = min(2 * self._next_pause, _LONGEST_PAUSE)
        self._gained = self._spent = 0.0
        self._rounds = 0


class ModelDrafter:
    """Drafts from the text where that pays, and else asks the draft model."""

    def __init__(
        self, basis: DraftBasis, options: DraftOptions, worth: Worth, step_s: float
    ) -> None:
        self._text = TextDrafter(basis, options)
        self._options = options
        self._ends = basis.ends
        self._worth = worth
        self._untold = list(basis.job.prompt)
        self._n_told = 0
        self._step_s = step_s  # of the draft model
        self._passes = Passes()
        self._guess: tuple[tuple[int, float], ...] = ()  # fed, with how sure it was
        self._spent = 0.0

    def keep(self, tokens: Sequence[int]) -> None:
        """The answer goes on with these tokens; the last guess is judged by them."""
        if self._guess:
            self._judge(tokens)
        self._text.keep(tokens)
        self._untold.extend(tokens)
        self._worth.kept(len(tokens))

    def _judge(self, tokens: Sequence[int]) -> None:
        n_right = 0
        for (guessed, sure), token in zip(self._guess, tokens, strict=False):
            right = guessed == token
            self._worth.chances.saw(bisect_right(_SURENESS, sure), right=right)
            if not right:
                break
            n_right += 1
        self._worth.saw(n_right, self._spent)
        self._guess = ()

    def draft(self, most: int, passes: Passes) -> Sequence[int] | Ask:
        """What the text gives, or a question to the draft model, or nothing."""
        found = self._text.draft(most, passes)
        most = min(most, self._options.most)
        costs = passes.costs
        if found or not self._worth.is_on or costs.step_s <= 0:
            return found
        if self._worth.is_trial:
            most = min(most, _TRIAL_COUNT)
        each = self._step_s / costs.step_s + costs.extra[0]
        if each * LEAST_GAIN >= 1:
            # Not even guesses that are always right would pay.
            return ()
        if passes.n_sequences > 1:
            # The others would wait for the draft model and for the rows.
            room = SLOWEST / passes.n_sequences * passes.last_s / costs.step_s
            most = min(most, int(room / each))
        least = 0.0 if self._worth.is_trial else self._least_sure(each)
        if most < self._options.least or least > 1:
            return ()
        self._passes = passes
        ask = Ask(
            first=self._n_told, tokens=tuple(self._untold), count=most, least=least
        )
        self._n_told += len(self._untold)
        self._untold.clear()
        return ask

    def _least_sure(self, each: float) -> float:
        """How sure the model must be of a token for it to pay; above 1: never."""
        chances = self._worth.chances
        bounds = (0.0, *_SURENESS)
        for kind, bound in enumerate(bounds):
            if chances.of(kind) >= each * LEAST_GAIN:
                return bound
        return 2.0

    def take(self, guess: ModelGuess) -> Sequence[int]:
        """What the draft model answered; returns what is to be checked."""
        if guess.step_s > 0:
            self._step_s = guess.step_s
        pairs = tuple(zip(guess.tokens, guess.chances, strict=True))
        for i, (token, _) in enumerate(pairs):
            if token in self._ends:
                pairs = pairs[:i]
                break
        if len(pairs) < self._options.least:
            pairs = ()
        costs = self._passes.costs
        self._spent = guess.n_steps * guess.step_s / costs.step_s
        if pairs:
            self._spent += costs.extra[len(pairs) - 1]
            self._guess = pairs
        elif guess.n_steps:
            self._worth.saw(0.0, self._spent)
        return tuple(token for token, _ in pairs)


class ModelDrafting:
    """Makes the drafters of all slots; each slot's draft model is judged by itself."""

    def __init__(self, options: DraftOptions, step_s: float) -> None:
        """Take how long the draft model needs for a token."""
        self._options = options
        self._step_s = step_s
        self._worths: dict[int, Worth] = {}

    def __call__(self, basis: DraftBasis) -> Drafter:
        """The drafter of one answer. Thread: its slot's."""
        worth = self._worths.setdefault(basis.slot_id, Worth())
        if basis.job.images:
            # The draft model cannot read pictures.
            return TextDrafter(basis, self._options)
        return ModelDrafter(basis, self._options, worth, self._step_s)
