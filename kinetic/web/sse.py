"""Server-sent events: one answer's chunks on their way to a client that may be slow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tornado import iostream

from kinetic.web.base import dumps
from kinetic.web.service import ClientGone

if TYPE_CHECKING:
    from kinetic.web.base import ApiHandler

SILENCE_S = 30.0
"""After so much silence a comment tells client and proxies that the answer goes on.

Source: the interval, and that it is a comment, are llama-server's.
"""

WRITE_S = 60.0
"""A client that takes nothing for so long is given up."""

DONE = "[DONE]"


class EventStream:
    """Writes events to one client.

    Headers go out with the first event, so that until then an error can still be
    answered with its own status.
    """

    def __init__(self, handler: ApiHandler) -> None:
        self._handler = handler
        self.is_open = False
        """Whether the client has seen a 200."""

    async def send(self, events: Iterable[object]) -> None:
        """Send JSON values, or "[DONE]", as one event each; nothing for no events.

        Raises ClientGone when the client closed the connection or does not read.
        """
        lines = [f"data: {_payload(event)}\n\n" for event in events]
        if lines:
            await self._write("".join(lines))

    async def comment(self) -> None:
        """Send a line that clients skip; raises ClientGone as `send` does."""
        await self._write(":\n\n")

    async def _write(self, text: str) -> None:
        handler = self._handler
        if not self.is_open:
            self.is_open = True
            handler.set_header("Content-Type", "text/event-stream; charset=utf-8")
            handler.set_header("Cache-Control", "no-cache")
            # Proxies of the nginx family would gather the events up otherwise.
            handler.set_header("X-Accel-Buffering", "no")
        handler.write(text)
        try:
            async with asyncio.timeout(WRITE_S):
                await handler.flush()
        except iostream.StreamClosedError:
            raise ClientGone("the client closed its connection") from None
        except TimeoutError:
            handler.request.connection.stream.close()  # type: ignore[union-attr]
            raise ClientGone(f"the client read nothing for {WRITE_S:.0f} s") from None


def _payload(event: object) -> str:
    return DONE if event == DONE else dumps(event)


async def next_events(stream: Any, *, silence_s: float = SILENCE_S) -> list[Any] | None:
    """What a request's stream tells next; None after a time of silence."""
    try:
        async with asyncio.timeout(silence_s):
            found: list[Any] = await stream.read()
    except TimeoutError:
        return None
    return found
