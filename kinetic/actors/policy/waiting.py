"""The waiting line: who is served next. Pure, no threads, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinetic.actors.messages import Job, Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A job in the line, with where its output goes."""

    job: Job
    sink: Sink


class WaitingLine:
    """First come, first served, with a bound.

    Jobs of a group whose prompt is being run stay in the line until it stands, while
    those after them go on.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line: deque[Waiter] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def has_room(self, count: int) -> bool:
        """Whether `count` more may wait."""
        return len(self._line) + count <= self._limit

    def add(self, waiter: Waiter) -> None:
        """Put a job at the end."""
        self._line.append(waiter)

    def take(self, is_ready: Callable[[Job], bool]) -> Waiter | None:
        """Remove and return the first job that can be served now."""
        for i, waiter in enumerate(self._line):
            if is_ready(waiter.job):
                del self._line[i]
                return waiter
        return None

    def remove(self, request_id: str) -> tuple[Waiter, ...]:
        """Remove and return a request's jobs."""
        return self.remove_all(lambda job: job.request_id == request_id)

    def remove_all(self, is_meant: Callable[[Job], bool]) -> tuple[Waiter, ...]:
        """Remove and return the jobs that are meant."""
        gone = tuple(w for w in self._line if is_meant(w.job))
        self._line = deque(w for w in self._line if not is_meant(w.job))
        return gone

    def is_only(self, is_meant: Callable[[Job], bool]) -> bool:
        """Whether nobody but those who are meant waits."""
        return all(is_meant(waiter.job) for waiter in self._line)

    def clear(self) -> tuple[Waiter, ...]:
        """Remove and return everybody."""
        gone = tuple(self._line)
        self._line.clear()
        return gone
