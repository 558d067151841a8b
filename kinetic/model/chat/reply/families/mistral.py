"""Mistral's calls after `[TOOL_CALLS]`: a JSON list, or a name and its arguments."""

from __future__ import annotations

import re
from typing import ClassVar

from kinetic.model.chat.reply.arguments import FoundCall, Tools, usable_id
from kinetic.model.chat.reply.families.contract import CallSyntax
from kinetic.model.chat.reply.families.json_calls import read_json_calls
from kinetic.model.chat.reply.jsontext import read_object
from kinetic.model.chat.reply.openers import Opener
from kinetic.model.chat.reply.source import Reading, Source, skip_blanks

CALLS = "[TOOL_CALLS]"
CALL_ID = "[CALL_ID]"
ARGUMENTS = "[ARGS]"
ID = re.compile(r"[A-Za-z0-9_-]+")


class Mistral(CallSyntax):
    """Three forms of three generations of tokenizers.

    `[TOOL_CALLS][{"name": …, "arguments": {…}, "id": …}, …]`,
    `[TOOL_CALLS]NAME[ARGS]{…}` and `[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{…}`; the inner
    markers may have been lost.
    """

    openers: ClassVar[tuple[Opener, ...]] = (Opener(CALLS),)
    markers: ClassVar[tuple[str, ...]] = (CALLS, CALL_ID, ARGUMENTS)

    def read(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads a list, or one named call; each of those has its own marker."""
        source.take(len(opener))
        char = yield from skip_blanks(source)
        if char and char in "{[":
            return (yield from read_json_calls(source, tools))
        name = yield from source.expect(*tools)
        call_id = None
        yield from skip_blanks(source)
        if (yield from source.accept(CALL_ID)):
            yield from skip_blanks(source)
            call_id = usable_id((yield from source.read_run(ID)))
            yield from skip_blanks(source)
        yield from source.accept(ARGUMENTS)
        yield from skip_blanks(source)
        arguments = yield from read_object(source)
        return [FoundCall(name, arguments, call_id)]
