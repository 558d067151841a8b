"""How output crosses from the actors' threads to the event loop, bounded."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING

from kinetic.actors.messages import Failed, Finished
from kinetic.errors import KineticError, ReaderTooSlow

if TYPE_CHECKING:
    from kinetic.actors.messages import Job, SinkEvent
    from kinetic.web.service import Actors

LIMIT = 4096
"""Events that may wait for a reader before its request is cancelled."""


class RequestStream:
    """The sink of one request, read by its handler.

    `put` is called from slot threads and never blocks; everything else belongs to
    the event loop. Ends by itself once every job has ended, exactly once each.
    """

    def __init__(self, actors: Actors, jobs: tuple[Job, ...]) -> None:
        self._actors = actors
        self._loop = asyncio.get_running_loop()
        self._request_id = jobs[0].request_id
        self._open = {job.index for job in jobs}
        self._events: deque[SinkEvent] = deque()
        self._lock = threading.Lock()
        self._ready = asyncio.Event()
        self._is_cancelled = False
        self._jobs = jobs

    def start(self) -> None:
        """Hand the jobs over."""
        self._actors.submit(self._jobs, self)

    def put(self, event: SinkEvent) -> None:
        """Take an event; any thread."""
        with self._lock:
            if isinstance(event, Finished | Failed):
                self._actors.forget(self._request_id, event.index)
            is_first = not self._events
            self._events.append(event)
            is_full = len(self._events) > LIMIT and not self._is_cancelled
            if is_full:
                self._is_cancelled = True
        if is_full:
            error = ReaderTooSlow(f"{LIMIT} pieces of the answer wait to be read")
            self._actors.cancel(self._request_id, error)
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._ready.set)
            except RuntimeError:
                # The loop is closed: the process is ending, nobody reads any more.
                return

    async def read(self) -> list[SinkEvent]:
        """Wait for output and return all of it; [] once every job has ended."""
        if not self._open:
            return []
        await self._ready.wait()
        with self._lock:
            events = list(self._events)
            self._events.clear()
            self._ready.clear()
        for event in events:
            if isinstance(event, Finished | Failed):
                self._open.discard(event.index)
        return events

    def cancel(self, error: KineticError) -> None:
        """The client is gone: end what is open. Safe to call at any time."""
        with self._lock:
            if self._is_cancelled or not self._open:
                return
            self._is_cancelled = True
        self._actors.cancel(self._request_id, error)
