"""Splits what a model thinks from what it answers."""

from __future__ import annotations

from collections.abc import Mapping

from kinetic.model.chat.reply.lines import Lines
from kinetic.model.chat.reply.openers import OpenerSet
from kinetic.model.chat.reply.outlet import Outlet
from kinetic.model.chat.reply.scanner import CallScanner
from kinetic.model.chat.reply.source import ANYTHING, BLANKS, Reading, Source
from kinetic.model.chat.thinking import KNOWN_TAGS

THINK_TAGS: Mapping[str, str] = {
    **dict(KNOWN_TAGS),
    "<seed:think>": "</seed:think>",
}
"""The tags of known templates: what opens a block of reasoning, and what closes it."""

THINK_MARKERS = tuple(tag for tags in THINK_TAGS.items() for tag in tags)


class TagPairs:
    """The tags that the reasoning of one template's model stands between.

    A template that shows none leaves all the known ones: models write what they were
    trained on whether or not the template knows it.

    An answer that the prompt has begun, and not with a block, opens none: a tag in the
    middle of it is its own text.

    Raises:
        ValueError: The prompt's opener is not known, and no tags were given for it.
    """

    def __init__(
        self,
        tags: tuple[str, str] | None,
        prompt_opener: str | None = None,
        *,
        has_begun: bool = False,
    ) -> None:
        self.prompt_opener = prompt_opener and prompt_opener.strip()
        """What the prompt ended in."""
        pairs: dict[str, str] = {}
        if not has_begun:
            one = tags and {tags[0].strip(): tags[1].strip()}
            pairs = one or dict(THINK_TAGS)
        if self.prompt_opener and self.prompt_opener not in pairs:
            closer = THINK_TAGS.get(self.prompt_opener)
            if closer is None:
                raise ValueError(f"{prompt_opener!r} has no known closing tag")
            pairs[self.prompt_opener] = closer
        self.pairs: Mapping[str, str] = pairs
        self.closers = frozenset(pairs.values())
        self.are_sure = bool(tags or self.prompt_opener)
        """These are the template's tags, not such as any model might write."""


class ReasoningReader:
    """Reads blocks of reasoning up to their closing tags.

    In a block nothing is a call, with one exception: models are known to call a tool
    without closing the block. If the text ends in the block, and the block holds a
    whole call to a known tool, the block ends where that call begins. Only the end of
    the text tells, so from such a call on everything waits.
    """

    def __init__(
        self, source: Source, outlet: Outlet, scanner: CallScanner, *, split: bool
    ) -> None:
        self._source = source
        self._outlet = outlet
        self._scanner = scanner
        self._split = split
        self._openers = OpenerSet(scanner.openers)
        self._lines = Lines()
        self.is_open = False
        """What is read now is reasoning."""

    def read_block(
        self, opener: str, tags: TagPairs, *, is_written: bool
    ) -> Reading[None]:
        """Reads a block up to after its closer, or to the end of the text.

        Args:
            opener: The tag that opens the block.
            tags: The model's tags.
            is_written: The opener stands here in the text; else it stood in the prompt,
                and one that the model writes once more is dropped.
        """
        source, outlet = self._source, self._outlet
        closer = tags.pairs[opener]
        self._lines = Lines()
        self.is_open = True
        if self._split:
            outlet.begin_reasoning()
        source.stop_before(closer)
        if not is_written:
            self._put((yield from source.read_run(BLANKS)))
            is_written = (yield from source.choose((opener,))) is not None
        if is_written:
            self._put_tag(source.take(len(opener)))
        yield from self._read_inside()
        is_closed = source.exhausted and source.stopped
        is_cut = source.exhausted and not is_closed
        source.stop_before(None)
        if is_closed:
            self._put_tag(source.take(len(closer)))
        if self._split:
            outlet.end_reasoning()
            if is_cut and self._lines.fresh and not (tags.are_sure or source.truncated):
                # The whole answer is the tag itself: somebody asked for it.
                outlet.content(opener)
        self.is_open = False

    def _read_inside(self) -> Reading[None]:
        """Reads up to the closer, the end, or a call that ends the block."""
        source, scanner = self._source, self._scanner
        while True:
            opener = yield from self._openers.find(source, self._lines, self._put)
            if opener is None:
                return
            start = source.offset
            if not (yield from scanner.read(opener)):
                self._put(source.take(len(opener)))
                continue
            while (yield from scanner.read_more(opener)):
                pass
            rest = yield from source.read_run(ANYTHING)
            scanner.give_back(start)
            # Cut off after the call, the model was still thinking.
            if source.stopped or (source.truncated and rest.strip()):
                self._put(source.run(ANYTHING))
            return

    def _put(self, text: str) -> None:
        self._lines.add(text)
        if self._split:
            self._outlet.reasoning(text)
        else:
            self._outlet.content(text)

    def _put_tag(self, tag: str) -> None:
        if not self._split:
            self._outlet.content(tag)
