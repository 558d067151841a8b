"""Server-sent events: one answer's chunks on their way to a client that may be slow."""

from __future__ import annotations

from collections.abc import Iterable

from kinetic.web.http.outflow import Outflow
from kinetic.web.http.written import dumps

SILENCE_S = 30.0
"""After so much silence a comment tells client and proxies that the answer goes on.

Source: the interval, and that it is a comment, are llama-server's.
"""

DONE = "[DONE]"


class EventStream(Outflow):
    """Writes events to one client."""

    content_type = "text/event-stream; charset=utf-8"

    async def send(self, events: Iterable[object]) -> None:
        """Send JSON values, or "[DONE]", as one event each; nothing for no events.

        Raises ClientGone when the client closed the connection or does not read.
        """
        lines = [f"data: {_payload(event)}\n\n" for event in events]
        if lines:
            await self.write("".join(lines))

    async def comment(self) -> None:
        """Send a line that clients skip; raises ClientGone as `send` does."""
        await self.write(":\n\n")


def _payload(event: object) -> str:
    return DONE if event == DONE else dumps(event)
