"""What Metrics hears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinetic.model.job import Job
    from kinetic.types import Outcome, Refusal, Timings, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheChanged:
    """What the Cache holds now, and what it did since start."""

    n_states: int
    memory_bytes: int
    disk_bytes: int
    n_hits: int
    n_misses: int
    n_kept: int
    n_evicted: int
    n_unwritten: int
    """States that no file was written of: the disk failed, or was too slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesDone:
    """Decode calls since the last word of them, in order, at least one."""

    passes: tuple[PassDone, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassDone:
    """One decode call."""

    seconds: float
    n_rows: int
    n_sequences: int
    n_prompt_rows: int
    n_max_tokens: int
    """The longest sequence in the pass."""
    n_held: int = 0
    """Tokens that all sequences together hold after the pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChanged:
    """How many requests run and wait now."""

    n_running: int
    n_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSent:
    """An HTTP response is complete, or its client is gone."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDropped:
    """A job ended without a slot."""

    outcome: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStarted:
    """A request got its slot; `slot` is what /slots shows of it."""

    slot_id: int
    job: Job
    n_cached: int
    queued_s: float = 0.0
    """From arrival to the slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationMoved:
    """A running generation's progress, told now and then."""

    slot_id: int
    n_prompt_done: int
    """Prompt tokens that stand, reused ones included."""
    n_generated: int
    timings: Timings
    """Up to now."""
    has_new_line: bool = False
    """The text has at least two lines."""
    n_drafted: int = 0
    n_accepted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationEnded:
    """A generation is over."""

    slot_id: int
    outcome: Outcome
    usage: Usage
    timings: Timings
    n_prompt_done: int
    """Prompt tokens that stand; fewer than all where it ended before its text."""
    has_new_line: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsStarted:
    """The first input of a request is run."""

    queued_s: float
    """From arrival to now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDone:
    """An input became a vector."""

    n_tokens: int
    seconds: float
    """Spent in the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsEnded:
    """A request for vectors is over."""

    outcome: Outcome
    """VECTORS, CANCELLED or FAILED."""
    n_running: int
    """Requests that are still being worked on."""


MetricsMessage = (
    CacheChanged
    | PassesDone
    | LineChanged
    | ResponseSent
    | JobDropped
    | GenerationStarted
    | GenerationMoved
    | GenerationEnded
    | VectorsStarted
    | InputDone
    | VectorsEnded
)
