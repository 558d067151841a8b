"""What the Detokenizer hears: all from slots, each slot's messages in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.actors.messages.sink import Sink
    from kinetic.errors import KineticError
    from kinetic.model.job import Job
    from kinetic.types import Outcome


@dataclass(frozen=True, slots=True)
class Drawn:
    """A token that was drawn."""

    token: int
    row: npt.NDArray[np.float32] | None
    """[n_vocab] float32: a copy of the raw logits it was drawn from, where they are
    asked for."""
    left: tuple[tuple[int, float], ...]
    """What the samplers left to choose from, where that is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginText:
    """A slot makes this answer now."""

    slot_id: int
    generation: int
    """The answer's number; what is told of it carries that."""
    job: Job
    sink: Sink
    n_cached: int
    began_s: float
    """When the slot was given, by the monotonic clock."""
    tells_spoken: bool = False
    """Whether the slot is to hear how far the text is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixLost:
    """What the prompt was to build on did not fit: it is run from its start."""

    slot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRan:
    """A piece of the prompt was run."""

    slot_id: int
    n_done: int
    """Prompt tokens that stand, reused ones included."""
    is_last: bool
    rows: npt.NDArray[np.float32] | None = None
    """[n_rows, n_vocab] float32, read-only: where the prompt's tokens are scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drew:
    """What a pass gave; answered by Spoken, if that is asked for, or by TextEnded."""

    slot_id: int
    drawn: tuple[Drawn, ...]
    drafted: tuple[int, ...]
    """Guessed tokens that the pass checked."""
    at_s: float
    """When, by the monotonic clock."""
    error: KineticError | None = None
    """Why no token could be drawn after these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndText:
    """End the answer before its text does; one that has ended stays as it is."""

    slot_id: int
    outcome: Outcome
    error: KineticError | None = None
    """What the request is told; None: that it is finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFreed:
    """The slot is idle again, as the Scheduler knows: tell the request its end."""

    slot_id: int


DetokenizerMessage = BeginText | PrefixLost | PromptRan | Drew | EndText | SlotFreed
