"""The Metrics actor: counts what the others tell it and publishes a view."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from kinetic.actors.base import KineticActor, OnDeath
from kinetic.actors.messages import (
    CacheChanged,
    GenerationEnded,
    GenerationMoved,
    GenerationStarted,
    InputDone,
    Job,
    JobDropped,
    LineChanged,
    MetricsMessage,
    PassesDone,
    ResponseSent,
    VectorsEnded,
    VectorsStarted,
)
from kinetic.actors.metrics.histogram import Histogram
from kinetic.types import Outcome, Refusal, Timings

if TYPE_CHECKING:
    from kinetic.actors.messages import PassDone

OUTCOMES = tuple(Outcome)
REASONS = tuple(Refusal)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """One slot as /slots shows it: its present or last request."""

    slot_id: int
    is_processing: bool = False
    job: Job | None = None
    n_cached: int = 0
    n_prompt_done: int = 0
    n_generated: int = 0
    has_new_line: bool = False
    n_drafted: int = 0
    n_accepted: int = 0
    task: int = -1
    """Counts the generations of the server from 0; -1 before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counters since start; they only rise."""

    requests: int = 0
    """Answers that had a slot and are over; each choice of `n` is one."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_s: float = 0.0
    predicted_tokens: int = 0
    predicted_s: float = 0.0
    passes: int = 0
    pass_s: float = 0.0
    pass_rows: int = 0
    pass_prompt_rows: int = 0
    pass_sequences: int = 0
    max_tokens: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    reused: int = 0
    """Answers that were built on tokens of an earlier request."""
    prefills: int = 0
    """Prompts that were only run, for a request that may follow."""
    outcomes: tuple[int, ...] = (0,) * len(OUTCOMES)
    """As OUTCOMES names them."""
    dropped: tuple[int, ...] = (0,) * len(REASONS)
    """As REASONS names them."""
    responses: tuple[tuple[int, int], ...] = ()
    """HTTP statuses that were sent, rising, with how often."""

    @property
    def cancelled(self) -> int:
        """Answers that were given up in their slot."""
        return self.outcomes[OUTCOMES.index("cancelled")]

    @property
    def failed(self) -> int:
        """Answers that the engine failed to make."""
        return self.outcomes[OUTCOMES.index("failed")]


_WAITS = Histogram.empty(
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
)
_STEPS = Histogram.empty(
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
)
_ROWS = Histogram.empty(*(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreads:
    """Histograms since start, in seconds but for the rows."""

    queue: Histogram = _WAITS
    """From arrival to the slot."""
    first_token: Histogram = _WAITS
    """From arrival to the first token."""
    answer: Histogram = _WAITS
    """From arrival to the end, of answers that were not given up."""
    token: Histogram = _STEPS
    """Between two tokens of an answer, one observation per answer."""
    step: Histogram = _STEPS
    """One decode call."""
    rows: Histogram = _ROWS
    """Tokens in one decode call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsView:
    """Everything at one moment; read by any thread, never changed."""

    slots: tuple[SlotView, ...]
    totals: Totals = field(default_factory=Totals)
    spreads: Spreads = field(default_factory=Spreads)
    n_running: int = 0
    n_waiting: int = 0
    cache: CacheChanged | None = None
    """What is kept; None where nothing is."""
    n_held: int = 0
    """Tokens that all slots hold in the engine's memory, as of the last pass."""

    @property
    def n_idle(self) -> int:
        """Slots that serve nobody."""
        return sum(not slot.is_processing for slot in self.slots)


def empty_view(n_slots: int) -> MetricsView:
    """What there is to see before the first request."""
    return MetricsView(slots=tuple(SlotView(slot_id=i) for i in range(n_slots)))


class Board:
    """Where the view hangs for every thread to read."""

    def __init__(self, view: MetricsView) -> None:
        self.view = view


@dataclass(slots=True)
class _Told:
    """What of a running generation is in the totals already."""

    n_prompt_done: int
    n_generated: int = 0
    prompt_s: float = 0.0
    predicted_s: float = 0.0


class Metrics(KineticActor):
    """Counts what the others tell and publishes it.

    Hears: PassesDone, LineChanged, CacheChanged, JobDropped, ResponseSent,
    GenerationStarted, -Moved, -Ended, VectorsStarted, InputDone, VectorsEnded. The
    board's view is replaced as a whole after each message: one assignment of a
    reference, so readers in other threads need no lock and always see one moment.
    """

    def __init__(self, n_slots: int, board: Board, on_death: OnDeath) -> None:
        super().__init__(on_death)
        self._board = board
        self.view = empty_view(n_slots)
        self._n_tasks = 0
        self._told = [_Told(0) for _ in range(n_slots)]

    def hear(self, message: MetricsMessage) -> None:
        """One case per message, in the order of messages/metrics.py."""
        self._count_in(message)
        self._board.view = self.view

    def _count_in(self, message: MetricsMessage) -> None:
        match message:
            case CacheChanged():
                self.view = replace(self.view, cache=message)
            case PassesDone():
                self._passes_done(message.passes)
            case LineChanged():
                self.view = replace(
                    self.view,
                    n_running=message.n_running,
                    n_waiting=message.n_waiting,
                )
            case ResponseSent():
                counts = dict(self.view.totals.responses)
                counts[message.status] = counts.get(message.status, 0) + 1
                self._count(responses=tuple(sorted(counts.items())))
            case JobDropped():
                before = self.view.totals.dropped
                self._count(dropped=_counted(before, REASONS, message.outcome))
            case GenerationStarted():
                self._started(message)
            case GenerationMoved():
                self._moved(message)
            case GenerationEnded():
                self._ended(message)
            case VectorsStarted():
                self._vectors_started(message)
            case InputDone():
                self._input_done(message)
            case VectorsEnded():
                self._vectors_ended(message)
            case _:
                assert_never(message)

    def _passes_done(self, passes: tuple[PassDone, ...]) -> None:
        totals, spreads = self.view.totals, self.view.spreads
        self.view = replace(
            self.view,
            totals=replace(
                totals,
                passes=totals.passes + len(passes),
                pass_s=sum((done.seconds for done in passes), totals.pass_s),
                pass_rows=totals.pass_rows + sum(done.n_rows for done in passes),
                pass_prompt_rows=totals.pass_prompt_rows
                + sum(done.n_prompt_rows for done in passes),
                pass_sequences=totals.pass_sequences
                + sum(done.n_sequences for done in passes),
                max_tokens=max(
                    totals.max_tokens, *(done.n_max_tokens for done in passes)
                ),
            ),
            spreads=replace(
                spreads,
                step=spreads.step.observe(*(done.seconds for done in passes)),
                rows=spreads.rows.observe(*(done.n_rows for done in passes)),
            ),
            n_held=passes[-1].n_held,
        )

    def _started(self, message: GenerationStarted) -> None:
        task = self._n_tasks
        self._n_tasks += 1
        self._told[message.slot_id] = _Told(message.n_cached)
        self._slot(
            message.slot_id,
            is_processing=True,
            job=message.job,
            n_cached=message.n_cached,
            n_prompt_done=message.n_cached,
            n_generated=0,
            n_drafted=0,
            n_accepted=0,
            has_new_line=False,
            task=task,
        )
        if not message.job.is_prefill:
            self._observe(queue=message.queued_s)

    def _moved(self, message: GenerationMoved) -> None:
        self._count_slot(
            message.slot_id,
            message.n_prompt_done,
            message.n_generated,
            message.timings,
        )
        self._slot(
            message.slot_id,
            n_prompt_done=message.n_prompt_done,
            n_generated=message.n_generated,
            n_drafted=message.n_drafted,
            n_accepted=message.n_accepted,
            has_new_line=message.has_new_line,
        )

    def _ended(self, message: GenerationEnded) -> None:
        usage, timings = message.usage, message.timings
        self._count_slot(
            message.slot_id, message.n_prompt_done, usage.n_generated, timings
        )
        self._slot(
            message.slot_id,
            is_processing=False,
            n_cached=usage.n_cached,
            n_prompt_done=message.n_prompt_done,
            n_generated=usage.n_generated,
            n_drafted=usage.n_drafted,
            n_accepted=usage.n_accepted,
            has_new_line=message.has_new_line,
        )
        totals = self.view.totals
        job = self.view.slots[message.slot_id].job
        if job is not None and job.is_prefill:
            # Its tokens count as any others; an answer it is not.
            self._count(
                prefills=totals.prefills + 1,
                cached_tokens=totals.cached_tokens + usage.n_cached,
            )
            return
        self._count(
            requests=totals.requests + 1,
            cached_tokens=totals.cached_tokens + usage.n_cached,
            reused=totals.reused + (usage.n_cached > 0),
            drafts=totals.drafts + usage.n_drafts,
            drafted=totals.drafted + usage.n_drafted,
            accepted=totals.accepted + usage.n_accepted,
            outcomes=_counted(totals.outcomes, OUTCOMES, message.outcome),
        )
        if usage.n_generated > 1:
            self._observe(token=timings.predicted_s / (usage.n_generated - 1))
        if message.outcome not in {Outcome.CANCELLED, Outcome.FAILED}:
            whole = timings.queued_s + timings.prompt_s + timings.predicted_s
            self._observe(answer=whole)

    def _vectors_started(self, message: VectorsStarted) -> None:
        """A model for vectors has one sequence, shown as slot 0."""
        self._slot(0, is_processing=True, task=self._n_tasks)
        self._n_tasks += 1
        self._observe(queue=message.queued_s)

    def _input_done(self, message: InputDone) -> None:
        totals = self.view.totals
        self._count(
            prompt_tokens=totals.prompt_tokens + message.n_tokens,
            prompt_s=totals.prompt_s + message.seconds,
        )

    def _vectors_ended(self, message: VectorsEnded) -> None:
        self._slot(0, is_processing=message.n_running > 0)
        totals = self.view.totals
        self._count(
            requests=totals.requests + 1,
            outcomes=_counted(totals.outcomes, OUTCOMES, message.outcome),
        )

    def _count_slot(
        self, slot_id: int, n_prompt_done: int, n_generated: int, timings: Timings
    ) -> None:
        """Add what a generation has done since it was last heard of."""
        told = self._told[slot_id]
        if n_prompt_done < told.n_prompt_done:
            # Kept tokens that did not fit after all: the prompt starts anew.
            told.n_prompt_done = 0
        if told.n_generated == 0 and n_generated > 0:
            self._observe(first_token=timings.queued_s + timings.prompt_s)
        totals = self.view.totals
        self._count(
            prompt_tokens=totals.prompt_tokens + (n_prompt_done - told.n_prompt_done),
            # The difference first: added and then taken away, it could round down.
            prompt_s=totals.prompt_s + (timings.prompt_s - told.prompt_s),
            predicted_tokens=totals.predicted_tokens + (n_generated - told.n_generated),
            predicted_s=totals.predicted_s + (timings.predicted_s - told.predicted_s),
        )
        self._told[slot_id] = _Told(
            n_prompt_done, n_generated, timings.prompt_s, timings.predicted_s
        )

    def _count(self, **changes: object) -> None:
        totals = replace(self.view.totals, **changes)  # type: ignore[arg-type]
        self.view = replace(self.view, totals=totals)

    def _observe(self, **values: float) -> None:
        spreads = self.view.spreads
        seen = {name: getattr(spreads, name).observe(v) for name, v in values.items()}
        self.view = replace(self.view, spreads=replace(spreads, **seen))

    def _slot(self, slot_id: int, **changes: object) -> None:
        slots = list(self.view.slots)
        slots[slot_id] = replace(slots[slot_id], **changes)  # type: ignore[arg-type]
        self.view = replace(self.view, slots=tuple(slots))


def _counted(
    counts: tuple[int, ...], names: tuple[str, ...], name: str
) -> tuple[int, ...]:
    """The counts with one more under a name; one that is not known is not counted."""
    return tuple(
        count + (known == name) for count, known in zip(counts, names, strict=True)
    )
