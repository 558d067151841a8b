"""Qwen3.5's and LFM3's calls: tags round names and bare values, which are no XML.

`<tool_call>` `<function=NAME>` `<parameter=KEY>` value `</parameter>` … `</function>`
`</tool_call>`, with newlines between that may be missing. There are no attributes and
no entities; a value's type is known from the tool's schema alone, and so is where a
value ends that holds such tags itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kinetic.model.chat.reply.arguments import FoundCall, Tools
from kinetic.model.chat.reply.families.contract import CallSyntax, read_closer
from kinetic.model.chat.reply.families.json_calls import (
    read_json_calls,
    read_next_object,
)
from kinetic.model.chat.reply.jsontext import decode, read_container
from kinetic.model.chat.reply.openers import Opener
from kinetic.model.chat.reply.source import Mismatch, Reading, Source, skip_blanks

CALL = "<tool_call>"
CALL_END = "</tool_call>"
FUNCTION = "<function="
FUNCTION_END = "</function>"
PARAMETER = "<parameter="
PARAMETER_END = "</parameter>"

NAME_ENDS = ">\n"
KEY = re.compile(r"[^>\n]+")
MAX_KEY = 256
VALUE_RUN = re.compile(r"[^<]+")


class TaggedCalls(CallSyntax):
    """Calls in `<tool_call>`, as JSON objects or as tags."""

    openers: ClassVar[tuple[Opener, ...]] = (Opener(CALL),)
    markers: ClassVar[tuple[str, ...]] = (CALL, CALL_END)

    def read(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads one function in tags, one call object, or a list of those."""
        source.take(len(opener))
        char = yield from skip_blanks(source)
        if char and char in "{[":
            return (yield from read_json_calls(source, tools))
        yield from source.expect(FUNCTION)
        return [(yield from read_function(source, tools))]

    def read_more(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads the closing tag, or another object before it."""
        del opener
        if (yield from read_closer(source, CALL_END)):
            return []
        return (yield from read_next_object(source, tools))


class QwenXml(TaggedCalls):
    """As TaggedCalls, but a function's tag alone also opens a call."""

    openers: ClassVar[tuple[Opener, ...]] = (Opener(CALL), Opener(FUNCTION))
    markers: ClassVar[tuple[str, ...]] = (
        CALL,
        CALL_END,
        FUNCTION,
        FUNCTION_END,
        PARAMETER,
        PARAMETER_END,
    )

    def read(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads one function in tags, one call object, or a list of those."""
        if opener == FUNCTION:
            source.take(len(opener))
            return [(yield from read_function(source, tools))]
        return (yield from super().read(source, tools, opener))


def read_function(source: Source, tools: Tools) -> Reading[FoundCall]:
    """Reads the name after `<function=`, and the parameters up to the closing tag.

    Raises:
        Mismatch: The function is unknown, or what follows is no parameter.
    """
    ends = [name + end for name in tools for end in NAME_ENDS]
    name = (yield from source.expect(*ends))[:-1]
    arguments: dict[str, Any] = {}
    end = _ValueEnd(tools, tools.parameters(name), arguments)
    while True:
        yield from skip_blanks(source)
        tag = yield from source.expect(PARAMETER, FUNCTION_END, CALL_END)
        if tag != PARAMETER:
            return FoundCall(name, arguments)
        key = yield from source.read_run(KEY)
        if not key or len(key) > MAX_KEY:
            raise Mismatch
        # A newline that ends the name is also the one before the value.
        if (yield from source.expect(">", "\n")) == ">":
            yield from source.accept("\n")
        arguments[key] = None
        text = None
        if tools.may_be_json(name, key):
            text = yield from _read_json(source, end)
        if text is None:
            text = yield from _read_text(source, end)
        arguments[key] = tools.typed(name, key, text)


@dataclass(frozen=True, slots=True)
class _ValueEnd:
    """Tells whether a closing tag ends a value, or is a part of it.

    It ends the value only where the call goes on, with a parameter that the tool has
    and the call has not yet, or where the whole call ends.
    """

    tools: Tools
    parameters: frozenset[str] | None
    """Those that the tool has; None if any may come."""
    given: Mapping[str, Any]
    """Those of the call so far, this one too."""

    def is_here(self, source: Source) -> Reading[bool]:
        """Looks on from after the tag; reads nothing."""
        start = source.mark()
        yield from skip_blanks(source)
        found = yield from self._goes_on(source)
        source.rewind(start)
        source.release()
        return found

    def _goes_on(self, source: Source) -> Reading[bool]:
        tag = yield from source.accept(PARAMETER, FUNCTION_END, CALL_END)
        if tag == PARAMETER:
            key = yield from source.read_run(KEY)
            is_known = self.parameters is None or key in self.parameters
            is_next = is_known and key not in self.given and 0 < len(key) <= MAX_KEY
            return is_next and bool((yield from source.peek()))
        if tag == FUNCTION_END:
            if not (yield from skip_blanks(source)):
                return True
            calls = (f"{FUNCTION}{n}{end}" for n in self.tools for end in NAME_ENDS)
            return (yield from source.choose((CALL, CALL_END, *calls))) is not None
        return tag == CALL_END


def _read_json(source: Source, end: _ValueEnd) -> Reading[str | None]:
    """Reads an object or an array and its closing tag; None if it is no such value.

    What its strings hold ends no value.
    """
    start = source.mark()
    try:
        text = yield from _read_container(source, end)
    except Mismatch:
        text = None
        source.rewind(start)
    source.release()
    return text


def _read_container(source: Source, end: _ValueEnd) -> Reading[str]:
    yield from skip_blanks(source)
    text = yield from read_container(source)
    decode(text)
    yield from skip_blanks(source)
    yield from source.expect(PARAMETER_END)
    if not (yield from end.is_here(source)):
        raise Mismatch
    return text


def _read_text(source: Source, end: _ValueEnd) -> Reading[str]:
    """Reads a value up to its closing tag, and one newline less than there is."""
    parts: list[str] = []
    while True:
        parts.append(source.run(VALUE_RUN))
        if not (source.now or (yield from source.peek())):
            raise Mismatch
        if source.now != "<":
            continue
        if not (yield from source.accept(PARAMETER_END)):
            parts.append(source.take(1))
        elif (yield from end.is_here(source)):
            return "".join(parts).removesuffix("\n")
        else:
            parts.append(PARAMETER_END)
