"""Calls of models whose template shows no known form: every form is tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kinetic.model.chat.reply.arguments import FoundCall, Tools
from kinetic.model.chat.reply.families.contract import CallSyntax
from kinetic.model.chat.reply.families.json_calls import read_json_calls
from kinetic.model.chat.reply.families.lfm2 import CALLS as LFM2_CALLS, Lfm2
from kinetic.model.chat.reply.families.llama3 import Llama3
from kinetic.model.chat.reply.families.mistral import CALLS as MISTRAL_CALLS, Mistral
from kinetic.model.chat.reply.families.qwen_xml import QwenXml
from kinetic.model.chat.reply.lines import FENCE
from kinetic.model.chat.reply.openers import Opener, Where
from kinetic.model.chat.reply.source import Reading, Source, skip_blanks

JSON_FENCE = f"{FENCE}json"

_XML = QwenXml()
_LLAMA3 = Llama3()
_MARKED: Mapping[str, CallSyntax] = {
    **{opener.text: _XML for opener in QwenXml.openers},
    LFM2_CALLS: Lfm2(),
    MISTRAL_CALLS: Mistral(),
}


class Generic(CallSyntax):
    """Any family's marker, a JSON fence that holds only calls, or bare JSON."""

    openers: ClassVar[tuple[Opener, ...]] = (
        *(Opener(text) for text in _MARKED),
        Opener(JSON_FENCE, Where.LINE_START),
        *Llama3.openers,
    )
    markers: ClassVar[tuple[str, ...]] = (
        *QwenXml.markers,
        *Lfm2.markers,
        *Llama3.markers,
        *Mistral.markers,
    )

    def read(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads as the family does whose opener it is."""
        if opener == JSON_FENCE:
            return (yield from _read_fenced(source, tools))
        return (yield from _MARKED.get(opener, _LLAMA3).read(source, tools, opener))

    def read_more(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads on as the family does whose opener it was."""
        if opener == JSON_FENCE:
            return []
        syntax = _MARKED.get(opener, _LLAMA3)
        return (yield from syntax.read_more(source, tools, opener))


def _read_fenced(source: Source, tools: Tools) -> Reading[list[FoundCall]]:
    source.take(len(JSON_FENCE))
    yield from skip_blanks(source)
    calls = yield from read_json_calls(source, tools, is_bare=True)
    if (yield from skip_blanks(source)):
        yield from source.expect(FENCE)
    return calls
