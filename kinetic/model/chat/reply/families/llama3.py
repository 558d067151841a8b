"""Llama 3's calls: a bare JSON object, or what follows `<|python_tag|>`."""

from __future__ import annotations

from typing import ClassVar

from kinetic.model.chat.reply.arguments import FoundCall, Tools
from kinetic.model.chat.reply.families.contract import CallSyntax
from kinetic.model.chat.reply.families.json_calls import (
    read_bare_calls,
    read_json_calls,
    read_next_object,
)
from kinetic.model.chat.reply.literals import read_arguments
from kinetic.model.chat.reply.openers import Opener, Where
from kinetic.model.chat.reply.source import (
    ANYTHING,
    Mismatch,
    Reading,
    Source,
    skip_blanks,
)

PYTHON_TAG = "<|python_tag|>"
BARE = ("{", "[")
CODE_TOOLS = ("code_interpreter", "ipython", "python")


class Llama3(CallSyntax):
    """`{"name": …, "parameters": {…}}`, as the last thing in the text.

    Behind the tag the object may be anywhere, and two other forms exist: a built-in
    tool's `name.call(key="value")`, and code for a tool that runs code.
    """

    openers: ClassVar[tuple[Opener, ...]] = (
        Opener(PYTHON_TAG),
        *(Opener(text, Where.LINE_START) for text in BARE),
    )
    markers: ClassVar[tuple[str, ...]] = (PYTHON_TAG,)

    def read(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads the calls of any of the forms."""
        if opener == PYTHON_TAG:
            source.take(len(opener))
            return (yield from _read_tagged(source, tools))
        yield from skip_blanks(source)
        return (yield from read_bare_calls(source, tools))

    def read_more(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads another object."""
        del opener
        return (yield from read_next_object(source, tools))


def _read_tagged(source: Source, tools: Tools) -> Reading[list[FoundCall]]:
    start = source.mark()
    try:
        if (yield from skip_blanks(source)) in BARE:
            return (yield from read_json_calls(source, tools))
        return [(yield from _read_builtin(source, tools))]
    except Mismatch:
        source.rewind(start)
        return [(yield from _read_code(source, tools))]
    finally:
        source.release()


def _read_builtin(source: Source, tools: Tools) -> Reading[FoundCall]:
    call = ".call("
    opening = yield from source.expect(*(name + call for name in tools))
    arguments = yield from read_arguments(source)
    return FoundCall(opening.removesuffix(call), arguments)


def _read_code(source: Source, tools: Tools) -> Reading[FoundCall]:
    """Reads the rest of the text as code; only the model's own end completes it."""
    name = next((name for name in CODE_TOOLS if name in tools), None)
    if name is None:
        raise Mismatch
    code = (yield from source.read_run(ANYTHING)).strip()
    if not code or source.truncated:
        raise Mismatch
    return FoundCall(name, {"code": code})
