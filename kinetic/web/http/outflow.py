"""A streamed answer on its way to a client that may be slow, or gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tornado import iostream

from kinetic.errors import ClientGone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tornado.web import RequestHandler


class Outflow:
    """Writes pieces of one answer, as fast as the client reads.

    Headers go out with the first piece, so that until then an error can still be
    answered with its own status.
    """

    content_type: ClassVar[str]

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self.is_open = False
        """Whether the client has seen a 200."""

    async def send(self, values: Iterable[Any]) -> None:
        """Send JSON values; nothing for none. Raises ClientGone as `write` does."""
        raise NotImplementedError

    async def comment(self) -> None:
        """Send a sign of life, where the format has one; raises ClientGone."""

    async def write(self, text: str) -> None:
        """Send text; raises ClientGone when the client is gone."""
        handler = self._handler
        if not self.is_open:
            self.is_open = True
            handler.set_header("Content-Type", self.content_type)
            handler.set_header("Cache-Control", "no-cache")
            # Proxies of the nginx family would gather the pieces up otherwise.
            handler.set_header("X-Accel-Buffering", "no")
        handler.write(text)
        try:
            await handler.flush()
        except iostream.StreamClosedError:
            raise ClientGone("the client closed its connection") from None
