"""Calls written as JSON objects, as most families do in their own brackets."""

from __future__ import annotations

import re

from kinetic.model.chat.reply.arguments import (
    CALL_KEYS,
    FoundCall,
    Tools,
    call_from_object,
)
from kinetic.model.chat.reply.jsontext import read_object
from kinetic.model.chat.reply.source import Mismatch, Reading, Source, skip_blanks

SEPARATORS = re.compile(r"[\s;,]+")


class _KeyWatch:
    """Ends the reading of an object at the first sign that it is no call.

    A bare object may be an answer: until its name has come, each of its keys must be
    one that calls have.
    """

    def __init__(self, tools: Tools, *, is_bare: bool) -> None:
        self._tools = tools
        self._is_open = is_bare

    def __call__(self, key: str, value: str | None) -> None:
        if value is None:
            if self._is_open and key not in CALL_KEYS:
                raise Mismatch
        elif key in ("name", "function"):
            if value not in self._tools:
                raise Mismatch
            self._is_open = False


def read_json_call(
    source: Source, tools: Tools, *, is_bare: bool = False
) -> Reading[FoundCall]:
    """Reads one call object.

    Args:
        source: The text, at the opening brace.
        tools: The functions there are.
        is_bare: The object stands in no marker of the family, so that it must look
            like a call from its first key on, and have arguments.

    Raises:
        Mismatch: It is no call.
    """
    fields = yield from read_object(source, _KeyWatch(tools, is_bare=is_bare))
    return call_from_object(fields, tools, with_arguments=is_bare)


def read_json_calls(
    source: Source, tools: Tools, *, is_bare: bool = False
) -> Reading[list[FoundCall]]:
    """Reads one call object or a list of them; as `read_json_call` else."""
    if (yield from source.accept("[")) is None:
        return [(yield from read_json_call(source, tools, is_bare=is_bare))]
    calls = []
    while True:
        yield from skip_blanks(source)
        calls.append((yield from read_json_call(source, tools, is_bare=is_bare)))
        yield from skip_blanks(source)
        if (yield from source.expect(",", "]")) == "]":
            return calls


def read_bare_calls(source: Source, tools: Tools) -> Reading[list[FoundCall]]:
    """Reads objects and lists that must go on to the end of the text.

    Raises:
        Mismatch: One is no call, or something else follows.
    """
    calls: list[FoundCall] = []
    while True:
        calls += yield from read_json_calls(source, tools, is_bare=True)
        yield from source.read_run(SEPARATORS)
        char = yield from source.peek()
        if not char:
            return calls
        if char not in "{[":
            raise Mismatch


def read_next_object(source: Source, tools: Tools) -> Reading[list[FoundCall]]:
    """Reads a further call object after calls, with what separates it from them.

    Raises:
        Mismatch: There is none.
    """
    yield from source.read_run(SEPARATORS)
    if (yield from source.peek()) != "{":
        raise Mismatch
    return [(yield from read_json_call(source, tools))]
