"""Pieces of Lark grammars: texts, markers, and reasoning before an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass

from kinetic.model.constraints import charset
from kinetic.model.constraints.charset import Ranges

ANY_TEXT = "(?s:.*)"


def quoted(text: str) -> str:
    """A Lark string: a JSON string, without the characters that Lark's has not."""
    return json.dumps(text).replace("\x7f", "\\u007f")


def token(token_id: int) -> str:
    """One token, by its id."""
    return f"<[{token_id}]>"


def escaped(text: str) -> str:
    """Text inside a regular expression, as itself."""
    return "".join(rf"\x{{{ord(character):x}}}" for character in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """A block that a model may think in before its answer, or has yet to close."""

    opener: str
    closer: str
    opener_token: int | None = None
    """The special token that the opener is, if it is one."""
    opener_is_text: bool = True
    """Whether the opener counts as text: no token, or a user-defined one."""
    closer_token: int | None = None
    """The control token that the closer is, if it is one."""
    is_open: bool = False
    """Whether the prompt ended inside the block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRules:
    """The part that is held to a form."""

    lark: str
    """Rules, among them the one named `answer`."""
    begins_with: Ranges
    """What the answer's text may begin with."""
    gap: str
    """A regular expression of what may stand between reasoning and answer."""


def grammar(answer: AnswerRules, reasoning: Reasoning | None) -> str:
    """Lark text of an answer, with the reasoning that may come before it."""
    if reasoning is None:
        return f"start: answer\n{answer.lark}"
    gap = "gap: \n" if not answer.gap else f"gap: (/{answer.gap}/)?\n"
    thought = _thought(reasoning)
    if reasoning.is_open:
        return f"start: thought gap answer\n{thought}{gap}{answer.lark}"
    opener = _opener(reasoning, answer)
    if opener is None:
        return f"start: answer\n{answer.lark}"
    start = f"start: answer | {opener} thought gap answer\n"
    return f"{start}{thought}{gap}{answer.lark}"


def _thought(reasoning: Reasoning) -> str:
    """Text up to the closer; spelled out, it would end the block for readers too."""
    closer = escaped(reasoning.closer)
    if reasoning.closer_token is None:
        return f"thought[lazy]: /{ANY_TEXT}{closer}/\n"
    spelled = f"/{ANY_TEXT}{closer}{ANY_TEXT}/"
    return (
        f"thought: THOUGHT {token(reasoning.closer_token)}\n"
        f"THOUGHT: /{ANY_TEXT}/ & ~{spelled}\n"
    )


def _opener(reasoning: Reasoning, answer: AnswerRules) -> str | None:
    """What begins a block; None where nothing tells it from an answer's own text."""
    if not reasoning.opener_is_text and reasoning.opener_token is not None:
        return token(reasoning.opener_token)
    first = charset.single(reasoning.opener[0])
    if not charset.overlap(first, answer.begins_with):
        return quoted(reasoning.opener)
    if reasoning.opener_token is not None:
        return token(reasoning.opener_token)
    return None
