"""What the Scheduler hears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.actors.messages.sink import Sink, VectorSink
    from kinetic.actors.messages.states import KeptState, PromptState
    from kinetic.errors import KineticError
    from kinetic.model.job import Job
    from kinetic.types import (
        VectorJob,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Make these answers; every one of them ends exactly once at the sink."""

    jobs: tuple[Job, ...]
    sink: Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitVectors:
    """Make these vectors; every input ends exactly once at the sink."""

    job: VectorJob
    sink: VectorSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """An input is done; without a vector it failed, or was dropped."""

    serial: int
    vector: npt.NDArray[np.float32] | None
    """[n_vector] float32, read-only; [n_tokens, n_vector] where nothing is pooled."""
    error: KineticError | None
    seconds: float
    """Spent in the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Drop what waits of a request, end what runs: the client is gone, or `error`."""

    request_id: str
    error: KineticError
    """Told at the sink, where somebody may still listen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDone:
    """A group's prompt stands in a slot; its other members may start from it."""

    slot_id: int
    group: str
    start: PromptState


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotIdle:
    """A slot ended its generation and holds these tokens."""

    slot_id: int
    generation: int
    """The one that ended, as Begin named it."""
    tokens: npt.NDArray[np.int32]
    n_prompt: int
    """How many of the tokens were run as a prompt."""
    can_cut: bool = True
    """Whether the memory may be cut shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """What the Cache found for a job that waits for its answer; None: nothing."""

    generation: int
    """As Match named it: an answer may come when its job is long gone."""
    kept: KeptState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepIdle:
    """Keep what idle slots hold and is not kept yet, if they are idle long enough."""

    now_s: float
    least_idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Take no more requests and end those that wait; running ones go on."""


SchedulerMessage = (
    Submit
    | SubmitVectors
    | Embedded
    | Cancel
    | PromptDone
    | SlotIdle
    | Matched
    | KeepIdle
    | Drain
)
