"""Where answers stand in what they are held to, and how they go on behind a limit.

llguidance's matchers are copied for each answer; what they share, and when it is given
up, is told at `Constraint`.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinetic.errors import InternalError, RequestError
from kinetic.model.constraints import guidance
from kinetic.model.constraints.json_schema.numbers import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from kinetic.model.constraints.json_schema.judge import Judge

MAX_SHARED_S = 0.5
"""Time of masks after which what matchers share is given up; about 20 MB."""

REPLAYED_AT_ONCE = 256
"""Tokens, about 1 ms; an answer's own are replayed behind a limit."""


class Constraint:
    """What an answer is held to; any thread, shared by generations.

    llguidance's copies share what their lexer has learnt, which makes masks cheap, and
    its limits, which would let one answer spoil another. So what is shared is given up
    once it has grown, and an answer that meets a limit goes on with a new matcher, made
    in another thread: it fails only where one that has learnt nothing fails too.
    """

    def __init__(
        self,
        key: str,
        tokens: guidance.ModelTokens,
        ends: frozenset[int],
        make: Callable[[], guidance.Walker],
        judge: Judge | None = None,
    ) -> None:
        self.key = key
        """Hash of everything that decides which answers are allowed."""
        self.tokens = tokens
        self.ends = ends
        self.make = make
        """Compiles once more: a matcher that shares nothing. May take a second."""
        self.judge = judge
        """Judges a whole answer by what decoding does not hold it to."""
        self._lock = threading.Lock()
        self._shared = make()
        self._spent_s = 0.0
        self._is_given_up = False

    def renew(self) -> None:
        """Compile again if what is shared was given up; where no answer waits."""
        if not self._is_given_up:
            return
        made = self.make()
        with self._lock:
            self._shared, self._spent_s, self._is_given_up = made, 0.0, False

    def matcher(self) -> Matcher:
        """A matcher at the answer's beginning; takes no time to speak of."""
        with self._lock:
            return Matcher(self, self._shared.copy())

    def spend(self, mask_s: float) -> None:
        """Count the time that a matcher's masks took, which grows with its lexer."""
        self._spent_s += mask_s
        if self._spent_s > MAX_SHARED_S:
            self.give_up()

    def give_up(self) -> None:
        """Let later requests start from a lexer that has learnt nothing."""
        self._is_given_up = True


class OutgrownError(Exception):
    """A matcher has met a limit; a renewed one may go on."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What it takes to go on behind a limit, with a lexer that has learnt nothing."""

    constraint: Constraint
    accepted: tuple[int, ...]

    def walker(self) -> guidance.Walker:
        """Compile, and walk to where the answer stands. Takes up to a second.

        Thread: one that nothing waits for. Raises RequestError if a limit is met again,
        and InternalError for other trouble.
        """
        try:
            walker = self.constraint.make()
        except guidance.GrammarRefusedError as error:
            raise RequestError(f"the constraint is too complex: {error}") from error
        # In pieces: the library keeps Python's lock for as long as a piece takes.
        for at in range(0, len(self.accepted), REPLAYED_AT_ONCE):
            piece = list(self.accepted[at : at + REPLAYED_AT_ONCE])
            if walker.replay(piece) < len(piece):
                guidance.check(walker)
                message = "the constraint does not allow what it allowed before"
                raise InternalError(message)
        return walker


class Matcher:
    """Where one answer stands in its constraint.

    Thread: one at a time.
    """

    def __init__(self, constraint: Constraint, native: guidance.Walker) -> None:
        self._constraint = constraint
        self._native = native
        self._renewed_at: int | None = None
        self._accepted: list[int] = []
        self._masker = guidance.Masker(constraint.tokens.n_vocab)

    def mask(self, row: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The row [n_vocab] with -inf for each token that is not allowed now; new.

        The tokens that end an answer are allowed exactly where the answer may end.
        Raises OutgrownError where this has to go on with a renewed one (`renewal`,
        `resume`), RequestError if the constraint is too complex at this point, and
        InternalError if it allows nothing.
        """
        self._fill()
        if self._masker.is_empty():
            if len(self._native.natives) > 1:
                reason = f"the answer would have to nest deeper than {MAX_DEPTH} levels"
                raise RequestError(reason)
            raise InternalError("the constraint allows no token here")
        return self._masker.applied(row)

    def accept(self, token: int) -> None:
        """Go on behind a token; raises InternalError if it is not allowed.

        Where it is but a limit is met, the next mask tells.
        """
        if not self._native.consume(token) and not guidance.is_limit(self._native):
            guidance.check(self._native)
            raise InternalError(f"the constraint does not allow token {token} here")
        self._accepted.append(token)

    def renewal(self) -> Renewal:
        """What to go on with behind a limit, made in another thread."""
        self._constraint.give_up()
        return Renewal(self._constraint, tuple(self._accepted))

    def resume(self, walker: guidance.Walker) -> None:
        """Go on with what a renewal made."""
        self._renewed_at = len(self._accepted)
        self._native = walker

    def _fill(self) -> None:
        start = time.perf_counter()
        self._masker.fill(self._native)
        if self._native.error is not None:
            # Where a renewed one has failed at once, another would too.
            is_new = self._renewed_at == len(self._accepted)
            if guidance.is_limit(self._native) and not is_new:
                raise OutgrownError
            guidance.check(self._native)
        self._constraint.spend(time.perf_counter() - start)

    @property
    def is_complete(self) -> bool:
        """Whether nothing but the end may follow."""
        if not self._native.is_accepting():
            return False
        if self._native.is_stopped():
            return True
        self._fill()
        allowed = self._masker.allowed()
        ends = self._constraint.ends
        return int(allowed.sum()) == sum(bool(allowed[end]) for end in ends)

    def forced(self) -> tuple[int, ...]:
        """Tokens that the text must go on with, as the model would cut it.

        The last one is left out: what follows could be cut together with it. Another
        way of cutting stays allowed, so these are to be proposed, not taken. Asking
        changes nothing: a copy looks ahead, and what is too complex for it gives ().
        """
        text = self._native.forced_text()
        return tuple(self._constraint.tokens.canonical(text)[:-1])
