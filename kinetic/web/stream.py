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
    from kinetic.web.actors import Actors
    from kinetic.web.journal import Journal

LIMIT = 4096
"""Events that may wait for a reader before its request is cancelled."""


class RequestStream:
    """The sink of one request, read by its handler.

    `put` is called from slot threads and never blocks; everything else belongs to
    the event loop. Ends by itself once every job has ended, exactly once each.
    """

    def __init__(self, actors: Actors, jobs: tuple[Job, ...], journal: Journal) -> None:
        self._actors = actors
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._request_id = jobs[0].request_id
        self._open = {job.index for job in jobs}
        self._events: deque[SinkEvent] = deque()
        self._lock = threading.Lock()
        self._ready = asyncio.Event()
        self._is_cancelled = False
        self._jobs = jobs
        self._heard_s = self._loop.time()  # when something was last read
        self._alarm: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Hand the jobs over."""
        self._actors.submit(self._jobs, self)

    def put(self, event: SinkEvent) -> None:
        """Take an event; any thread."""
        with self._lock:
            if isinstance(event, Finished | Failed):
                self._actors.forget(self._request_id, event.index)
                # Here, and not where it is read: a client that is gone reads nothing.
                self._journal.saw(event)
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
        while (events := await self._read()) is None:
            pass
        return events

    async def read_or_silence(self, silence_s: float | None) -> list[SinkEvent] | None:
        """As `read`, but None after so much silence, if any is given."""
        if silence_s is not None and self._alarm is None:
            # One timer for the whole answer: one for each token costs more than the
            # token's text.
            self._heard_s = self._loop.time()
            self._listen(silence_s)
        return await self._read()

    def _listen(self, silence_s: float) -> None:
        """Wake the reader if nothing was read for too long; look again later."""
        now = self._loop.time()
        left_s = silence_s - (now - self._heard_s)
        if left_s <= 0:
            self._heard_s, left_s = now, silence_s
            self._ready.set()
        self._alarm = self._loop.call_later(left_s, self._listen, silence_s)

    async def _read(self) -> list[SinkEvent] | None:
        """Wait for output, or for the alarm of silence."""
        if not self._open:
            return []
        await self._ready.wait()
        with self._lock:
            events = list(self._events)
            self._events.clear()
            self._ready.clear()
        if not events:
            return None
        self._heard_s = self._loop.time()
        for event in events:
            if isinstance(event, Finished | Failed):
                self._open.discard(event.index)
        return events

    def cancel(self, error: KineticError) -> None:
        """The client is gone: end what is open. In the loop, at any time."""
        if self._alarm is not None:
            self._alarm.cancel()
        with self._lock:
            if self._is_cancelled or not self._open:
                return
            self._is_cancelled = True
        self._actors.cancel(self._request_id, error)
