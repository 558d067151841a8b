"""Answers as lines of JSON, as Ollama streams them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetic.web.http.outflow import Outflow
from kinetic.web.http.written import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable


class LineStream(Outflow):
    """Writes one JSON value a line; there are no blank lines and no last marker."""

    content_type = "application/x-ndjson"

    async def send(self, values: Iterable[object]) -> None:
        """Send values, one line each; nothing for none. Raises ClientGone."""
        lines = [f"{dumps(value)}\n" for value in values]
        if lines:
            await self.write("".join(lines))
