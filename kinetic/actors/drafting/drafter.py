"""When drafts pay, and what to draft. Pure: no threads, no clock.

A pass that checks k drafted tokens gives 1 to k + 1 tokens and costs more than a plain
one: on a processor most of a step for every row. So a draft must be likely to be right.
How likely is learned on the answer itself, also while nothing is drafted: every guess
is compared with the token that came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from kinetic.actors.messages import Ask, Passes, StepCosts
from kinetic.model.drafts.repeats import RepeatIndex

if TYPE_CHECKING:
    from kinetic.model.constraints.matching import Matcher
    from kinetic.model.drafts.draft_model import ModelGuess
    from kinetic.model.job import Job

PRIOR_ROW: Final = 0.7
"""What one more row costs in steps, until it is measured."""

LEAST_GAIN: Final = 1.05
"""Tokens a second, against not drafting, from which on a draft is worth its trouble."""

SLOWEST: Final = 0.1
"""How much longer all drafts together may make a pass that others share."""


# --- What passes cost ---------------------------------------------------------------


class StepClock:
    """Measures what rows cost, from the passes that are run anyway."""

    _SMOOTHING = 0.2
    _MOST_OFF = 0.25  # of a step: how far one pass can be from what is expected
    _RELAX_EVERY = 64  # plain steps
    _RELAXING = 0.1

    def __init__(self, most_rows: int) -> None:
        self._prior = tuple(PRIOR_ROW * k for k in range(1, most_rows))
        self._n_plain = 0
        self.costs = StepCosts(extra=self._prior)
        """Replaced, never changed: it may be handed to other threads."""

    def saw(self, seconds: float, n_rows: int) -> None:
        """Take a pass of one sequence that generates, with nothing beside it."""
        if n_rows == 1:
            self._saw_step(seconds)
        elif self.costs.step_s > 0 and n_rows <= len(self._prior) + 1:
            self._saw_rows(seconds, n_rows - 1)

    def _saw_step(self, seconds: float) -> None:
        costs = self.costs
        step_s = costs.step_s or seconds
        # Bounded: a pause of the machine says nothing about steps, so that the middle
        # of what is seen counts and not the mean.
        off = _bounded(seconds - step_s, self._MOST_OFF * step_s)
        extra = costs.extra
        self._n_plain += 1
        if self._n_plain % self._RELAX_EVERY == 0:
            # What rows cost depends on the context's length: what was measured in
            # another conversation must not stand for ever.
            extra = _mixed(extra, self._prior, lambda _: self._RELAXING)
        self.costs = StepCosts(step_s=step_s + self._SMOOTHING * off, extra=extra)

    def _saw_rows(self, seconds: float, k: int) -> None:
        costs = self.costs
        known = costs.extra[k - 1] / k
        seen = (seconds / costs.step_s - 1) / k
        row = max(known + _bounded(seen - known, self._MOST_OFF), 0.0)
        line = tuple(row * j for j in range(1, len(self._prior) + 1))
        # Neighbours learn less of it the further away they are.
        extra = _mixed(
            costs.extra, line, lambda j: self._SMOOTHING / 2 ** (abs(j - k) / 2)
        )
        self.costs = StepCosts(step_s=costs.step_s, extra=extra)


def _bounded(value: float, most: float) -> float:
    return max(-most, min(value, most))


def _mixed(
    old: Sequence[float], new: Sequence[float], weight: Callable[[int], float]
) -> tuple[float, ...]:
    pairs = enumerate(zip(old, new, strict=True), 1)
    return tuple(a + weight(k) * (b - a) for k, (a, b) in pairs)


# --- Whether it pays ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How many tokens to draft, and how much faster that is expected to be."""

    count: int
    gain: float


def best_count(chances: Iterable[float], passes: Passes) -> Choice:
    """How many drafted tokens give the most tokens a second; 0: none pays.

    Args:
        chances: For each token, how likely it is right if those before it are.
        passes: The passes it would be checked in.
    """
    costs = passes.costs
    best = Choice(count=0, gain=1.0)
    if costs.step_s <= 0:
        return best
    base_s, slowest = costs.step_s, None
    if passes.n_sequences > 1:
        # The others wait for the drafted rows and gain nothing by them.
        base_s = max(passes.last_s, costs.step_s)
        slowest = SLOWEST / passes.n_sequences
    tokens = reach = 1.0
    for count, (chance, steps) in enumerate(zip(chances, costs.extra, strict=False), 1):
        longer = steps * costs.step_s / base_s
        if slowest is not None and longer > slowest:
            break
        reach *= chance
        tokens += reach
        gain = tokens / (1 + longer)
        if gain >= LEAST_GAIN and gain > best.gain:
            best = Choice(count=count, gain=gain)
    return best


class Chances:
    """How often guesses of each kind were right lately."""

    _WEIGHT = 4.0  # how many guesses the first estimate stands for
    _MOST = 40.0  # guesses that are remembered, so that the estimate can change

    def __init__(self, priors: Sequence[float]) -> None:
        self._right = [prior * self._WEIGHT for prior in priors]
        self._seen = [self._WEIGHT] * len(priors)

    def of(self, kind: int) -> float:
        """The share of right ones, from 0 to 1."""
        return self._right[kind] / self._seen[kind]

    def saw(self, kind: int, *, right: bool) -> None:
        """Take one more guess."""
        if self._seen[kind] >= self._MOST:
            keep = 1 - 1 / self._MOST
            self._right[kind] *= keep
            self._seen[kind] *= keep
        self._right[kind] += right
        self._seen[kind] += 1


# --- Drafters -----------------------------------------------------------------------


class Drafter(Protocol):
    """Guesses one answer's tokens. Thread: the slot's."""

    def keep(self, tokens: Sequence[int]) -> None:
        """The answer goes on with these tokens."""

    def draft(self, most: int, passes: Passes) -> Sequence[int] | Ask:
        """Up to `most` tokens that are worth checking; none where it does not pay.

        Wrong ones cost time, never exactness: whatever comes back is only compared
        with what is drawn. Or a question, whose answer `take` makes them of.
        """

    def take(self, guess: ModelGuess) -> Sequence[int]:
        """What is to be checked, now that the draft model has answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOptions:
    """How much may be drafted."""

    most: int = 8
    """Tokens of one draft; 0 is off."""
    least: int = 1
    """Drafts of fewer tokens are not made."""


def why_off(options: DraftOptions, *, n_rows: int, can_cut: bool) -> str:
    """Why nothing is drafted; "" where it is.

    Args:
        options: What the operator asked for.
        n_rows: Rows of one answer that the plan runs in a pass.
        can_cut: Whether the model's memory can drop its last tokens.
    """
    if options.most < 1:
        return "switched off"
    if n_rows < 2:  # noqa: PLR2004 - one to draw from, one to check
        return "the plan runs one row of an answer at a time"
    if not can_cut:
        return "this model's memory cannot step back behind a wrong guess"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBasis:
    """What a drafter is told of the answer it is for."""

    slot_id: int
    job: Job
    matcher: Matcher | None
    """Where the answer stands in its constraint; to be read between draws alone."""
    n_vocab: int
    ends: frozenset[int]
    """Tokens that end an answer."""
    n_ctx: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """How slots draft."""

    make: Callable[[DraftBasis], Drafter | None]
    """Makes the drafter of one answer, or none; called in its slot's thread."""
    most: int
    """Drafted tokens that a pass may check for one answer, at least 1."""

    def within(self, n_rows: int) -> Drafting | None:
        """The same for passes of at most `n_rows` rows a sequence; None: no drafts."""
        most = min(self.most, n_rows - 1)
        return replace(self, most=most) if most > 0 else None


_LENGTHS = (4, 6, 9, 16)  # matched tokens at which a guess counts as better
_PRIORS = (0.3, 0.45, 0.6, 0.75, 0.85, 0.9)
_FORCED = len(_LENGTHS) + 1


class TextDrafter:
    """Drafts what the text repeats, and what a constraint leaves no choice about.

    Costs a plain step about 5 microseconds, and 20 to 100 more where the answer is
    held to a constraint.
    """

    def __init__(self, basis: DraftBasis, options: DraftOptions) -> None:
        self._basis = basis
        self._options = options
        self._chances = Chances(_PRIORS)
        self._index = RepeatIndex(basis.job.prompt, capacity=basis.n_ctx)
        self._forced: tuple[int, ...] = ()  # what the constraint asked for last

    def keep(self, tokens: Sequence[int]) -> None:
        """The answer goes on with these tokens; every guess is judged by them."""
        for token, forced in zip(tokens, self._forced, strict=False):
            self._chances.saw(_FORCED, right=token == forced)
            if token != forced:
                break
        self._forced = ()
        index = self._index
        for token in tokens:
            if index.n_matched:
                kind = _kind(index.n_matched)
                self._chances.saw(kind, right=token == index.guess)
            index.append(token)

    def draft(self, most: int, passes: Passes) -> Sequence[int]:
        """The better of the two guesses, as long as it pays."""
        most = min(most, self._options.most)
        if self._basis.matcher is not None:
            self._forced = self._basis.matcher.forced()
        forced, repeated = self._forced[:most], self._repeated(most)
        if not forced and not repeated:
            return ()
        by_force = best_count((self._chances.of(_FORCED) for _ in forced), passes)
        n_matched = self._index.n_matched
        kinds = (_kind(n_matched + i) for i in range(len(repeated)))
        by_text = best_count(map(self._chances.of, kinds), passes)
        if by_force.gain >= by_text.gain:
            found, count = forced, by_force.count
        else:
            found, count = tuple(repeated), by_text.count
        return found[:count] if count >= self._options.least else ()

    def take(self, guess: ModelGuess) -> Sequence[int]:
        """Nobody was asked."""
        return guess.tokens

    def _repeated(self, most: int) -> list[int]:
        """What the text may repeat, up to what no answer goes on with."""
        basis, found = self._basis, self._index.guesses(most)
        for i, token in enumerate(found):
            if not 0 <= token < basis.n_vocab or token in basis.ends:
                return found[:i]
        return found


def _kind(n_matched: int) -> int:
    return bisect_right(_LENGTHS, n_matched)
