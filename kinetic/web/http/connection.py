"""What Tornado's connections are not: patient, JSON-speaking, and sure who is gone.

`ClientStream` is one client's socket. `BodyLimit` stands between the socket and the
handlers and lets a body that is too large end in an answer in place of a closed door.
"""

from __future__ import annotations

import asyncio
import enum
import errno
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tornado import httputil, iostream

from kinetic.web.errors import HttpError, openai_body, too_large
from kinetic.web.http.target import in_origin_form
from kinetic.web.http.written import REQUEST_ID, dumps, new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_PROBE_EVERY_S = 0.1
_TCP_CLOSED = 7
"""Linux's TCP_CLOSE in tcp_info: the peer answered with a reset."""

DRAIN_S = 30.0
"""How long a refused body is read and dropped: closing at once would take the answer
with it."""

WRITE_S = 60.0
"""A client that takes nothing of its answer for so long is given up."""

_DRAINED_BYTES = 64 << 10
_FAR = 4  # times the limit, from which on a body is not waited for
_DIGITS = 19  # of a length that is worth reading; Tornado refuses longer ones

_LAST_CHUNK = b"0\r\n\r\n"

_BARE_REFUSAL = b"HTTP/1.1 400 Bad Request\r\n\r\n"
"""How Tornado refuses what it cannot read as HTTP; a test sees that it still does."""


def refusal(error: HttpError) -> bytes:
    """A whole answer that closes the connection, for when no handler runs."""
    body = dumps(openai_body(error)).encode()
    phrase = HTTPStatus(error.status).phrase
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": str(len(body)),
        REQUEST_ID: new_id("req-"),
        **error.headers,
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {error.status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


_NOT_HTTP = HttpError(status=400, message="the request is not valid HTTP/1.1")


class ClientStream(iostream.IOStream):
    """One client's socket, which tells a client that is gone from one that listens.

    A closed connection and one whose client has only ended its own half look the same
    until something is sent: the closed one then answers with a reset. So when the
    client's half ends while its request is being answered, one byte is sent ahead of
    what will be written next, and the socket's state is watched. Before an answer that
    byte is the H of "HTTP/1.1"; between the chunks of one it is a leading zero of the
    next chunk's size.
    """

    def __init__(self, connection: socket.socket, *, max_buffer_size: int) -> None:
        super().__init__(connection, max_buffer_size=max_buffer_size)
        self.has_ended = False
        """Whether the client has ended its half; it may still read."""
        self._next = _Next.HEAD
        self._is_head_sent = False
        self._watch: asyncio.Task[None] | None = None
        self._unread_alarm: object | None = None
        self.on_closed: Callable[[ClientStream], None] = lambda _: None

    # --- What the crowd asks --------------------------------------------------------

    def has_unread(self) -> bool:
        """Whether bytes have come that nobody has looked at yet."""
        if self.closed():
            return False
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False

    def has_part(self) -> bool:
        """Whether a part of a request is read."""
        return self._read_buffer_size > 0

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close, and tell once."""
        was_open = not self.closed()
        super().close(*args, **kwargs)
        if was_open:
            if self._unread_alarm is not None:
                self.io_loop.remove_timeout(self._unread_alarm)
            self.on_closed(self)

    # --- Whether anybody reads ------------------------------------------------------

    def read_from_fd(self, buf: bytearray | memoryview) -> int | None:
        """Read; the end of the client's half is no end while an answer is due."""
        count = super().read_from_fd(buf)
        # Tornado looks only now and then whether what it waits for has come.
        if count == 0 and (not self.reading() or self._find_read_pos() is not None):
            if not self.has_ended:
                self.has_ended = True
                self._watch = asyncio.ensure_future(self._find_out())
            return None
        return count

    def _handle_events(self, fd: int, events: int) -> None:  # type: ignore[override]
        super()._handle_events(fd, events)
        if self.has_ended and not self.closed() and not self.reading():
            self._stop_listening()

    def _stop_listening(self) -> None:
        """Ended sockets are readable for ever: the loop would spin."""
        reads = self.io_loop.READ
        if self._state is not None and self._state & reads:
            self._state &= ~reads
            self.io_loop.update_handler(self.fileno(), self._state)

    def _maybe_add_error_listener(self) -> None:
        if not self.has_ended:
            super()._maybe_add_error_listener()

    async def _find_out(self) -> None:
        """Close the stream once it is known that nobody reads."""
        # What is still being written provokes the reset as well.
        if not self.closed() and not self.writing() and self._next is not _Next.OTHER:
            self._is_head_sent = self._next is _Next.HEAD
            await _quietly(super().write(self._next.value))
        while not self.closed():
            await asyncio.sleep(_PROBE_EVERY_S)
            if not self.closed() and _is_reset(self.socket):
                self.close()

    def begin_answer(self) -> None:
        """A request has been read; what is written next is its answer's head."""
        self._next = _Next.HEAD

    def write(self, data: bytes | memoryview) -> asyncio.Future[None]:
        """Write a part of an answer."""
        if data == _BARE_REFUSAL:
            data = refusal(_NOT_HTTP)
        if self._next is _Next.HEAD:
            head, _, _ = bytes(data).partition(b"\r\n\r\n")
            is_chunked = b"\r\nTransfer-Encoding: chunked" in head
            self._next = _Next.CHUNK if is_chunked else _Next.OTHER
        if data[-len(_LAST_CHUNK) :] == _LAST_CHUNK:
            self._next = _Next.OTHER
        if self._is_head_sent:
            self._is_head_sent = False
            data = data[1:]
        written = super().write(data)
        if self.writing() and self._unread_alarm is None:
            self._watch_reader()
        return written

    def _watch_reader(self) -> None:
        """Close the stream if nothing more of what is written is taken for long."""
        taken = self._total_write_done_index
        self._unread_alarm = self.io_loop.call_later(WRITE_S, self._look_again, taken)

    def _look_again(self, taken: int) -> None:
        self._unread_alarm = None
        if self.closed() or not self.writing():
            return
        if self._total_write_done_index == taken:
            self.close()
        else:
            self._watch_reader()


class _Next(enum.Enum):
    """What is written next, as the byte that may be sent ahead of it."""

    HEAD = b"H"
    CHUNK = b"0"
    OTHER = b""


async def _quietly(written: Awaitable[None]) -> None:
    try:
        await written
    except iostream.StreamClosedError:
        return


def _is_reset(connection: socket.socket) -> bool:
    if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in {
        errno.EPIPE,
        errno.ECONNRESET,
    }:
        return True
    option = getattr(socket, "TCP_INFO", None)
    if option is None:
        return False
    return connection.getsockopt(socket.IPPROTO_TCP, option, 1)[0] == _TCP_CLOSED


class BodyLimit(httputil.HTTPMessageDelegate):
    """Reads bodies of any size, keeps none that is too large, and tells the handler.

    Closing the connection while a client still sends would take the answer with it; so
    the rest of the body is read and dropped, for as long as a body may take to arrive.
    """

    def __init__(
        self,
        inner: httputil.HTTPMessageDelegate,
        connection: httputil.HTTPConnection,
        limit: int,
    ) -> None:
        self._inner = inner
        self._connection = connection
        self._limit = limit
        self._size = 0

    def headers_received(
        self,
        start_line: httputil.RequestStartLine | httputil.ResponseStartLine,
        headers: httputil.HTTPHeaders,
    ) -> Awaitable[None] | None:
        """Pass on; Tornado's own limit is lifted.

        A body that says itself that it is far too large is answered before it is sent,
        and so is one whose client asks first ("Expect: 100-continue") and need not send
        it at all.
        """
        self._connection.set_max_body_size(1 << 62)  # type: ignore[attr-defined]
        declared = headers.get("Content-Length", "")
        size = int(declared) if declared.isdecimal() and len(declared) < _DIGITS else 0
        asks = headers.get("Expect", "").lower() == "100-continue"
        if size > self._limit * (1 if asks else _FAR):
            return self._refuse()
        if isinstance(start_line, httputil.RequestStartLine):
            start_line = in_origin_form(start_line, headers)
        return self._inner.headers_received(start_line, headers)

    async def _refuse(self) -> None:
        """Answer, then read and drop what the client goes on sending, and close."""
        stream: iostream.IOStream = self._connection.stream  # type: ignore[attr-defined]
        try:
            await stream.write(refusal(too_large(self._limit)))
            async with asyncio.timeout(DRAIN_S):
                while True:
                    await stream.read_bytes(_DRAINED_BYTES, partial=True)
        except (iostream.StreamClosedError, TimeoutError):
            pass
        finally:
            stream.close()

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Pass on what fits."""
        self._size += len(chunk)
        if self._size > self._limit:
            self._connection.is_body_too_large = True  # type: ignore[attr-defined]
            return None
        return self._inner.data_received(chunk)

    def finish(self) -> None:
        """The body is over."""
        stream = self._connection.stream  # type: ignore[attr-defined]
        if isinstance(stream, ClientStream):
            stream.begin_answer()
        self._inner.finish()

    def on_connection_close(self) -> None:
        """The client is gone before its body was over."""
        self._inner.on_connection_close()
