"""Stand-ins for conversations, to learn whether a template prints every message.

What a template does with a conversation depends on its shape: which roles follow each
other, where calls and results stand. A skeleton has the shape of a conversation and one
made-up word in place of each text, so that a word missing from the output is a text
lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kinetic.model.chat.template.normalise import Call, Turn

TOOL_NAME = "qzxtool"
TOOLS: tuple[dict[str, Any], ...] = (
    {
        "type": "function",
        "function": {
            "name": TOOL_NAME,
            "description": "qzxdescription",
            "parameters": {
                "type": "object",
                "properties": {"qzxkey": {"type": "string", "description": "qzxhint"}},
                "required": ["qzxkey"],
                "additionalProperties": False,
            },
        },
    },
)
"""One tool that every template can print which prints tools at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """A stand-in conversation and the words it must leave in a prompt."""

    turns: tuple[Turn, ...]
    words: tuple[tuple[str, int], ...]
    """Each word with the index of the message it stands for."""


def shape_of(turns: Sequence[Turn]) -> bytes:
    """Return the same digest for conversations that templates treat alike."""
    place = {call.id: index for index, turn in enumerate(turns) for call in turn.calls}
    shape = [
        (
            turn.role,
            bool(turn.text),
            bool(turn.reasoning),
            len(turn.calls),
            place.get(turn.call_id, -1) if turn.call_id else -1,
            turn.is_prefill,
        )
        for turn in turns
    ]
    return hashlib.sha256(repr(shape).encode(errors="surrogatepass")).digest()


def skeleton_of(turns: Sequence[Turn]) -> Skeleton:
    """Build the stand-in for `turns`; ids stay, since they pair calls with results."""
    words: list[tuple[str, int]] = []

    def word(kind: str, index: int, number: int = 0) -> str:
        text = f"qzx{kind}{index}x{number}xzq"
        words.append((text, turns[index].origin))
        return text

    made: list[Turn] = []
    for index, turn in enumerate(turns):
        calls = []
        for number, call in enumerate(turn.calls):
            name = word("name", index, number)
            arguments = {"qzxkey": word("value", index, number)}
            source = f'{{"qzxkey": "{arguments["qzxkey"]}"}}'
            calls.append(
                Call(id=call.id, name=name, arguments=arguments, source=source)
            )
        made.append(
            replace(
                turn,
                text=word("text", index) if turn.text else "",
                reasoning=f"qzxthought{index}xzq" if turn.reasoning else "",
                calls=tuple(calls),
                name=None if turn.name is None else f"qzxwho{index}xzq",
                images=(),
            )
        )
    return Skeleton(turns=tuple(made), words=tuple(words))
