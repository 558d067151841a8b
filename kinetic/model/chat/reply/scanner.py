"""Reads calls where they may stand in a text, and goes back where there is none."""

from __future__ import annotations

from kinetic.model.chat.reply.arguments import FoundCall, Tools
from kinetic.model.chat.reply.families.contract import AT_PAYLOAD, CallSyntax
from kinetic.model.chat.reply.openers import Opener
from kinetic.model.chat.reply.source import Mismatch, Reading, Source

FREE_REREADS = 1 << 16
MAX_REREADS_PER_CHAR = 4


class CallScanner:
    """Reads the calls of one family.

    Text that looks like a call and turns out to be none is read again, as text. What is
    read twice is bounded by a multiple of the text's length, so that no text takes more
    than linear time: one with more false starts than that has no calls from there on.
    """

    def __init__(self, source: Source, syntax: CallSyntax | None, tools: Tools) -> None:
        self._source = source
        self._syntax = syntax if len(tools) else None
        self._tools = tools
        self._n_reread = 0

    @property
    def openers(self) -> tuple[Opener, ...]:
        """The texts that may open a call; none if no call is to be found."""
        return self._syntax.openers if self._syntax else ()

    def read(self, opener: str = AT_PAYLOAD) -> Reading[list[FoundCall]]:
        """Reads the calls of the opener that stands here.

        Returns:
            The calls, read; the source has a mark where they began, for `give_back`
            or `release`. Empty if there is none: nothing is read then.
        """
        if self._syntax is None or self._is_spent:
            return []
        start = self._source.mark()
        try:
            return (yield from self._syntax.read(self._source, self._tools, opener))
        except Mismatch:
            self.give_back(start)
            return []

    def read_more(self, opener: str) -> Reading[list[FoundCall]]:
        """Reads further calls, or a closing tag, after calls; leaves no mark."""
        source, syntax = self._source, self._syntax
        if syntax is None or self._is_spent:
            return []
        start = source.mark()
        try:
            calls = yield from syntax.read_more(source, self._tools, opener)
        except Mismatch:
            self.give_back(start)
            return []
        source.release()
        return calls

    def give_back(self, start: int) -> None:
        """Makes what was read since `start` text to be read again."""
        self._n_reread += self._source.offset - start
        self._source.rewind(start)
        self._source.release()

    @property
    def _is_spent(self) -> bool:
        bound = FREE_REREADS + MAX_REREADS_PER_CHAR * self._source.offset
        return self._n_reread > bound
