"""The Metrics actor: counts what the others tell it and publishes a view."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from kinetic.actors.base import KineticActor
from kinetic.actors.messages import (
    GenerationEnded,
    GenerationMoved,
    GenerationStarted,
    Job,
    LineChanged,
    MetricsMessage,
    PassDone,
)

if TYPE_CHECKING:
    from kinetic.types import Timings, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """One slot as /slots shows it: its present or last request."""

    slot_id: int
    is_processing: bool = False
    job: Job | None = None
    n_cached: int = 0
    n_prompt_done: int = 0
    n_generated: int = 0
    task: int = -1
    """Counts the generations of the server from 0; -1 before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counters since start; they only rise."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_s: float = 0.0
    predicted_tokens: int = 0
    predicted_s: float = 0.0
    passes: int = 0
    pass_s: float = 0.0
    pass_rows: int = 0
    pass_sequences: int = 0
    max_tokens: int = 0
    cancelled: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsView:
    """Everything at one moment; read by any thread, never changed."""

    slots: tuple[SlotView, ...]
    totals: Totals = field(default_factory=Totals)
    n_running: int = 0
    n_waiting: int = 0

    @property
    def n_idle(self) -> int:
        """Slots that serve nobody."""
        return sum(not slot.is_processing for slot in self.slots)


class Metrics(KineticActor):
    """Counts. Hears: PassDone, LineChanged, GenerationStarted, -Moved, -Ended.

    `view` is replaced as a whole after each message, so that readers need no lock.
    """

    def __init__(self, n_slots: int) -> None:
        super().__init__()
        slots = tuple(SlotView(slot_id=i) for i in range(n_slots))
        self.view = MetricsView(slots=slots)
        self._n_tasks = 0

    def hear(self, message: MetricsMessage) -> None:
        """One case per message, as in messages.py."""
        match message:
            case PassDone():
                self._pass_done(message)
            case LineChanged():
                self.view = replace(
                    self.view,
                    n_running=message.n_running,
                    n_waiting=message.n_waiting,
                )
            case GenerationStarted():
                self._started(message)
            case GenerationMoved():
                self._slot(
                    message.slot_id,
                    n_prompt_done=message.n_prompt_done,
                    n_generated=message.n_generated,
                )
            case GenerationEnded():
                self._ended(message)
            case _:
                assert_never(message)

    def _pass_done(self, message: PassDone) -> None:
        totals = self.view.totals
        self._count(
            passes=totals.passes + 1,
            pass_s=totals.pass_s + message.seconds,
            pass_rows=totals.pass_rows + message.n_rows,
            pass_sequences=totals.pass_sequences + message.n_sequences,
            max_tokens=max(totals.max_tokens, message.n_max_tokens),
        )

    def _started(self, message: GenerationStarted) -> None:
        task = self._n_tasks
        self._n_tasks += 1
        self._slot(
            message.slot_id,
            is_processing=True,
            job=message.job,
            n_cached=message.n_cached,
            n_prompt_done=message.n_cached,
            n_generated=0,
            task=task,
        )

    def _ended(self, message: GenerationEnded) -> None:
        usage, timings = message.usage, message.timings
        self._slot(
            message.slot_id,
            is_processing=False,
            n_generated=usage.n_generated,
            n_prompt_done=usage.n_prompt,
        )
        self._count(**_sums(self.view.totals, usage, timings))
        totals = self.view.totals
        if message.outcome == "cancelled":
            self._count(cancelled=totals.cancelled + 1)
        elif message.outcome == "failed":
            self._count(failed=totals.failed + 1)

    def _count(self, **changes: float) -> None:
        totals = replace(self.view.totals, **changes)  # type: ignore[arg-type]
        self.view = replace(self.view, totals=totals)

    def _slot(self, slot_id: int, **changes: object) -> None:
        slots = list(self.view.slots)
        slots[slot_id] = replace(slots[slot_id], **changes)  # type: ignore[arg-type]
        self.view = replace(self.view, slots=tuple(slots))


def _sums(totals: Totals, usage: Usage, timings: Timings) -> dict[str, float]:
    return {
        "requests": totals.requests + 1,
        "prompt_tokens": totals.prompt_tokens + usage.n_prompt - usage.n_cached,
        "cached_tokens": totals.cached_tokens + usage.n_cached,
        "prompt_s": totals.prompt_s + timings.prompt_s,
        "predicted_tokens": totals.predicted_tokens + usage.n_generated,
        "predicted_s": totals.predicted_s + timings.predicted_s,
    }
