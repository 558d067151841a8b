"""The Scheduler: the waiting line and which slot serves what."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

import numpy as np

from kinetic.actors.base import KineticActor, tell
from kinetic.actors.messages import (
    Begin,
    Cancel,
    Drain,
    Embedded,
    Failed,
    Finished,
    Job,
    JobDropped,
    KeepHeld,
    KeepIdle,
    KeptState,
    LineChanged,
    Match,
    Matched,
    PromptDone,
    PromptState,
    SchedulerMessage,
    SlotIdle,
    Submit,
    SubmitVectors,
    Yield,
)
from kinetic.actors.policy.beginning import (
    Beginning,
    BeginningRules,
    Sharing,
    decide,
    keeps_first,
    keeps_idle,
)
from kinetic.actors.policy.prefix import IdleSlot
from kinetic.actors.policy.waiting import Waiter, WaitingLine
from kinetic.actors.vectors import VectorDesk
from kinetic.errors import KineticError, Overloaded, ShuttingDown
from kinetic.types import Finish, Outcome, Refusal, Timings, Usage

if TYPE_CHECKING:
    from kinetic.actors.peers import Peers

_log = logging.getLogger(__name__)


LATEST_ANSWER_S = 10.0
"""How long a job waits for the Cache, measured from tick to tick."""


@dataclass(slots=True)
class _Group:
    """Jobs with one prompt: how many have not ended, and the prompt once it stands."""

    n_open: int
    leader: int | None = None  # the slot that runs the prompt
    start: PromptState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Serving:
    """What a slot is for now."""

    job: Job
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """A job that has its slot and waits for the Cache's answer."""

    generation: int
    waiter: Waiter
    beginning: Beginning


class Scheduler(KineticActor):
    """Owns the waiting line and which slot serves what.

    Hears: Submit, SubmitVectors, Embedded, Cancel, PromptDone, SlotIdle, Matched,
    KeepIdle, Drain. Tells: Slot, Decoder, Cache, Metrics, and the sinks of requests for
    vectors and of those that it must refuse.
    """

    def __init__(
        self,
        rules: BeginningRules,
        *,
        line_limit: int,
        peers: Peers,
    ) -> None:
        super().__init__(peers.on_death)
        self._rules = rules
        self._peers = peers
        self._line = WaitingLine(line_limit)
        self._vectors = VectorDesk(line_limit, peers)
        self._idle: dict[int, IdleSlot] = {}
        self._serving: dict[int, _Serving] = {}  # by slot
        self._groups: dict[str, _Group] = {}
        self._n_generations = 0
        self._asking: dict[int, _Asking] = {}  # by generation
        self._late_at_s: dict[int, float] = {}  # when a tick first saw one wait
        self._cache_is_late = False
        self._yielding: set[int] = set()  # slots whose prefill was told to end
        self._idle_at_s: dict[int, float] = {}  # when KeepIdle first saw a slot idle
        self._clock = 0  # counts slots becoming idle
        self._draining = False

    def acquire(self) -> None:
        """Every slot starts idle and empty."""
        empty = np.zeros(0, np.int32)
        for slot_id in range(len(self._peers.slots)):
            self._idle[slot_id] = IdleSlot(
                slot_id=slot_id, tokens=empty, n_prompt=0, idle_since=0
            )

    def hear(self, message: SchedulerMessage) -> None:
        """One case per message, in the order of messages/scheduler.py."""
        match message:
            case Submit():
                self._submit(message)
            case SubmitVectors():
                self._vectors.submit(message)
                self._publish()
            case Embedded():
                self._vectors.embedded(message)
                self._publish()
            case Cancel():
                self._cancel(message)
            case PromptDone():
                self._prompt_done(message)
            case SlotIdle():
                self._slot_idle(message)
            case Matched():
                self._matched(message)
            case KeepIdle():
                self._keep_idle(message)
            case Drain():
                self._drain()
            case _:
                assert_never(message)

    def _submit(self, submit: Submit) -> None:
        if self._draining:
            self._refuse(
                submit, ShuttingDown("the server is stopping"), Refusal.STOPPING
            )
            return
        # An idle slot takes its job out of the line at once.
        if not self._line.has_room(len(submit.jobs) - len(self._idle)):
            error = Overloaded(f"{len(self._line)} requests are waiting already")
            self._refuse(submit, error, Refusal.OVERLOADED)
            return
        self._end_prefills()
        for job in submit.jobs:
            if job.group is not None:
                group = self._groups.setdefault(job.group, _Group(n_open=0))
                group.n_open += 1
            self._line.add(Waiter(job=job, sink=submit.sink))
        self._serve()

    def _refuse(self, submit: Submit, error: KineticError, outcome: Refusal) -> None:
        for job in submit.jobs:
            self._drop(Waiter(job=job, sink=submit.sink), error, outcome)

    def _drop(self, waiter: Waiter, error: KineticError, outcome: Refusal) -> None:
        """End a job that has no slot."""
        failed = Failed(
            index=waiter.job.index,
            error=error,
            usage=_nothing_made(waiter.job),
            timings=_waited(waiter.job),
        )
        waiter.sink.put(failed)
        tell(self._peers.metrics, JobDropped(outcome=outcome))

    def _cancel(self, cancel: Cancel) -> None:
        self._vectors.cancel(cancel)
        for waiter in self._line.remove(cancel.request_id):
            self._drop(waiter, cancel.error, Refusal.CANCELLED)
            self._leave_group(waiter.job)
        for slot_id, serving in list(self._serving.items()):
            if serving.job.request_id != cancel.request_id:
                continue
            asking = self._asking.pop(serving.generation, None)
            if asking is not None:
                self._drop(asking.waiter, cancel.error, Refusal.CANCELLED)
                self._give_back(asking)
            else:
                tell(self._peers.slots[slot_id], cancel)
        self._serve()

    def _prompt_done(self, message: PromptDone) -> None:
        group = self._groups.get(message.group)
        if group is not None and group.leader == message.slot_id:
            group.start = message.start
            group.leader = None
            self._serve()

    def _slot_idle(self, message: SlotIdle) -> None:
        serving = self._serving.get(message.slot_id)
        if serving is None or serving.generation != message.generation:
            return
        self._end_serving(message.slot_id)
        self._yielding.discard(message.slot_id)
        self._idle_at_s.pop(message.slot_id, None)
        self._clock += 1
        self._idle[message.slot_id] = IdleSlot(
            slot_id=message.slot_id,
            tokens=message.tokens,
            n_prompt=message.n_prompt,
            idle_since=self._clock,
            can_cut=message.can_cut,
        )
        self._serve()

    def _drain(self) -> None:
        self._draining = True
        self._vectors.drain()
        for waiter in self._line.clear():
            self._drop(waiter, ShuttingDown("the server is stopping"), Refusal.STOPPING)
        self._publish()

    def _end_serving(self, slot_id: int) -> None:
        """A slot's job is over, or was never begun."""
        self._leave_group(self._serving.pop(slot_id).job)
        for group in self._groups.values():
            # A leader that ended before its prompt stood leads no more.
            if group.leader == slot_id:
                group.leader = None

    def _leave_group(self, job: Job) -> None:
        group = self._groups.get(job.group or "")
        if group is None or job.group is None:
            return
        group.n_open -= 1
        if group.n_open == 0:
            del self._groups[job.group]

    # --- Serving --------------------------------------------------------------------

    def _serve(self) -> None:
        # A prefill that was told to end lets go within a pass, and its slot is the
        # one that the request it was for will want.
        while self._idle and not self._yielding:
            waiter = self._line.take(self._is_ready)
            if waiter is None:
                break
            self._begin(waiter)
        self._publish()

    def _is_ready(self, job: Job) -> bool:
        if job.slot_id is not None and job.slot_id not in self._idle:
            return False
        if job.is_prefill:
            return self._line.is_only(lambda other: other.is_prefill)
        group = self._groups.get(job.group or "")
        return group is None or group.leader is None

    def _begin(self, waiter: Waiter) -> None:
        job = waiter.job
        group = self._groups.get(job.group or "")
        start = None if group is None else group.start
        sharing = Sharing()
        if group is not None:
            sharing = Sharing(n_open=group.n_open, stands=start is not None)
        beginning = decide(job, self._idle, self._rules, sharing)
        slot_id = beginning.slot.slot_id
        del self._idle[slot_id]
        self._n_generations += 1
        asking = _Asking(
            generation=self._n_generations, waiter=waiter, beginning=beginning
        )
        self._serving[slot_id] = _Serving(job=job, generation=asking.generation)
        if group is not None and beginning.is_shared:
            group.leader = slot_id
        if self._peers.cache is None or self._cache_is_late or not beginning.asks_cache:
            self._tell_begin(asking, start=start)
            return
        self._asking[asking.generation] = asking
        match = Match(
            generation=asking.generation,
            scope=job.scope,
            prompt=np.array(job.prompt, np.int32),
            n_have=beginning.n_keep,
            images=job.images,
        )
        tell(self._peers.cache, match)

    def _matched(self, message: Matched) -> None:
        self._cache_is_late = False
        asking = self._asking.pop(message.generation, None)
        if asking is not None:
            self._tell_begin(asking, kept=message.kept)

    def _tell_begin(
        self,
        asking: _Asking,
        *,
        start: PromptState | None = None,
        kept: KeptState | None = None,
    ) -> None:
        beginning = asking.beginning
        is_replaced = start is not None or kept is not None
        begin = Begin(
            generation=asking.generation,
            job=asking.waiter.job,
            sink=asking.waiter.sink,
            n_keep=beginning.n_keep,
            start=start,
            kept=kept,
            share=beginning.is_shared,
            keep=self._peers.cache is not None
            and keeps_first(beginning, is_replaced=is_replaced),
        )
        tell(self._peers.slots[beginning.slot.slot_id], begin)

    def _give_back(self, asking: _Asking) -> None:
        """A job ended before its slot began it: the slot is idle as it was."""
        slot = asking.beginning.slot
        self._end_serving(slot.slot_id)
        self._idle[slot.slot_id] = slot

    def _begin_late(self, message: KeepIdle) -> None:
        """Begin what the Cache leaves without an answer: a disk may stand still.

        Until it answers anything, it is not asked again.
        """
        late = self._late_at_s
        self._late_at_s = {g: late.get(g, message.now_s) for g in self._asking}
        for generation, since in self._late_at_s.items():
            if message.now_s - since >= LATEST_ANSWER_S:
                _log.warning("the cache does not answer: a prompt is run without it")
                self._cache_is_late = True
                self._tell_begin(self._asking.pop(generation))

    # --- Prefills -------------------------------------------------------------------

    def _end_prefills(self) -> None:
        """Somebody new has come: prefills end where they are."""
        for waiter in self._line.remove_all(lambda job: job.is_prefill):
            _end_unstarted(waiter)
        for slot_id, serving in list(self._serving.items()):
            if not serving.job.is_prefill or slot_id in self._yielding:
                continue
            asking = self._asking.pop(serving.generation, None)
            if asking is not None:
                _end_unstarted(asking.waiter)
                self._give_back(asking)
            else:
                self._yielding.add(slot_id)
                tell(self._peers.slots[slot_id], Yield(generation=serving.generation))

    # --- Keeping --------------------------------------------------------------------

    def _keep_idle(self, message: KeepIdle) -> None:
        """Keep idle slots' states while nothing runs, so that a restart finds them."""
        self._begin_late(message)
        if self._peers.cache is None or self._serving:
            return
        for slot_id, slot in list(self._idle.items()):
            since = self._idle_at_s.setdefault(slot_id, message.now_s)
            if not keeps_idle(slot, self._rules.states):
                continue
            if message.now_s - since >= message.least_idle_s:
                self._idle[slot_id] = replace(slot, is_kept=True)
                tell(self._peers.slots[slot_id], KeepHeld())

    def _publish(self) -> None:
        changed = LineChanged(
            n_running=len(self._serving) + self._vectors.n_running,
            n_waiting=len(self._line) + self._vectors.n_waiting,
        )
        tell(self._peers.metrics, changed)


def _end_unstarted(waiter: Waiter) -> None:
    """End a prefill that never got to run."""
    finished = Finished(
        index=waiter.job.index,
        finish=Finish(reason=Outcome.LIMIT),
        usage=_nothing_made(waiter.job),
        timings=_waited(waiter.job),
        slot_id=-1,
    )
    waiter.sink.put(finished)


def _nothing_made(job: Job) -> Usage:
    return Usage(n_prompt=len(job.prompt), n_cached=0, n_generated=0)


def _waited(job: Job) -> Timings:
    queued_s = max(time.monotonic() - job.arrived_s, 0.0)
    return Timings(queued_s=queued_s, prompt_s=0.0, predicted_s=0.0)
