"""The HTTP server: connection limit, time limits, one JSON 503 when full."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from tornado import httpserver, httputil, iostream, netutil

from kinetic.config import MIB
from kinetic.errors import AddressError
from kinetic.web.connection import BodyLimit, ClientStream, refusal
from kinetic.web.errors import HttpError

if TYPE_CHECKING:
    from tornado import web

    from kinetic.config import ServeOptions


class LimitedServer(httpserver.HTTPServer):
    """Tornado's server with a limit on connections.

    The one too many gets a whole 503 answer and is closed, in place of waiting in
    the kernel's line for ever.
    """

    max_connections = 64
    max_body_bytes = 32 * MIB
    bound_port = 0

    def _handle_connection(self, connection: socket.socket, address: Any) -> None:
        # Tornado's own makes a stream of its own kind here; nothing else differs.
        room = self.max_body_bytes + MIB
        self.handle_stream(ClientStream(connection, max_buffer_size=room), address)

    def handle_stream(self, stream: iostream.IOStream, address: Any) -> None:
        """Serve a new connection, or refuse it."""
        # Tornado keeps every open connection here to close them at the end.
        if len(self._connections) >= self.max_connections:
            task = asyncio.ensure_future(self._refuse(stream))
            _pending.add(task)
            task.add_done_callback(_pending.discard)
            return
        super().handle_stream(stream, address)

    def start_request(
        self, server_conn: object, request_conn: httputil.HTTPConnection
    ) -> httputil.HTTPMessageDelegate:
        """Give a request to the application, its body within the limit."""
        inner = super().start_request(server_conn, request_conn)
        return BodyLimit(inner, request_conn, self.max_body_bytes)

    async def _refuse(self, stream: iostream.IOStream) -> None:
        error = HttpError(
            status=503,
            message=f"{self.max_connections} connections are already open",
            kind="unavailable_error",
            headers={"Retry-After": "1"},
        )
        try:
            await stream.write(refusal(error))
            # Closing with the request unread would reset the connection and take the
            # answer with it; give the client a moment to send and to read.
            stream.set_close_callback(lambda: None)
            await asyncio.wait_for(stream.read_until_close(), 1.0)
        except (iostream.StreamClosedError, TimeoutError):
            pass
        finally:
            stream.close()


_pending: set[asyncio.Future[None]] = set()


def check_address(options: ServeOptions) -> None:
    """Raise AddressError now, not after minutes of loading.

    The sockets are closed again: a client must not wait in the kernel's line meanwhile.
    """
    for bound in _bind(options):
        bound.close()


def _bind(options: ServeOptions) -> list[socket.socket]:
    try:
        return netutil.bind_sockets(options.port, address=options.host)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AddressError(
            f"cannot listen on {options.host}:{options.port}: {reason}"
        ) from error


def listen(app: web.Application, options: ServeOptions) -> LimitedServer:
    """Bind and start serving; the port is chosen by the system where it is 0.

    Raises AddressError when the address is in use or not ours.
    """
    sockets = _bind(options)
    server = LimitedServer(
        app,
        max_header_size=256 << 10,
        body_timeout=options.request_timeout_s,
        idle_connection_timeout=options.request_timeout_s,
    )
    server.max_connections = options.max_connections
    server.max_body_bytes = options.max_body_bytes
    server.add_sockets(sockets)
    server.bound_port = sockets[0].getsockname()[1]
    return server
