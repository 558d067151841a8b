"""LFM2's calls: a list between two tokens, Python-like or of JSON objects."""

from __future__ import annotations

from typing import ClassVar

from kinetic.model.chat.reply.arguments import FoundCall, Tools, call_from_object
from kinetic.model.chat.reply.families.contract import CallSyntax, read_closer
from kinetic.model.chat.reply.families.json_calls import read_json_call
from kinetic.model.chat.reply.literals import read_arguments, read_dict
from kinetic.model.chat.reply.openers import Opener, Where
from kinetic.model.chat.reply.source import Mismatch, Reading, Source, skip_blanks

CALLS = "<|tool_call_start|>"
CALLS_END = "<|tool_call_end|>"
LIST = "["


class Lfm2(CallSyntax):
    """`<|tool_call_start|>[name(key="value")]<|tool_call_end|>`.

    Small models leave the tokens out: a list of known functions that is the whole text
    is read as well.
    """

    openers: ClassVar[tuple[Opener, ...]] = (
        Opener(CALLS),
        Opener(LIST, Where.TEXT_START),
    )
    markers: ClassVar[tuple[str, ...]] = (CALLS, CALLS_END)

    def read(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads a list of calls, or one call."""
        source.take(len(opener))
        if opener == LIST:
            calls = yield from _read_list(source, tools, is_bare=True)
            if (yield from read_closer(source, CALLS_END)):
                return calls
            if (yield from source.peek()):
                raise Mismatch
            return calls
        yield from skip_blanks(source)
        if (yield from source.accept(LIST)):
            return (yield from _read_list(source, tools, is_bare=False))
        return [(yield from _read_call(source, tools, is_bare=False))]

    def read_more(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads the closing token."""
        del tools, opener
        if (yield from read_closer(source, CALLS_END)):
            return []
        raise Mismatch


def _read_list(
    source: Source, tools: Tools, *, is_bare: bool
) -> Reading[list[FoundCall]]:
    calls: list[FoundCall] = []
    while (yield from skip_blanks(source)) != "]" or not calls:
        calls.append((yield from _read_call(source, tools, is_bare=is_bare)))
        yield from skip_blanks(source)
        if (yield from source.expect(",", "]")) == "]":
            return calls
    source.take(1)
    return calls


def _read_call(source: Source, tools: Tools, *, is_bare: bool) -> Reading[FoundCall]:
    if (yield from source.peek()) != "{":
        name = (yield from source.expect(*(f"{name}(" for name in tools)))[:-1]
        return FoundCall(name, (yield from read_arguments(source)))
    if is_bare:
        return (yield from read_json_call(source, tools, is_bare=True))
    # Behind the marker a dict may be quoted as Python does; JSON is one as well.
    return call_from_object((yield from read_dict(source)), tools)
