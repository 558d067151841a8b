"""The actors together: made in order, pinged, stopped in reverse."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pykka

from kinetic.actors.base import PING, KineticActor, OnDeath, tell
from kinetic.actors.cache import Cache, CacheOptions
from kinetic.actors.decoder import Decoder
from kinetic.actors.detokenizer import Detokenizer
from kinetic.actors.drafting.drafter import Drafting
from kinetic.actors.messages import (
    Cancel,
    Drain,
    Failed,
    Job,
    KeepIdle,
    ResponseSent,
    Sink,
    Submit,
    SubmitVectors,
    VectorSink,
)
from kinetic.actors.metrics.exposition import Facts, MetricsPage
from kinetic.actors.metrics.metrics import Metrics
from kinetic.actors.metrics.view import MetricsView, empty_view
from kinetic.actors.peers import Peers
from kinetic.actors.policy.beginning import BeginningRules
from kinetic.actors.policy.kept import StateRules
from kinetic.actors.receipt import Receipt, ReceiptFacts
from kinetic.actors.renewer import Renewer
from kinetic.actors.scheduler import Scheduler
from kinetic.actors.slot import Slot, SlotOptions
from kinetic.errors import InternalError, KineticError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinetic.actors.policy.plan import BatchPlan
    from kinetic.model.drafts.draft_model import DraftModel
    from kinetic.model.engine.api import Engine, PictureEncoder
    from kinetic.model.native.model import Model
    from kinetic.model.vocab import Vocab
    from kinetic.types import VectorJob

_log = logging.getLogger(__name__)

_START_S = 30.0
_STOP_S = 60.0  # a pass over a long chunk on a slow machine must fit


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOptions:
    """What the actors are made of."""

    plan: BatchPlan
    can_cut: bool
    line_limit: int
    rules: StateRules = field(default_factory=StateRules)
    drafting: Drafting | None = None
    """How slots draft; None: not at all."""
    guesser: DraftModel | None = None
    """The draft model that `drafting` may ask."""
    cache: CacheOptions | None = None
    """What states are kept; None keeps none."""
    receipts: ReceiptFacts | None = None
    """What receipts tell of this server; None makes none."""
    on_death: OnDeath
    """Told once, from the dying actor's thread; the process is to end."""
    encoder: PictureEncoder | None = None
    """Encodes pictures; it is closed by whoever loaded it, after the actors' end."""
    build: Mapping[str, str] = field(default_factory=dict)
    """Labels of the build info among the metrics."""


class ActorSystem:
    """The running actors, and the only door to them.

    Thread: any for `submit…`, `cancel` and `view`; start and stop belong to one.
    """

    def __init__(
        self, engine: Engine, model: Model, vocab: Vocab, options: SystemOptions
    ) -> None:
        self._engine = engine
        self._model = model
        self._vocab = vocab
        self._options = options
        self._peers = Peers(on_death=self._on_death)
        self._started: list[pykka.ActorRef[Any]] = []
        self._lock = threading.Lock()
        # What has not ended, by request and number of the choice or input.
        self._open: dict[tuple[str, int], Sink | VectorSink] = {}
        self._dead: KineticError | None = None
        facts = Facts(n_ctx=engine.n_ctx, build=options.build)
        self._page = MetricsPage(empty_view(engine.n_sequences), facts)

    def start(self) -> None:
        """Start everyone, those who are told before those who tell.

        Raises InternalError when one does not answer.
        """
        peers, options = self._peers, self._options
        engine = self._engine
        peers.metrics = self._start(Metrics, self._page, self._on_death)
        peers.decoder = self._start(
            Decoder, engine, options.plan, peers, options.encoder, options.guesser
        )
        if options.cache is not None:
            peers.cache = self._start(Cache, options.cache, options.plan, peers)
        if options.receipts is not None:
            peers.receipt = self._start(Receipt, options.receipts, peers)
        peers.detokenizer = self._start(Detokenizer, self._vocab, engine.n_ctx, peers)
        peers.renewer = self._start(Renewer, peers)
        drafting = options.drafting
        if drafting is not None:
            drafting = drafting.within(options.plan.rows_per_sequence)
        slots = SlotOptions(
            n_ctx=engine.n_ctx,
            rules=options.rules,
            can_cut=options.can_cut,
            drafting=drafting,
        )
        for slot_id in range(engine.n_sequences):
            seat = (slot_id, self._model, self._vocab, slots, peers)
            peers.slots.append(self._start(Slot, *seat))
        peers.scheduler = self._start(
            Scheduler,
            BeginningRules(
                plan=options.plan, can_cut=options.can_cut, states=options.rules
            ),
            line_limit=options.line_limit,
            peers=peers,
        )

    def _start(
        self, kind: type[KineticActor], *args: object, **named: object
    ) -> pykka.ActorRef[Any]:
        ref = kind.start(*args, **named)
        self._started.append(ref)
        try:
            ref.ask(PING, timeout=_START_S)
        except (pykka.ActorDeadError, pykka.Timeout) as error:
            message = f"{kind.__name__} did not start"
            raise InternalError(message) from error
        return ref

    def submit(self, jobs: tuple[Job, ...], sink: Sink) -> None:
        """Have answers made; each job ends exactly once at the sink."""
        with self._lock:
            dead = self._dead
            if dead is None:
                for job in jobs:
                    self._open[job.request_id, job.index] = sink
        if dead is not None:
            _fail_all(sink, jobs, dead)
            return
        tell(self._peers.scheduler, Submit(jobs=jobs, sink=sink))

    def submit_vectors(self, job: VectorJob, sink: VectorSink) -> None:
        """Have vectors made; each input ends exactly once at the sink."""
        indexes = range(len(job.inputs))
        with self._lock:
            dead = self._dead
            if dead is None:
                self._open.update(((job.request_id, i), sink) for i in indexes)
        if dead is not None:
            for i in indexes:
                sink.put(Failed(index=i, error=dead))
            return
        tell(self._peers.scheduler, SubmitVectors(job=job, sink=sink))

    def cancel(self, request_id: str, error: KineticError) -> None:
        """Drop a request; what of it is open ends with `error`."""
        cancel = Cancel(request_id=request_id, error=error)
        tell(self._peers.scheduler, cancel)
        if self._peers.receipt is not None:
            # Where an answer waits for its receipt, its slot is done with it.
            tell(self._peers.receipt, cancel)

    def forget(self, request_id: str, index: int) -> None:
        """A sink saw the end of a job or input: nobody has to end it any more."""
        with self._lock:
            self._open.pop((request_id, index), None)

    @property
    def n_open(self) -> int:
        """Jobs that have not ended."""
        with self._lock:
            return len(self._open)

    @property
    def view(self) -> MetricsView:
        """The metrics now."""
        return self._page.view

    def count_response(self, status: int) -> None:
        """An HTTP response is complete."""
        tell(self._peers.metrics, ResponseSent(status=status))

    def metrics_page(self) -> bytes:
        """All metrics now, in Prometheus' text format; no actor is asked."""
        return self._page.render()

    def keep_idle(self, now_s: float, least_idle_s: float) -> None:
        """Keep what slots hold that are idle for `least_idle_s`; any clock."""
        keep = KeepIdle(now_s=now_s, least_idle_s=least_idle_s)
        tell(self._peers.scheduler, keep)

    def keep_all(self) -> None:
        """Keep what every idle slot holds, and wait until it is with the Cache."""
        if self._peers.cache is None:
            return
        self.keep_idle(time.monotonic(), 0.0)
        peers = self._peers
        # Mailboxes are first in, first out: an answer to a ping means that all before
        # it was heard. Scheduler to slots, slots to Decoder, and back.
        for ref in (peers.scheduler, *peers.slots, peers.decoder, *peers.slots):
            with contextlib.suppress(pykka.ActorDeadError, pykka.Timeout):
                ref.ask(PING, timeout=_START_S)

    def drain(self) -> None:
        """Take no more requests; running ones go on."""
        tell(self._peers.scheduler, Drain())

    def end_open(self, error: KineticError) -> None:
        """Cancel everything that is still open."""
        with self._lock:
            requests = {request_id for request_id, _ in self._open}
        for request_id in requests:
            self.cancel(request_id, error)

    def stop(self) -> None:
        """Stop everyone, those who tell before those who are told."""
        for ref in reversed(self._started):
            if not ref.is_alive():
                continue
            try:
                ref.stop(block=True, timeout=_STOP_S)
            except (pykka.Timeout, pykka.ActorDeadError):
                _log.exception("%s did not stop", ref)
        self._started.clear()

    def _on_death(self, name: str, error: BaseException) -> None:
        with self._lock:
            if self._dead is not None:
                return
            self._dead = InternalError(f"the server failed: {name} ended")
            left = list(self._open.items())
            self._open.clear()
        for (_, index), sink in left:
            sink.put(Failed(index=index, error=self._dead))
        self._options.on_death(name, error)


def _fail_all(sink: Sink, jobs: tuple[Job, ...], error: KineticError) -> None:
    for job in jobs:
        sink.put(Failed(index=job.index, error=error))
