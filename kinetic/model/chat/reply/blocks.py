"""Reads a reply made of blocks of reasoning, text and calls, in any order."""

from __future__ import annotations

from collections.abc import Iterable

from kinetic.model.chat.reply.families.contract import AT_PAYLOAD
from kinetic.model.chat.reply.lines import Lines
from kinetic.model.chat.reply.openers import Opener, OpenerSet, Where
from kinetic.model.chat.reply.outlet import Outlet
from kinetic.model.chat.reply.reasoning import ReasoningReader, TagPairs
from kinetic.model.chat.reply.scanner import CallScanner
from kinetic.model.chat.reply.source import Reading, Source, skip_blanks


class ReplyReader:
    """The text of all families but those that write channels.

    Reasoning is expected first. After a block of it, another one may open at the start
    of a line or right after text; a tag after a blank or a quote is the answer's own.
    """

    def __init__(
        self,
        source: Source,
        outlet: Outlet,
        scanner: CallScanner,
        tags: TagPairs,
        *,
        split: bool,
    ) -> None:
        self._source = source
        self._outlet = outlet
        self._scanner = scanner
        self._tags = tags
        self._split = split
        self._reasoning = ReasoningReader(source, outlet, scanner, split=split)
        self._lines = Lines()
        closers = tags.closers if split else ()
        self._openers = self._with_calls([*tags.pairs, *closers], Where.TEXT_START)

    @property
    def is_reasoning(self) -> bool:
        """What is read now is reasoning."""
        return self._reasoning.is_open

    def read(self, *, forced: bool) -> Reading[None]:
        """Reads to the end of the text, or to the one call asked for.

        Args:
            forced: The reply was held to calls, so that one is also tried where the
                text begins.
        """
        source, lines = self._source, self._lines
        if self._tags.prompt_opener:
            yield from self._read_reasoning(self._tags.prompt_opener, is_written=False)
        while not self._outlet.complete:
            if forced and lines.fresh and (yield from self._read_payload()):
                continue
            found = yield from self._openers.find(source, lines, self._put)
            if found is None:
                return
            if found in self._tags.pairs:
                yield from self._read_reasoning(found, is_written=True)
            elif found in self._tags.closers:
                # With thinking off, some models begin with a closer.
                self._outlet.drop_content_start()
                source.take(len(found))
                self._expect_more_reasoning()
            elif not (yield from self._read_calls(found)):
                self._put(source.take(len(found)))

    def _read_payload(self) -> Reading[bool]:
        """Reads calls that begin here, without a marker, if nothing else does."""
        source = self._source
        start = source.mark()
        yield from skip_blanks(source)
        found = yield from source.choose((*self._tags.pairs, *self._tags.closers))
        source.rewind(start)
        source.release()
        return found is None and (yield from self._read_calls(AT_PAYLOAD))

    def _read_reasoning(self, opener: str, *, is_written: bool) -> Reading[None]:
        if self._lines.fresh and self._split:
            self._outlet.drop_content_start()
        yield from self._reasoning.read_block(opener, self._tags, is_written=is_written)
        self._expect_more_reasoning()

    def _expect_more_reasoning(self) -> None:
        """From here on closers are text, and openers may come again."""
        self._openers = self._with_calls(self._tags.pairs, Where.UNQUOTED)

    def _with_calls(self, tags: Iterable[str], where: Where) -> OpenerSet:
        return OpenerSet(
            (*self._scanner.openers, *(Opener(tag, where) for tag in tags))
        )

    def _read_calls(self, opener: str) -> Reading[bool]:
        calls = yield from self._scanner.read(opener)
        if not calls:
            return False
        self._source.release()
        while calls:
            self._outlet.calls(calls)
            if self._outlet.complete:
                break
            calls = yield from self._scanner.read_more(opener)
        return True

    def _put(self, text: str) -> None:
        self._lines.add(text)
        self._outlet.content(text)
