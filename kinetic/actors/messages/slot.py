"""What a Slot hears.

What the Decoder answers carries the `serial` of the question, and what the Detokenizer
says of an answer its `generation`: either may come when the slot has gone on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinetic.actors.messages.scheduler import Cancel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.actors.messages.sink import Sink
    from kinetic.actors.messages.states import KeptState, PromptState
    from kinetic.errors import KineticError
    from kinetic.model.constraints.guidance import Walker
    from kinetic.model.drafts.draft_model import ModelGuess
    from kinetic.model.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCosts:
    """How long passes take by their rows, as measured so far."""

    step_s: float = 0.0
    """A pass of one row; 0 until one was seen."""
    extra: tuple[float, ...] = ()
    """What 1, 2, ... more rows of the same sequence add, in steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """What a slot knows of the passes that its rows are part of."""

    costs: StepCosts = StepCosts()
    last_s: float = 0.0
    """How long the last one took."""
    n_sequences: int = 1
    """How many sequences shared it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Make this answer."""

    generation: int
    """Its number, no other has it; what is told of it later is known by that."""
    job: Job
    sink: Sink
    n_keep: int = 0
    """Leading tokens of the slot's own memory to build on."""
    start: PromptState | None = None
    """The prompt as a member of the same group has run it."""
    kept: KeptState | None = None
    """A state to put back first; `n_keep` is then its own."""
    share: bool = False
    """Tell the scheduler the prompt's state once it is run."""
    keep: bool = False
    """Have the Cache keep what the slot holds before it is overwritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepHeld:
    """Have the Cache keep what the idle slot holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """End a prefill where it is: a real request, or a newer prefill, has come."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Logits:
    """Rows that were asked for; `is_last` when the feed is done and an answer due."""

    serial: int
    rows: npt.NDArray[np.float32]
    """[n_rows, n_vocab] float32, read-only; the engine's own memory, good only while
    this is heard: what is kept, or told on, must be copied."""
    n_past: int
    """Tokens of the sequence that have been run."""
    is_last: bool
    passes: Passes
    """What is known of the passes that the rows came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """The feed is dropped; the sequence holds `n_past` tokens."""

    serial: int
    n_past: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A kept state is in place, or did not fit and the sequence is empty."""

    serial: int
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFailed:
    """The engine failed; the sequence is empty."""

    serial: int
    error: KineticError


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken:
    """A copy of the sequence's memory as it was when it was asked for."""

    serial: int
    state: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """What the draft model would go on with."""

    serial: int
    guess: ModelGuess


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """A constraint is compiled again, to where the answer stands, or it cannot be."""

    serial: int
    walker: Walker | None
    """The receiver's own from here on."""
    error: KineticError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The answer's first `n_tokens` are text; told where the slot asked for it."""

    generation: int
    n_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEnded:
    """The answer is over after its first `n_generated` tokens."""

    generation: int
    n_generated: int


SlotMessage = (
    Begin
    | KeepHeld
    | Yield
    | Cancel
    | Logits
    | Withdrawn
    | Restored
    | FeedFailed
    | SnapshotTaken
    | Proposed
    | Renewed
    | Spoken
    | TextEnded
)
