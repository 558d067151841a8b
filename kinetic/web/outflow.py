"""A streamed answer on its way to a client that may be slow, or gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from tornado import iostream

from kinetic.web.service import ClientGone

if TYPE_CHECKING:
    from kinetic.web.base import ApiHandler

WRITE_S = 60.0
"""A client that takes nothing for so long is given up."""


class Outflow:
    """Writes pieces of one answer.

    Headers go out with the first piece, so that until then an error can still be
    answered with its own status.
    """

    content_type: ClassVar[str]

    def __init__(self, handler: ApiHandler) -> None:
        self._handler = handler
        self.is_open = False
        """Whether the client has seen a 200."""

    async def write(self, text: str) -> None:
        """Send text; raises ClientGone when the client is gone or does not read."""
        handler = self._handler
        if not self.is_open:
            self.is_open = True
            handler.set_header("Content-Type", self.content_type)
            handler.set_header("Cache-Control", "no-cache")
            # Proxies of the nginx family would gather the pieces up otherwise.
            handler.set_header("X-Accel-Buffering", "no")
        handler.write(text)
        try:
            sent = handler.flush()
            if sent.done():
                # The system took it all: a timer would cost more than the sending.
                sent.result()
                return
            async with asyncio.timeout(WRITE_S):
                await sent
        except iostream.StreamClosedError:
            raise ClientGone("the client closed its connection") from None
        except TimeoutError:
            handler.request.connection.stream.close()  # type: ignore[union-attr]
            raise ClientGone(f"the client read nothing for {WRITE_S:.0f} s") from None
