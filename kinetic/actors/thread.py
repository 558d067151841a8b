"""A thread that several actors run on, one message at a time."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pykka._envelope import Envelope


class Member(Protocol):
    """An actor as its thread sees it. Everything is called in that thread."""

    def begin(self) -> bool:
        """Start, before the first message; False when that failed."""

    def take(self, envelope: Envelope[Any]) -> bool:
        """Hear a message; False once the actor has ended, and for all that follow."""


class SharedThread:
    """Runs actors whose work must not overlap, in the order of messages.

    Between two of them a message then costs no change of threads: on a small machine
    that takes longer than what there is to do.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._inbox: queue.SimpleQueue[tuple[Member, Envelope[Any] | None]] = (
            queue.SimpleQueue()
        )
        self._lock = threading.Lock()
        self._n_members = 0

    def door(self, member: Member) -> Door:
        """The member's mailbox, for whoever tells it anything."""
        return Door(self, member)

    def enter(self, member: Member) -> None:
        """Start a member, and the thread with the first. Any thread."""
        with self._lock:
            self._n_members += 1
            if self._n_members == 1:
                # Actor threads must not keep a crashed process alive.
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._inbox.put((member, None))

    def put(self, member: Member, envelope: Envelope[Any]) -> None:
        """Leave a message for a member. Any thread."""
        self._inbox.put((member, envelope))

    def _run(self) -> None:
        ended: set[Member] = set()
        while True:
            member, envelope = self._inbox.get()
            alive = member.begin() if envelope is None else member.take(envelope)
            if alive or member in ended:
                continue
            ended.add(member)
            with self._lock:
                self._n_members -= 1
                if self._n_members == 0:
                    break
        # Whoever asked an actor that has ended since must not wait for ever.
        while not self._inbox.empty():
            member, envelope = self._inbox.get()
            if envelope is not None:
                member.take(envelope)


class Door:
    """A member's mailbox: what pykka calls its inbox, but for taking anything out."""

    def __init__(self, thread: SharedThread, member: Member) -> None:
        self._thread = thread
        self._member = member

    def put(self, envelope: Envelope[Any], /) -> None:
        """Leave a message. Any thread."""
        self._thread.put(self._member, envelope)

    def get(self) -> Envelope[Any]:
        """Never called: the thread has one queue for all."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Whether nothing waits here: it waits with the thread."""
        return True
