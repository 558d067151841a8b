"""Where connections come in: a listening socket, which waits while there is no room."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tornado.ioloop import IOLoop

if TYPE_CHECKING:
    from kinetic.web.http.crowd import Crowd

_log = logging.getLogger(__name__)

BATCH = 32
"""Connections that are taken before others are heard."""

PAUSE_S = 0.05
"""How long the door stays closed; meanwhile who comes waits in the kernel's line."""

_TELL_EVERY_S = 1.0

_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What accept fails with while the process or the system has nothing left for more."""


class Door:
    """Takes the connections of one listening socket. Thread: the event loop's."""

    def __init__(
        self,
        listening: socket.socket,
        crowd: Crowd,
        take: Callable[[socket.socket, Any], None],
    ) -> None:
        self._listening = listening
        self._crowd = crowd
        self._take = take
        self._loop = IOLoop.current()
        self._pause: object | None = None
        self._told_s = -_TELL_EVERY_S
        self._open()

    def _open(self) -> None:
        self._pause = None
        self._loop.add_handler(self._listening, self._ready, IOLoop.READ)

    def _wait(self) -> None:
        self._loop.remove_handler(self._listening)
        self._pause = self._loop.call_later(PAUSE_S, self._open)

    def close(self) -> None:
        """Take no more."""
        if self._pause is not None:
            self._loop.remove_timeout(self._pause)
        else:
            self._loop.remove_handler(self._listening)

    def _ready(self, _listening: socket.socket, _events: int) -> None:
        for _ in range(BATCH):
            if not self._crowd.lets_in(self._loop.time()):
                self._wait()
                return
            try:
                connection, address = self._listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                self._run_short(error)
                return
            self._take(connection, address)

    def _run_short(self, error: OSError) -> None:
        """Wait until something is free again; an idle connection gives way."""
        self._crowd.close_idle()
        self._wait()
        if self._loop.time() - self._told_s >= _TELL_EVERY_S:
            self._told_s = self._loop.time()
            _log.warning("new connections wait: %s", error.strerror)
