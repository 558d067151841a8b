"""What writes one answer of Ollama's routes, with the clock that its objects tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinetic.actors.messages import Delta, Finished, SinkEvent

if TYPE_CHECKING:
    from kinetic.web.ollama.render import JsonObject, Renderer


class AnswerWriter:
    """Gives a renderer the events of one job, and the time."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._deltas: list[Delta] = []
        self._whole: JsonObject = {}

    def pieces(self, event: SinkEvent) -> list[JsonObject]:
        """The lines of an event; the last one is the job's end."""
        if isinstance(event, Delta):
            return self._renderer.lines(event, utc_now())
        if isinstance(event, Finished):
            return [self._renderer.last_line(event, utc_now())]
        return []

    def last(self) -> list[JsonObject]:
        """Nothing: the job's end was the last line."""
        return []

    def take(self, event: SinkEvent) -> None:
        """Keep the pieces; write the body with the end."""
        if isinstance(event, Delta):
            self._deltas.append(event)
        if isinstance(event, Finished):
            self._whole = self._renderer.whole(self._deltas, event, utc_now())

    def whole(self) -> JsonObject:
        """The one body."""
        return self._whole


def utc_now() -> datetime:
    """The present."""
    return datetime.now(UTC)
