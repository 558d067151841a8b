"""The Metrics actor: counts what the others tell it, and keeps the view."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from kinetic.actors.base import KineticActor, OnDeath
from kinetic.actors.messages import (
    CacheChanged,
    GenerationEnded,
    GenerationMoved,
    GenerationStarted,
    InputDone,
    JobDropped,
    LineChanged,
    MetricsMessage,
    PassesDone,
    ResponseSent,
    VectorsEnded,
    VectorsStarted,
)
from kinetic.actors.metrics.view import SlotView
from kinetic.types import Outcome, Timings

if TYPE_CHECKING:
    from kinetic.actors.messages import PassDone
    from kinetic.actors.metrics.exposition import MetricsPage


@dataclass(frozen=True, slots=True)
class _Told:
    """What of a running generation is counted already."""

    n_prompt_done: int
    n_generated: int = 0
    prompt_s: float = 0.0
    predicted_s: float = 0.0


class Metrics(KineticActor):
    """Counts what the others tell, on the page that shows it.

    Hears: PassesDone, LineChanged, CacheChanged, JobDropped, ResponseSent,
    GenerationStarted, -Moved, -Ended, VectorsStarted, InputDone, VectorsEnded. It
    holds the page's lock while it counts one message in, so the page never shows half
    of one; the page's view is replaced as a whole after each, so its readers need no
    lock.
    """

    def __init__(self, page: MetricsPage, on_death: OnDeath) -> None:
        super().__init__(on_death)
        self._page = page
        self._view = page.view
        self._n_tasks = 0
        self._told = [_Told(0) for _ in page.view.slots]

    def hear(self, message: MetricsMessage) -> None:
        """One case per message, in the order of messages/metrics.py."""
        with self._page.counting:
            self._count_in(message)
            self._page.view = self._view

    def _count_in(self, message: MetricsMessage) -> None:
        match message:
            case CacheChanged():
                self._view = replace(self._view, cache=message)
            case PassesDone():
                self._passes_done(message.passes)
            case LineChanged():
                self._view = replace(
                    self._view,
                    n_running=message.n_running,
                    n_waiting=message.n_waiting,
                )
            case ResponseSent():
                self._page.responses.labels(message.status).inc()
            case JobDropped():
                self._page.refused.labels(message.outcome).inc()
            case GenerationStarted():
                self._started(message)
            case GenerationMoved():
                self._moved(message)
            case GenerationEnded():
                self._ended(message)
            case VectorsStarted():
                self._vectors_started(message)
            case InputDone():
                self._page.prompt_tokens.inc(message.n_tokens)
                self._page.prompt_s.inc(message.seconds)
            case VectorsEnded():
                self._vectors_ended(message)
            case _:
                assert_never(message)

    def _passes_done(self, passes: tuple[PassDone, ...]) -> None:
        page, view = self._page, self._view
        page.passes.inc(len(passes))
        page.prompt_rows.inc(sum(done.n_prompt_rows for done in passes))
        for done in passes:
            page.step_s.observe(done.seconds)
            page.step_rows.observe(done.n_rows)
        self._view = replace(
            view,
            n_held=passes[-1].n_held,
            n_max_tokens=max(
                view.n_max_tokens, *(done.n_max_tokens for done in passes)
            ),
            n_sequences=view.n_sequences + sum(done.n_sequences for done in passes),
        )

    def _started(self, message: GenerationStarted) -> None:
        self._told[message.slot_id] = _Told(message.n_cached)
        slot = SlotView(
            slot_id=message.slot_id,
            is_processing=True,
            job=message.job,
            n_cached=message.n_cached,
            n_prompt_done=message.n_cached,
            task=self._next_task(),
        )
        self._show(slot)
        if not message.job.is_prefill:
            self._page.queue_s.observe(message.queued_s)

    def _moved(self, message: GenerationMoved) -> None:
        n_generated = message.n_generated
        self._count_slot(
            message.slot_id, message.n_prompt_done, n_generated, message.timings
        )
        slot = replace(
            self._view.slots[message.slot_id],
            n_prompt_done=message.n_prompt_done,
            n_generated=n_generated,
            n_drafted=message.n_drafted,
            n_accepted=message.n_accepted,
            has_new_line=message.has_new_line,
        )
        self._show(slot)

    def _ended(self, message: GenerationEnded) -> None:
        page, usage, timings = self._page, message.usage, message.timings
        self._count_slot(
            message.slot_id, message.n_prompt_done, usage.n_generated, timings
        )
        slot = replace(
            self._view.slots[message.slot_id],
            is_processing=False,
            n_cached=usage.n_cached,
            n_prompt_done=message.n_prompt_done,
            n_generated=usage.n_generated,
            n_drafted=usage.n_drafted,
            n_accepted=usage.n_accepted,
            has_new_line=message.has_new_line,
        )
        self._show(slot)
        page.cached_tokens.inc(usage.n_cached)
        if slot.job is not None and slot.job.is_prefill:
            # Its tokens count as any others; an answer it is not.
            page.prefills.inc()
            return
        self._count_answer(message.outcome)
        page.reused.inc(usage.n_cached > 0)
        page.drafts.inc(usage.n_drafts)
        page.drafted.inc(usage.n_drafted)
        page.accepted.inc(usage.n_accepted)
        if usage.n_generated > 1:
            page.token_s.observe(timings.predicted_s / (usage.n_generated - 1))
        if message.outcome not in {Outcome.CANCELLED, Outcome.FAILED}:
            whole = timings.queued_s + timings.prompt_s + timings.predicted_s
            page.answer_s.observe(whole)

    def _vectors_started(self, message: VectorsStarted) -> None:
        """A model for vectors has one sequence, shown as slot 0."""
        slot = replace(self._view.slots[0], is_processing=True, task=self._next_task())
        self._show(slot)
        self._page.queue_s.observe(message.queued_s)

    def _vectors_ended(self, message: VectorsEnded) -> None:
        is_processing = message.n_running > 0
        self._show(replace(self._view.slots[0], is_processing=is_processing))
        self._count_answer(message.outcome)

    def _count_slot(
        self, slot_id: int, n_prompt_done: int, n_generated: int, timings: Timings
    ) -> None:
        """Add what a generation has done since it was last heard of."""
        page, told = self._page, self._told[slot_id]
        # Kept tokens that did not fit after all: the prompt starts anew.
        is_anew = n_prompt_done < told.n_prompt_done
        if told.n_generated == 0 and n_generated > 0:
            page.first_token_s.observe(timings.queued_s + timings.prompt_s)
        now = _Told(
            n_prompt_done,
            n_generated,
            # The first token's time is the Decoder's: up to it may be less than was
            # told when the Detokenizer lagged, and no counter falls.
            max(timings.prompt_s, told.prompt_s),
            timings.predicted_s,
        )
        page.prompt_tokens.inc(n_prompt_done - (0 if is_anew else told.n_prompt_done))
        page.prompt_s.inc(now.prompt_s - told.prompt_s)
        page.predicted_tokens.inc(n_generated - told.n_generated)
        page.predicted_s.inc(now.predicted_s - told.predicted_s)
        self._told[slot_id] = now

    def _count_answer(self, outcome: Outcome) -> None:
        self._page.requests.inc()
        self._page.answers.labels(outcome).inc()

    def _next_task(self) -> int:
        self._n_tasks += 1
        return self._n_tasks - 1

    def _show(self, slot: SlotView) -> None:
        slots = list(self._view.slots)
        slots[slot.slot_id] = slot
        self._view = replace(self._view, slots=tuple(slots))
