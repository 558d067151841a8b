"""The open connections, by what each is at, and which one gives way to another."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stage(enum.Enum):
    """What a connection is at."""

    HEAD = enum.auto()
    """It has sent no whole head of a request yet."""
    BODY = enum.auto()
    """It sends the body of a request."""
    ANSWER = enum.auto()
    """Its request is answered. It never gives way."""
    IDLE = enum.auto()
    """Its requests are answered, and it may send another."""
    LEAVING = enum.auto()
    """Its request is answered though there is no room; then it is closed."""


GRACE_S = {Stage.HEAD: 0.25, Stage.BODY: 1.0, Stage.LEAVING: 1.0}
"""How long those that send stay for certain, in the order in which they give way.

Whoever means to ask has sent a head, or most of it, before its connection is taken.
"""

PACE_BYTES = 64 << 10
"""Of a body, after which its time begins anew: who sends fast never gives way."""


class Client(Protocol):
    """A connection as the crowd knows it."""

    def has_unread(self) -> bool:
        """Whether bytes have come that nobody has looked at yet."""

    def has_part(self) -> bool:
        """Whether a part of a request is read."""

    def close(self) -> None:
        """Close it; it leaves the crowd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many connections there may be."""

    n_answers: int
    """That are answered, or idle after an answer."""
    n_senders: int
    """More that have not sent a whole request yet."""


class Crowd:
    """Who is connected. Thread: the event loop's; time is given.

    Those that send and those that are answered are counted apart, so that sockets that
    say nothing keep nobody from being answered. A connection in its first moments
    always stays, or a rush of good clients would push each other out.
    """

    def __init__(self, room: Room) -> None:
        self.room = room
        # In the order in which they came to their stage.
        self._at: dict[Stage, dict[Client, float]] = {stage: {} for stage in Stage}

    def stage_of(self, client: Client) -> Stage | None:
        """What a connection is at; None once it has left."""
        return next((stage for stage in Stage if client in self._at[stage]), None)

    def move(self, client: Client, stage: Stage, now_s: float) -> None:
        """A connection came, or is at something else now."""
        self.leave(client)
        self._at[stage][client] = now_s

    def leave(self, client: Client) -> None:
        """A connection is closed."""
        for clients in self._at.values():
            clients.pop(client, None)

    def lets_in(self, now_s: float) -> bool:
        """Whether one more may come; one that sends slowly is closed for it if need be.

        Those without a whole head give way first, the oldest of them before others.
        """
        if sum(len(self._at[stage]) for stage in GRACE_S) < self.room.n_senders:
            return True
        return _close_first(
            client
            for stage, grace_s in GRACE_S.items()
            for client, since_s in self._at[stage].items()
            if now_s - since_s >= grace_s and not client.has_unread()
        )

    def lets_answer(self) -> bool:
        """Whether one more may be answered; an idle one is closed for it if need be.

        The one that is idle for longest gives way, those before others that have begun
        to send their next request.
        """
        n_answers = len(self._at[Stage.ANSWER]) + len(self._at[Stage.IDLE])
        return n_answers < self.room.n_answers or self.close_idle()

    def close_idle(self) -> bool:
        """Close the connection that is idle for longest; False if there is none."""
        idle = [client for client in self._at[Stage.IDLE] if not client.has_unread()]
        return _close_first(sorted(idle, key=lambda client: client.has_part()))


def _close_first(clients: Iterator[Client] | list[Client]) -> bool:
    for client in clients:
        client.close()
        return True
    return False
