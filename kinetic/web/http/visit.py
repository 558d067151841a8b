"""One request on its connection: how far it is, and whether there is room for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tornado import httputil

from kinetic.web.errors import no_room
from kinetic.web.http.crowd import PACE_BYTES, Crowd, Stage

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kinetic.web.http.connection import ClientStream


class Visit(httputil.HTTPMessageDelegate):
    """Tells the crowd how far a connection's next request is.

    Where there is no room to answer it, the request is whole all the same, so that its
    handler can say so in its API's shape, or answer where it is always to be reached.
    """

    def __init__(
        self,
        inner: httputil.HTTPMessageDelegate,
        connection: httputil.HTTPConnection,
        crowd: Crowd,
    ) -> None:
        self._inner = inner
        self._connection = connection
        self._crowd = crowd
        self._n_new = 0  # bytes since its time began
        self._stream: ClientStream = connection.stream  # type: ignore[attr-defined]
        if crowd.stage_of(self._stream) is Stage.ANSWER:
            self._move(Stage.IDLE)

    def _move(self, stage: Stage) -> None:
        if not self._stream.closed():
            self._crowd.move(self._stream, stage, self._stream.io_loop.time())

    def headers_received(
        self,
        start_line: httputil.RequestStartLine | httputil.ResponseStartLine,
        headers: httputil.HTTPHeaders,
    ) -> Awaitable[None] | None:
        """The head is whole."""
        self._move(Stage.BODY)
        return self._inner.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Pass on, and begin its time anew where it sends fast enough."""
        self._n_new += len(chunk)
        if self._n_new >= PACE_BYTES:
            self._n_new = 0
            self._move(Stage.BODY)
        return self._inner.data_received(chunk)

    def finish(self) -> None:
        """The request is whole: it is answered, if only that there is no room."""
        if self._crowd.lets_answer():
            self._move(Stage.ANSWER)
        else:
            self._move(Stage.LEAVING)
            refusal = no_room(self._crowd.room.n_answers)
            self._connection.refusal = refusal  # type: ignore[attr-defined]
            # Tornado then says "Connection: close" and does so behind the answer.
            self._connection._disconnect_on_finish = True  # type: ignore[attr-defined] # noqa: SLF001
        self._inner.finish()

    def on_connection_close(self) -> None:
        """Pass on."""
        self._inner.on_connection_close()
