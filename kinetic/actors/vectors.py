"""Requests for vectors: the Scheduler's part and the Decoder's.

    SubmitVectors -> VectorDesk: Embed -> VectorRun: a pass for each part -> Embedded
                  -> the sink: VectorMade, and the next input's Embed

One input is with the Decoder at a time, so that requests take turns input by input and
a request that is given up costs no more than the pass that runs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetic.actors.base import tell
from kinetic.actors.messages import (
    DropEmbed,
    Embed,
    Embedded,
    Failed,
    InputDone,
    JobDropped,
    PassDone,
    PassesDone,
    VectorMade,
    VectorsEnded,
    VectorsStarted,
)
from kinetic.actors.policy.turns import OpenRequest, Turns
from kinetic.errors import InternalError, KineticError, Overloaded, ShuttingDown
from kinetic.model.rows import Rows
from kinetic.types import Outcome, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from kinetic.actors.messages import Cancel, SubmitVectors
    from kinetic.actors.peers import Peers
    from kinetic.model.engine.api import Engine


class VectorDesk:
    """The Scheduler's line of requests for vectors. Thread: the Scheduler's."""

    def __init__(self, line_limit: int, peers: Peers) -> None:
        self._peers = peers
        self._turns = Turns(line_limit)
        self._running: tuple[OpenRequest, int] | None = None
        self._open = 0  # requests with an input begun that are not over
        self._serial = 0
        self._is_draining = False

    @property
    def n_running(self) -> int:
        """Requests that are being worked on."""
        return self._open

    @property
    def n_waiting(self) -> int:
        """Requests of which nothing has been begun."""
        return self._turns.n_waiting

    def submit(self, message: SubmitVectors) -> None:
        """Take a request, or tell its sink why not."""
        request = OpenRequest(job=message.job, sink=message.sink)
        if self._is_draining:
            error = ShuttingDown("the server is stopping")
            self._drop(request, error, Refusal.STOPPING)
            return
        if not self._turns.has_room(request):
            full = Overloaded(f"{len(self._turns)} requests are waiting already")
            self._drop(request, full, Refusal.OVERLOADED)
            return
        self._turns.add(request)
        self._next()

    def cancel(self, cancel: Cancel) -> None:
        """End what is open of a request; what the Decoder has of it is dropped."""
        request = self._turns.remove(cancel.request_id)
        running = self._running
        if running is not None and running[0].job.request_id == cancel.request_id:
            request = running[0]
            tell(self._peers.decoder, DropEmbed(serial=self._serial))
        if request is None or request.is_over:
            return
        if request.n_begun == 0:
            self._drop(request, cancel.error, Refusal.CANCELLED)
            return
        _fail(request, _left(request, running), cancel.error)
        self._end(request, Outcome.CANCELLED)

    def embedded(self, message: Embedded) -> None:
        """Take the Decoder's answer and give it the next input."""
        if message.serial != self._serial or self._running is None:
            return
        request, index = self._running
        self._running = None
        if not request.is_over:
            self._tell_end(request, index, message)
        self._next()

    def drain(self) -> None:
        """Take no more requests and end those of which nothing has been begun."""
        self._is_draining = True
        error = ShuttingDown("the server is stopping")
        for request in self._turns.remove_unbegun():
            self._drop(request, error, Refusal.STOPPING)

    def _next(self) -> None:
        if self._running is not None:
            return
        taken = self._turns.take()
        if taken is None:
            return
        request, index = taken
        if index == 0:
            self._open += 1
            waited = time.monotonic() - request.job.arrived_s
            tell(self._peers.metrics, VectorsStarted(queued_s=max(waited, 0.0)))
        self._running = taken
        self._serial += 1
        tokens = np.array(request.job.inputs[index], np.int32)
        tokens.flags.writeable = False
        tell(self._peers.decoder, Embed(serial=self._serial, tokens=tokens))

    def _tell_end(self, request: OpenRequest, index: int, message: Embedded) -> None:
        request.n_ended += 1
        error = message.error
        if message.vector is not None:
            done = InputDone(
                n_tokens=len(request.job.inputs[index]), seconds=message.seconds
            )
            tell(self._peers.metrics, done)
            request.sink.put(VectorMade(index=index, vector=message.vector))
        else:
            request.has_failed = True
            error = error or InternalError("the engine gave no vector")
            request.sink.put(Failed(index=index, error=error))
        if request.is_over:
            failed = request.has_failed
            self._end(request, Outcome.FAILED if failed else Outcome.VECTORS)

    def _end(self, request: OpenRequest, outcome: Outcome) -> None:
        """A request of which something had been begun is over."""
        if outcome is Outcome.CANCELLED:
            request.is_given_up = True
        self._open -= 1
        tell(self._peers.metrics, VectorsEnded(outcome=outcome, n_running=self._open))

    def _drop(self, request: OpenRequest, error: KineticError, why: Refusal) -> None:
        """End a request of which nothing has been begun."""
        request.is_given_up = True
        _fail(request, range(len(request.job.inputs)), error)
        tell(self._peers.metrics, JobDropped(outcome=why))


def _left(request: OpenRequest, running: tuple[OpenRequest, int] | None) -> list[int]:
    """Numbers of a request's inputs that have not ended."""
    left = list(range(request.n_begun, len(request.job.inputs)))
    if running is not None and running[0] is request:
        left.insert(0, running[1])
    return left


def _fail(request: OpenRequest, indexes: Iterable[int], error: KineticError) -> None:
    for index in indexes:
        request.sink.put(Failed(index=index, error=error))


class VectorRun:
    """The Decoder's input under way, pass by pass. Thread: the Decoder's."""

    def __init__(self, engine: Engine, peers: Peers) -> None:
        self._engine = engine
        self._peers = peers
        self._embed: Embed | None = None
        self._parts: list[tuple[int, int]] = []
        self._seconds = 0.0

    def begin(self, embed: Embed) -> None:
        """Take an input; each call of `step` then runs a part of it."""
        if self._embed is not None:
            raise InternalError("an input came while another one is run")
        self._embed = embed
        self._parts = list(self._engine.parts(len(embed.tokens)))
        self._seconds = 0.0

    def drop(self, message: DropEmbed) -> None:
        """Leave an input where it is; one that is done already is done."""
        if self._embed is not None and self._embed.serial == message.serial:
            self._answer(None)

    def step(self) -> bool:
        """Run the next part; whether another one is left."""
        embed = self._embed
        if embed is None:
            return False
        first, end = self._parts.pop(0)
        is_last = not self._parts
        rows = Rows(
            sequence=0,
            first=first,
            tokens=embed.tokens[first:end],
            n_logits=int(is_last),
        )
        started = time.perf_counter()
        try:
            vector = self._engine.embed(rows, is_last=is_last)
        except InternalError as error:
            self._answer(None, error)
            return False
        seconds = time.perf_counter() - started
        self._seconds += seconds
        self._tell_pass(end - first, end, seconds)
        if is_last:
            self._answer(vector, _fault(vector))
        return not is_last

    def _tell_pass(self, n_rows: int, n_past: int, seconds: float) -> None:
        done = PassDone(
            seconds=seconds,
            n_rows=n_rows,
            n_sequences=1,
            n_prompt_rows=n_rows,
            n_max_tokens=n_past,
        )
        tell(self._peers.metrics, PassesDone(passes=(done,)))

    def _answer(
        self, vector: npt.NDArray[Any] | None, error: KineticError | None = None
    ) -> None:
        if self._embed is None:
            return
        answer = Embedded(
            serial=self._embed.serial,
            vector=vector if error is None else None,
            error=error,
            seconds=self._seconds,
        )
        self._embed = None
        tell(self._peers.scheduler, answer)


def _fault(vector: npt.NDArray[Any] | None) -> KineticError | None:
    """JSON has no word for what is no number, and no client could use it."""
    if vector is None:
        return InternalError("the engine gave no vector")
    if not np.isfinite(vector).all():
        return InternalError("the model gave a vector with values that are no numbers")
    return None
