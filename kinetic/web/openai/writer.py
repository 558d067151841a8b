"""What writes one answer of OpenAI's routes, as chunks or as one body. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinetic.actors.messages import Finished, SinkEvent
from kinetic.web.http.sse import DONE
from kinetic.web.openai.render import Totals

if TYPE_CHECKING:
    from kinetic.web.openai.logprobs import Json
    from kinetic.web.openai.render import Writer
    from kinetic.web.openai.schema import Asked
    from kinetic.web.openai.whole import WholeChat, WholeText


class AnswerWriter:
    """Counts a request's tokens beside its chunks or its one body.

    Args:
        asked: The request.
        writer: Writes the route's chunks.
        whole: Makes its one body.
    """

    def __init__(
        self, asked: Asked, writer: Writer, whole: WholeChat | WholeText
    ) -> None:
        self._include_usage = asked.include_usage
        self._writer = writer
        self._whole = whole
        self._totals = Totals(n_per_prompt=asked.request.n)

    def pieces(self, event: SinkEvent) -> list[Json]:
        """The chunks of an event."""
        if isinstance(event, Finished):
            self._totals.add(event)
        return self._writer.chunks(event)

    def last(self) -> list[Any]:
        """The chunk of the token counts, where it is asked for, and the end's mark."""
        counts = self._totals.to_json()
        usage = [self._writer.usage_chunk(counts)] if self._include_usage else []
        return [*usage, DONE]

    def take(self, event: SinkEvent) -> None:
        """Add an event to the one body."""
        if isinstance(event, Finished):
            self._totals.add(event)
        self._whole.add(event)

    def whole(self) -> Json:
        """The one body."""
        return self._whole.to_json(self._totals.to_json())
