"""Drawing a generation's tokens from logits, and checking drafted ones on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kinetic.actors.messages import Drawn
from kinetic.errors import InternalError, KineticError
from kinetic.model.constraints.matching import OutgrownError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from kinetic.model.constraints.guidance import Walker
    from kinetic.model.constraints.matching import Matcher, Renewal
    from kinetic.model.sampler_chain import TokenSampler


@dataclass(frozen=True, slots=True)
class Draws:
    """What the rows of one pass gave."""

    drawn: tuple[Drawn, ...]
    """Every one but the last was drafted right."""
    n_right: int
    """Drafted tokens that stand in front of the last drawn one, or of the error."""
    is_over: bool
    """Nothing follows: an end, a limit, or an error."""
    error: KineticError | None = None
    """Why no token could be drawn from the next row."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A pass of which some rows may have to wait."""

    drawn: tuple[Drawn, ...]
    """What was drawn from the rows before."""
    rows: npt.NDArray[np.float32]
    """[n, n_vocab] float32: those left."""
    drafted: tuple[int, ...]
    most: int
    ends: frozenset[int]


class TokenSource:
    """Draws one generation's tokens: the constraint first, then the samplers.

    Thread: the slot's. A random number is drawn for each token that is kept or ends the
    answer, and for none that a wrong draft would have led to.
    """

    def __init__(
        self,
        sampler: TokenSampler,
        matcher: Matcher | None,
        *,
        tells_row: bool,
        tells_left: bool,
    ) -> None:
        self._sampler = sampler
        self.matcher = matcher
        self._held: _Held | None = None
        self._tells_row = tells_row
        self._tells_left = tells_left

    def draw(
        self,
        rows: npt.NDArray[np.float32],
        drafted: Sequence[int],
        *,
        most: int,
        ends: frozenset[int],
    ) -> Draws | Renewal:
        """Draw from row after row, as long as each token is the drafted one.

        Where the constraint has met a limit, nothing is given out: a renewal has to be
        made elsewhere, and `resume` draws the rest and gives out all.

        Args:
            rows: [len(drafted) + 1, n_vocab] float32: the logits in front of each
                drafted token, and after the last.
            drafted: What the rows were computed for.
            most: Tokens that the answer may still have, at least one.
            ends: Tokens that end the answer.
        """
        return self._draw(_Held((), rows, tuple(drafted), most, ends))

    def resume(
        self, walker: Walker | None, error: KineticError | None
    ) -> Draws | Renewal:
        """Go on drawing with what a renewal made, or why it could not be made."""
        held, self._held = self._held, None
        if held is None:
            raise InternalError("nothing waits for a renewed constraint")
        if self.matcher is not None and walker is not None:
            self.matcher.resume(walker)
        if error is not None:
            return Draws(held.drawn, len(held.drawn), is_over=True, error=error)
        return self._draw(held)

    def _draw(self, held: _Held) -> Draws | Renewal:
        drawn, drafted = list(held.drawn), held.drafted
        for i in range(len(drawn), len(held.drawn) + len(held.rows)):
            row = held.rows[i - len(held.drawn)]
            try:
                found = self._draw_one(row)
            except OutgrownError:
                # The rows are the engine's own memory, which the next pass overwrites.
                rows = held.rows[i - len(held.drawn) :].copy()
                self._held = replace(held, drawn=tuple(drawn), rows=rows)
                return self._renewal()
            except KineticError as error:
                return Draws(tuple(drawn), len(drawn), is_over=True, error=error)
            drawn.append(found)
            if len(drawn) == held.most or found.token in held.ends:
                return Draws(tuple(drawn), i, is_over=True)
            if i == len(drafted) or found.token != drafted[i]:
                break
        return Draws(tuple(drawn), len(drawn) - 1, is_over=False)

    def _renewal(self) -> Renewal:
        if self.matcher is None:
            raise InternalError("an answer without a constraint has outgrown it")
        return self.matcher.renewal()

    def _draw_one(self, row: npt.NDArray[np.float32]) -> Drawn:
        matcher = self.matcher
        masked = row if matcher is None else matcher.mask(row)
        token = self._sampler.draw(masked)
        if matcher is not None:
            matcher.accept(token)
        left = tuple(self._sampler.probabilities()) if self._tells_left else ()
        return Drawn(token, row.copy() if self._tells_row else None, left)

    def close(self) -> None:
        """Free the sampler."""
        self._sampler.close()
