"""What a parser gives out: pieces of content, reasoning and calls, trimmed on the way.

What has been given out never has to be taken back, so whitespace waits here until it
is known whether more of the same follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kinetic.model.chat.reply.arguments import FoundCall
from kinetic.types import (
    CallPiece,
    ContentPiece,
    OutputPiece,
    ReasoningPiece,
    ToolCall,
)

BETWEEN_BLOCKS = "\n"
"""Stands between two blocks of reasoning, or two messages of content."""


class _Trimmed:
    """Text whose whitespace at the end waits for what follows."""

    __slots__ = ("_waiting", "has_text", "is_cut")

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self.has_text = False
        """Something but whitespace was given out."""
        self.is_cut = False
        """Whitespace that comes next is dropped."""

    def add(self, text: str) -> str:
        """Takes text, gives back what of it may go out now."""
        if self.is_cut:
            text = text.lstrip()
        body = text.rstrip()
        if not body:
            if text:
                self._waiting.append(text)
            return ""
        out = "".join([*self._waiting, body])
        self._waiting = [text[len(body) :]]
        self.has_text, self.is_cut = True, False
        return out

    def drop_waiting(self) -> str:
        """Takes out what waits."""
        waiting = "".join(self._waiting)
        self._waiting.clear()
        return waiting

    def begin_block(self) -> None:
        """What comes next is trimmed, and set off from what was before."""
        self.drop_waiting()
        if self.has_text:
            self._waiting.append(BETWEEN_BLOCKS)
        self.is_cut = True


class Outlet:
    """Collects the pieces of one generation's output, in order."""

    def __init__(
        self, new_id: Callable[[], str], *, parallel: bool, used_ids: Iterable[str] = ()
    ) -> None:
        self._new_id = new_id
        self._parallel = parallel
        self._content = _Trimmed()
        self._reasoning = _Trimmed()
        self._pieces: list[OutputPiece] = []
        self._kind: type[ContentPiece | ReasoningPiece] = ContentPiece
        self._parts: list[str] = []  # of the piece that is being collected
        self._ids = set(used_ids)
        self._n_calls = 0
        self._is_behind_call = False  # and behind no content
        self.complete = False
        """The one call asked for was given out; nothing else will be."""

    @property
    def has_reasoning(self) -> bool:
        """True if there was any, but whitespace."""
        return self._reasoning.has_text

    def content(self, text: str) -> None:
        """Gives out text of the answer."""
        if body := self._content.add(text):
            self._is_behind_call = False
            self._add(ContentPiece, body)

    def reasoning(self, text: str) -> None:
        """Gives out text of a block of reasoning."""
        if body := self._reasoning.add(text):
            self._add(ReasoningPiece, body)

    def begin_reasoning(self) -> None:
        """Opens a block of reasoning."""
        self._reasoning.begin_block()

    def end_reasoning(self) -> None:
        """Closes it: whitespace at its end, and after it, is none of the text."""
        self._reasoning.drop_waiting()
        self._content.is_cut = True

    def begin_message(self) -> None:
        """Opens a further message of content."""
        self._content.begin_block()

    def drop_content_start(self) -> None:
        """Drops whitespace before the first content, there and to come."""
        self._content.drop_waiting()
        self._content.is_cut = True

    def calls(self, found: Iterable[FoundCall]) -> None:
        """Gives out calls, numbered on; only the first of all unless parallel."""
        for call in found:
            if self.complete:
                return
            call_id = call.id
            while call_id is None or call_id in self._ids:
                call_id = self._new_id()
            self._ids.add(call_id)
            tool_call = ToolCall(id=call_id, name=call.name, arguments=call.to_json())
            self._close_piece()
            self._pieces.append(CallPiece(self._n_calls, tool_call))
            self._n_calls += 1
            self._is_behind_call = True
            self.complete = not self._parallel

    def finish(self) -> None:
        """Gives out the whitespace that waits, unless calls are the last thing."""
        waiting = self._content.drop_waiting()
        if waiting and not self._is_behind_call:
            self._add(ContentPiece, waiting)

    def drain(self) -> list[OutputPiece]:
        """Takes the pieces collected since the last time."""
        self._close_piece()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _add(self, kind: type[ContentPiece | ReasoningPiece], text: str) -> None:
        if kind is not self._kind:
            self._close_piece()
            self._kind = kind
        self._parts.append(text)

    def _close_piece(self) -> None:
        if self._parts:
            self._pieces.append(self._kind("".join(self._parts)))
            self._parts.clear()
