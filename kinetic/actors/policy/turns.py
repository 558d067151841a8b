"""Whose input is run next, of requests for vectors. Pure, no threads, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinetic.actors.messages import VectorSink
    from kinetic.types import VectorJob

OPEN_BYTES_MAX = 512 << 20
"""Of all open requests together; the largest that is taken has some 150 MiB."""


@dataclass(slots=True, eq=False)
class OpenRequest:
    """An open request, and how much of it is done."""

    job: VectorJob
    sink: VectorSink
    n_begun: int = 0
    n_ended: int = 0
    is_given_up: bool = False
    has_failed: bool = False
    n_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        """Count once what it holds."""
        self.n_bytes = self.job.n_bytes

    @property
    def is_over(self) -> bool:
        """Nothing of it is told any more."""
        return self.is_given_up or self.n_ended == len(self.job.inputs)


class Turns:
    """Requests take turns, one input each, so that a short one waits for no long one.

    Bounded by requests, how many of them may be open at once, and by what they hold.
    """

    def __init__(self, limit: int, most_bytes: int = OPEN_BYTES_MAX) -> None:
        self._limit = limit
        self._most_bytes = most_bytes
        self._line: deque[OpenRequest] = deque()

    def __len__(self) -> int:
        return len(self._line)

    @property
    def n_waiting(self) -> int:
        """Requests of which no input has been begun."""
        return sum(request.n_begun == 0 for request in self._line)

    def has_room(self, request: OpenRequest) -> bool:
        """Whether one more request may come."""
        n_bytes = sum(other.n_bytes for other in self._line)
        fits = not self._line or n_bytes + request.n_bytes <= self._most_bytes
        return fits and len(self._line) <= self._limit

    def add(self, request: OpenRequest) -> None:
        """Put a request at the end of the round."""
        self._line.append(request)

    def take(self) -> tuple[OpenRequest, int] | None:
        """The next input, by its request and its number there; None: nothing waits."""
        if not self._line:
            return None
        request = self._line.popleft()
        index = request.n_begun
        request.n_begun += 1
        if request.n_begun < len(request.job.inputs):
            self._line.append(request)
        return request, index

    def remove(self, request_id: str) -> OpenRequest | None:
        """Remove a request that has inputs left to begin; None: there is none."""
        for request in self._line:
            if request.job.request_id == request_id:
                self._line.remove(request)
                return request
        return None

    def remove_unbegun(self) -> tuple[OpenRequest, ...]:
        """Remove every request of which no input has been begun."""
        gone = tuple(request for request in self._line if request.n_begun == 0)
        self._line = deque(request for request in self._line if request.n_begun)
        return gone
