"""The HTTP server: its address, its limits, and what stands before the application."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tornado import httpserver, httputil, netutil

from kinetic.config import MIB
from kinetic.errors import AddressError
from kinetic.web.http.connection import BodyLimit, ClientStream
from kinetic.web.http.crowd import Crowd, Stage
from kinetic.web.http.door import Door
from kinetic.web.http.room import fit, may_open
from kinetic.web.http.visit import Visit

if TYPE_CHECKING:
    from tornado import web

    from kinetic.config import ServeOptions
    from kinetic.web.http.crowd import Room

_log = logging.getLogger(__name__)

KERNEL_LINE = 1024
"""Connections that wait in the kernel's line; those beyond try again a second later."""


class LimitedServer(httpserver.HTTPServer):
    """Tornado's server with limits on connections, and who gives way when they are met.

    `listen` sets what is declared here before the first connection comes.
    """

    crowd: Crowd
    max_body_bytes = 32 * MIB
    bound_port = 0

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Take connections from these; Tornado's own never waits."""
        for listening in sockets:
            number = listening.fileno()
            self._sockets[number] = listening
            door = Door(listening, self.crowd, self._handle_connection)
            self._handlers[number] = door.close

    def _handle_connection(self, connection: socket.socket, address: Any) -> None:
        # Tornado's own makes a stream of its own kind here.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        room = self.max_body_bytes + MIB
        stream = ClientStream(connection, max_buffer_size=room)
        stream.on_closed = self.crowd.leave
        self.crowd.move(stream, Stage.HEAD, stream.io_loop.time())
        self.handle_stream(stream, address)

    def start_request(
        self, server_conn: object, request_conn: httputil.HTTPConnection
    ) -> httputil.HTTPMessageDelegate:
        """Give a request to the application, its body within the limit."""
        inner = super().start_request(server_conn, request_conn)
        body = BodyLimit(inner, request_conn, self.max_body_bytes)
        return Visit(body, request_conn, self.crowd)


def check_address(options: ServeOptions) -> None:
    """Raise AddressError or LimitError now, not after minutes of loading.

    The sockets are closed again: a client must not wait in the kernel's line meanwhile.
    """
    _room(options)
    for bound in _bind(options):
        bound.close()


def _room(options: ServeOptions) -> tuple[Room, int]:
    asked = options.max_connections
    n_files = may_open(asked)
    return fit(n_files, asked), n_files


def _bind(options: ServeOptions) -> list[socket.socket]:
    try:
        return netutil.bind_sockets(
            options.port, address=options.host, backlog=KERNEL_LINE
        )
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AddressError(
            f"cannot listen on {options.host}:{options.port}: {reason}"
        ) from error


def listen(app: web.Application, options: ServeOptions) -> LimitedServer:
    """Bind and start serving; the port is chosen by the system where it is 0.

    Raises AddressError when the address is in use or not ours, and LimitError.
    """
    room, n_files = _room(options)
    sockets = _bind(options)
    server = LimitedServer(
        app,
        max_header_size=256 << 10,
        body_timeout=options.request_timeout_s,
        idle_connection_timeout=options.request_timeout_s,
    )
    server.crowd = Crowd(room)
    server.max_body_bytes = options.max_body_bytes
    server.add_sockets(sockets)
    server.bound_port = sockets[0].getsockname()[1]
    _log.info(
        "connections: %d are answered at once, %d more may send; %d files may be open",
        room.n_answers,
        room.n_senders,
        n_files,
    )
    return server
