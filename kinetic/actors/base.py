"""The actor that all of ours are: pykka's, with its start and end made safe."""

from __future__ import annotations

import logging
import queue
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pykka

if TYPE_CHECKING:
    from types import TracebackType

    from pykka._actor import ActorInbox
    from pykka._envelope import Envelope

    from kinetic.actors.thread import SharedThread

_log = logging.getLogger(__name__)


class KineticActor(pykka.ThreadingActor):
    """Runs `acquire` first and `release` last, whatever happens between.

    Pykka calls neither `on_stop` nor `on_failure` when `on_start` raises, and ends an
    actor for good when a told message raises. So both ways lead to `release` here,
    and to `on_death`, which the actor system uses to end open requests and the process.
    """

    # Actor threads must not keep a crashed process alive.
    use_daemon_thread = True

    @staticmethod
    def _create_actor_inbox() -> ActorInbox:
        """The mailbox; pykka's own, a `queue.Queue`, takes twice as long to wake."""
        return queue.SimpleQueue()

    def __init__(self, on_death: OnDeath, thread: SharedThread | None = None) -> None:
        super().__init__()
        self._on_death = on_death
        self._thread = thread
        if thread is not None:
            self.actor_inbox = thread.door(self)
            self._actor_ref = pykka.ActorRef(self)

    def _start_actor_loop(self) -> None:
        """Start in the shared thread, or in one of its own. Called by pykka."""
        if self._thread is not None:
            self._thread.enter(self)
        else:
            super()._start_actor_loop()

    def begin(self) -> bool:
        """Start; False when that failed. Called by the shared thread."""
        self._actor_loop_setup()
        return not self.actor_stopped.is_set()

    def take(self, envelope: Envelope[Any]) -> bool:
        """Hear a message; False once ended. Called by the shared thread.

        As pykka's own loop does it, for one message.
        """
        reply = envelope.reply_to
        if self.actor_stopped.is_set():
            if reply is not None:
                gone = pykka.ActorDeadError(f"{self.actor_ref} has ended")
                reply.set_exception((pykka.ActorDeadError, gone, None))
            return False
        try:
            answer = self._handle_receive(envelope.message)
        except BaseException:  # noqa: BLE001 - a panic in native code is no Exception
            if reply is not None:
                reply.set_exception()
            else:
                self._handle_failure(*sys.exc_info())
                self.on_failure(*sys.exc_info())
        else:
            if reply is not None:
                reply.set(answer)
        return not self.actor_stopped.is_set()

    def acquire(self) -> None:
        """Open what the actor owns; runs in its own thread."""

    def release(self) -> None:
        """Close what `acquire` opened, in any half-open state; own thread."""

    def hear(self, message: Any) -> None:
        """Do one bounded piece of work; a raise is a bug and ends the actor."""
        raise NotImplementedError

    def on_start(self) -> None:
        """Acquire; a failure releases what is half open. Called by pykka."""
        try:
            self.acquire()
        except BaseException as error:
            self._die(error)
            raise

    def on_stop(self) -> None:
        """Release. Called by pykka."""
        self._release()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,  # noqa: ARG002 - pykka's
        exception_value: BaseException | None,
        traceback: TracebackType | None,  # noqa: ARG002
    ) -> None:
        """Release, and say that the actor is dead. Called by pykka."""
        self._die(exception_value or RuntimeError("the actor ended without a reason"))

    def on_receive(self, message: Any) -> Any:
        """Answer pings, hear the rest. Called by pykka."""
        if message is PING:
            return True
        return self.hear(message)

    def _die(self, error: BaseException) -> None:
        name = type(self).__name__
        _log.critical("%s died", name, exc_info=error)
        self._release()
        try:
            self._on_death(name, error)
        except Exception:  # noqa: BLE001 - logged; others may run in this thread
            _log.exception("nobody could be told that %s died", name)

    def _release(self) -> None:
        try:
            self.release()
        except Exception:  # noqa: BLE001 - logged; the rest must still end
            _log.exception("%s could not let go of what it owns", type(self).__name__)


OnDeath = Callable[[str, BaseException], None]
"""Told an actor's name and why it died, in the dying actor's thread."""

PING = "ping"
"""Asked once at start: a reference alone proves nothing."""


def tell(ref: pykka.ActorRef[Any], message: object) -> None:
    """Tell a message; one to an actor that is gone is dropped.

    Only while stopping is anybody gone: a death ends every open request otherwise.
    """
    try:
        ref.tell(message)
    except pykka.ActorDeadError:
        _log.debug("%s is gone, dropped %s", ref, type(message).__name__)
