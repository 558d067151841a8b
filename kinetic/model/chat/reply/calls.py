"""Reads what a model writes, as it writes it: reasoning, text and tool calls.

One parser reads one generation. Fed with the whole text or with any pieces of it, it
gives out the same, and what it has given out it never takes back:

* A marker opens a call only if its payload is whole and names a tool of the request.
  Else it is text, and reading goes on right after it: no text is lost, not even text
  cut off in the middle of a call.
* The payload is read first and its closing tag, which may be missing, after it: values
  may hold that tag.
* In a block of reasoning nothing is a call, but for one that ends the text there (see
  `reasoning`). In a Markdown code fence nothing is one either, but that the generic
  family takes a JSON fence that holds a call and nothing else.
* Reasoning is trimmed at both ends. Content loses whitespace after reasoning, and
  before calls that nothing follows; else it is the text without the calls.

Held back is only what may still become something else: the beginning of a marker,
whitespace, a call until it is whole, and a bare call until it is known that nothing
follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kinetic.model.chat.reply.arguments import Tools
from kinetic.model.chat.reply.blocks import ReplyReader
from kinetic.model.chat.reply.families.contract import CallSyntax
from kinetic.model.chat.reply.families.generic import Generic
from kinetic.model.chat.reply.families.gpt_oss import (
    MARKERS as CHANNEL_MARKERS,
    ChannelReader,
)
from kinetic.model.chat.reply.families.hermes import Hermes
from kinetic.model.chat.reply.families.lfm2 import Lfm2
from kinetic.model.chat.reply.families.llama3 import Llama3
from kinetic.model.chat.reply.families.mistral import Mistral
from kinetic.model.chat.reply.families.qwen_xml import QwenXml
from kinetic.model.chat.reply.outlet import Outlet
from kinetic.model.chat.reply.reasoning import THINK_MARKERS, TagPairs
from kinetic.model.chat.reply.scanner import CallScanner
from kinetic.model.chat.reply.source import Source
from kinetic.types import OutputPiece

PLAIN = "plain"
GPT_OSS = "gpt-oss"
SYNTAXES: Mapping[str, CallSyntax] = {
    "qwen3.5": QwenXml(),
    "lfm3": QwenXml(),
    "hermes": Hermes(),
    "lfm2": Lfm2(),
    "llama3": Llama3(),
    "mistral": Mistral(),
    "generic": Generic(),
}
FAMILIES = frozenset((*SYNTAXES, GPT_OSS, PLAIN))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFormat:
    """How one generation's text is to be read: plain data, picklable."""

    family: str
    """One of FAMILIES; "plain" has no calls."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """OpenAI tool definitions. With none, only reasoning is split off."""
    think_open: str | None = None
    """The think tag that the prompt ended in, so that the text begins in a block."""
    has_begun: bool = False
    """The prompt has begun the answer itself, after any block."""
    think_tags: tuple[str, str] | None = None
    """The template's think tags. None if it shows none: a text that begins with any
    known opener is then still read as reasoning, as models write it out of habit. Of a
    plain model's answers that misreads one that begins with such a tag bare; only if
    the tag is the whole answer is it known to be meant."""
    parallel: bool = False
    """Several calls are wanted; else the first is the last thing read."""
    split_reasoning: bool = True
    """Reasoning goes out apart; else it is content, tags and all, still no calls."""
    used_ids: frozenset[str] = frozenset()
    """Ids of the conversation's earlier calls, which no new one gets."""
    forced: bool = False
    """The reply was held to calls: the first marker may have been left out."""


class OutputParser:
    """Reads the text of one generation. Not to be shared between threads.

    Args:
        fmt: How the text is to be read.
        new_id: Makes an id for a call: nine ASCII letters or digits, never the same.

    Raises:
        ValueError: The family, or the think tag of the prompt, is unknown.
    """

    def __init__(self, fmt: OutputFormat, new_id: Callable[[], str]) -> None:
        if fmt.family not in FAMILIES:
            known = ", ".join(sorted(FAMILIES))
            raise ValueError(f"family {fmt.family!r} is none of {known}")
        self._source = Source()
        self._outlet = Outlet(new_id, parallel=fmt.parallel, used_ids=fmt.used_ids)
        tools = Tools(fmt.tools)
        self._reader: ChannelReader | ReplyReader
        if fmt.family == GPT_OSS:
            self._reader = ChannelReader(
                self._source, self._outlet, tools, split=fmt.split_reasoning
            )
            self._script = self._reader.read()
        else:
            syntax = SYNTAXES.get(fmt.family)
            self._reader = ReplyReader(
                self._source,
                self._outlet,
                CallScanner(self._source, syntax, tools),
                TagPairs(fmt.think_tags, fmt.think_open, has_begun=fmt.has_begun),
                split=fmt.split_reasoning,
            )
            self._script = self._reader.read(forced=fmt.forced)
        self._is_read = False
        self._has_ended = False
        self._advance()

    def feed(self, text: str) -> list[OutputPiece]:
        """Reads on.

        Args:
            text: What the model wrote next: whole characters, cut anywhere else.

        Returns:
            What is known by now and was not given out before.

        Raises:
            ValueError: The text has ended.
        """
        if self._has_ended:
            raise ValueError("text was fed after the end")
        if text and not self._is_read:
            self._source.feed(text)
            self._advance()
        return self._outlet.drain()

    def finish(self, *, truncated: bool) -> list[OutputPiece]:
        """Reads what was held back, as calls or as text, for nothing more comes.

        Args:
            truncated: The text was cut off by a limit; the model had more to say.

        Returns:
            The last pieces.
        """
        if not self._has_ended:
            self._has_ended = True
            self._source.end(truncated=truncated)
            self._advance()
            if not self._outlet.complete:
                self._outlet.finish()
        return self._outlet.drain()

    @property
    def visible(self) -> bool:
        """True while what comes is content, for all that is known.

        Stop strings apply there: not in reasoning, and not in what may be a call.
        """
        is_hidden = self._reader.is_reasoning or self._source.marked
        return not (is_hidden or self._outlet.complete)

    @property
    def complete(self) -> bool:
        """True if the one call asked for has been read: generation can stop."""
        return self._outlet.complete

    def _advance(self) -> None:
        if not self._is_read:
            try:
                next(self._script)
            except StopIteration:
                self._is_read = True


def parser_for(fmt: OutputFormat, new_id: Callable[[], str]) -> OutputParser:
    """A parser for one generation; see OutputParser."""
    return OutputParser(fmt, new_id)


def markers(family: str) -> tuple[str, ...]:
    """The texts that must be visible when the model writes them as one token.

    The engine gives out control tokens as empty text: what stands between calls and
    round reasoning would be gone. Those of a family's markers that are one token of the
    vocabulary, and do not end the generation, are to be written out; beside them the
    template's own think tags.

    Raises:
        ValueError: The family is unknown.
    """
    if family not in FAMILIES:
        raise ValueError(f"family {family!r} is unknown")
    if family == GPT_OSS:
        return CHANNEL_MARKERS
    syntax = SYNTAXES.get(family)
    return (*(syntax.markers if syntax else ()), *THINK_MARKERS)
