"""The HTTP server: connection limit, time limits, one JSON 503 when full."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tornado import httpserver, iostream, netutil

from kinetic.web.base import dumps
from kinetic.web.errors import HttpError, openai_body

if TYPE_CHECKING:
    from tornado import web

    from kinetic.config import ServeOptions

_log = logging.getLogger(__name__)


class LimitedServer(httpserver.HTTPServer):
    """Tornado's server with a limit on connections.

    The one too many gets a whole 503 answer and is closed, in place of waiting in
    the kernel's line for ever.
    """

    max_connections = 64
    bound_port = 0

    def handle_stream(self, stream: iostream.IOStream, address: Any) -> None:
        """Serve a new connection, or refuse it."""
        # Tornado keeps every open connection here to close them at the end.
        if len(self._connections) >= self.max_connections:
            task = asyncio.ensure_future(self._refuse(stream))
            _pending.add(task)
            task.add_done_callback(_pending.discard)
            return
        super().handle_stream(stream, address)

    async def _refuse(self, stream: iostream.IOStream) -> None:
        error = HttpError(
            status=503,
            message=f"{self.max_connections} connections are already open",
            kind="unavailable_error",
        )
        body = dumps(openai_body(error)).encode()
        head = (
            "HTTP/1.1 503 Service Unavailable\r\n"
            "Content-Type: application/json; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\n"
            "Retry-After: 1\r\n"
            "Connection: close\r\n\r\n"
        )
        try:
            await stream.write(head.encode() + body)
            # Closing with the request unread would reset the connection and take the
            # answer with it; give the client a moment to send and to read.
            stream.set_close_callback(lambda: None)
            await asyncio.wait_for(stream.read_until_close(), 1.0)
        except (iostream.StreamClosedError, TimeoutError):
            pass
        finally:
            stream.close()


_pending: set[asyncio.Future[None]] = set()


def listen(app: web.Application, options: ServeOptions) -> LimitedServer:
    """Bind and start serving; the port is chosen by the system where it is 0.

    Raises OSError when the address is in use or not ours.
    """
    sockets = netutil.bind_sockets(options.port, address=options.host)
    server = LimitedServer(
        app,
        max_body_size=options.max_body_bytes,
        max_buffer_size=options.max_body_bytes + (1 << 20),
        max_header_size=256 << 10,
        body_timeout=options.request_timeout_s,
        idle_connection_timeout=options.request_timeout_s,
    )
    server.max_connections = options.max_connections
    server.add_sockets(sockets)
    server.bound_port = sockets[0].getsockname()[1]
    return server
