"""How vectors cross from the actors' threads to the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

import numpy as np

from kinetic.actors.messages import VectorMade

if TYPE_CHECKING:
    import numpy.typing as npt

    from kinetic.actors.messages import VectorEvent
    from kinetic.errors import KineticError
    from kinetic.types import VectorJob
    from kinetic.web.actors import Actors


class VectorCall:
    """The sink of one request for vectors, awaited by its handler.

    `put` is called from the Scheduler's thread and never blocks; everything else
    belongs to the event loop. Each input ends exactly once; the first that fails ends
    the wait, and whoever waited cancels the rest.
    """

    def __init__(self, actors: Actors, job: VectorJob) -> None:
        self._actors = actors
        self._job = job
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._open = set(range(len(job.inputs)))
        self._made: dict[int, npt.NDArray[np.float32]] = {}
        self._error: KineticError | None = None
        self._is_cancelled = False
        self._done = asyncio.Event()

    def start(self) -> None:
        """Hand the inputs over."""
        self._actors.submit_vectors(self._job, self)

    def put(self, event: VectorEvent) -> None:
        """Take an event; any thread."""
        self._actors.forget(self._job.request_id, event.index)
        with self._lock:
            self._open.discard(event.index)
            if isinstance(event, VectorMade):
                self._made[event.index] = event.vector
            elif self._error is None:
                self._error = event.error
            is_done = not self._open or self._error is not None
        if is_done:
            # The loop is closed where the process is ending: nobody waits any more.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._done.set)

    async def vectors(self) -> list[npt.NDArray[np.float32]]:
        """Wait for every input's vector, in the inputs' order; raises what failed."""
        await self._done.wait()
        with self._lock:
            if self._error is not None:
                raise self._error
            return [self._made[i] for i in range(len(self._job.inputs))]

    def cancel(self, error: KineticError) -> None:
        """The client is gone: end what is open. Safe to call at any time."""
        with self._lock:
            if self._is_cancelled or not self._open:
                return
            self._is_cancelled = True
        self._actors.cancel(self._job.request_id, error)
