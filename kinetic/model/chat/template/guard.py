"""Keeps marker texts that users wrote from becoming control tokens.

A prompt is one text, and the tokenizer makes a control token of every marker in it, no
matter who wrote it. So a marker inside a user's text is broken up: a private character
is put after its first character, and whoever tokenises the prompt splits it there and
drops the character. Texts without markers are not touched, so that ordinary prompts
keep the token ids they have everywhere else.

What is not covered: a template that itself deletes words from a message (one removes
"/think" from system texts) can join two halves to a marker.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kinetic.model.chat.template.normalise import Call, TemplateError, Turn

_PRIVATE: Final = "".join(map(chr, (*range(0xFDD0, 0xFDF0), *range(0xE000, 0xE100))))
"""Noncharacters first: no text has them; then a part of the private use area."""
_HEAD = 2


class MarkerIndex:
    """Finds marker texts quickly, also among thousands of markers.

    Args:
        markers: Marker texts; those of one character cannot be broken up and are left
            out.
    """

    def __init__(self, markers: Iterable[str]) -> None:
        self._markers = frozenset(text for text in markers if len(text) >= _HEAD)
        lengths = defaultdict(set)
        for text in self._markers:
            lengths[text[:_HEAD]].add(len(text))
        self._lengths = {head: sorted(sizes) for head, sizes in lengths.items()}
        heads = "|".join(map(re.escape, self._lengths))
        # The look-ahead lets matches overlap, as markers may.
        self._heads = re.compile(f"(?=({heads}))") if heads else None

    def without(self, markers: Iterable[str]) -> MarkerIndex:
        """Return an index that knows all but `markers`."""
        return MarkerIndex(self._markers.difference(markers))

    def find(self, text: str) -> list[int]:
        """Return the positions after the first character of every marker in `text`."""
        if self._heads is None:
            return []
        return [
            match.start() + 1
            for match in self._heads.finditer(text)
            if any(
                text[match.start() : match.start() + size] in self._markers
                for size in self._lengths[match[1]]
            )
        ]

    def break_up(self, text: str, character: str) -> str:
        """Put `character` into every marker in `text`."""
        ends = self.find(text)
        if not ends:
            return text
        starts = (0, *ends)
        pieces = [
            text[start:end]
            for start, end in zip(starts, (*ends, len(text)), strict=True)
        ]
        return character.join(pieces)


def free_characters(texts: Iterable[str], n_characters: int) -> list[str]:
    """Return private characters that stand in none of `texts`.

    Raises:
        TemplateError: The texts use (nearly) all of them.
    """
    used: set[str] = set()
    pattern = re.compile(f"[{_PRIVATE}]")
    for text in texts:
        used.update(pattern.findall(text))
    free = [char for char in _PRIVATE if char not in used][:n_characters]
    if len(free) < n_characters:
        raise TemplateError(
            "the messages use too many of the characters U+FDD0 to U+FDEF and U+E000 to"
            " U+E0FF",
            param="messages",
        )
    return free


def all_texts(value: object) -> Iterable[str]:
    """Yield every text in nested lists and mappings, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from all_texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from all_texts(item)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of nested lists and mappings with every text changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            map_texts(key, change): map_texts(item, change)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [map_texts(item, change) for item in value]
    return value


class Guard:
    """What is broken up in whose texts.

    Args:
        guarded: Texts of control tokens.
        structural: Other markers that the template or the call format uses.
        think_tags: The template looks for these in assistant turns, so they stay whole
            where a turn has a block of thoughts; elsewhere they are text.
    """

    def __init__(
        self,
        guarded: Sequence[str],
        structural: Sequence[str],
        think_tags: Sequence[str],
    ) -> None:
        self._all = MarkerIndex((*guarded, *structural))
        self._control = MarkerIndex(guarded)
        self._answer = self._control.without(think_tags)
        self._plain_answer = MarkerIndex((*guarded, *think_tags))
        self._think_tags = tuple(think_tags)

    def apply(self, turns: Sequence[Turn], character: str) -> tuple[Turn, ...]:
        """Return the turns with `character` in every marker that a client wrote."""
        return tuple(self._guard_turn(turn, character) for turn in turns)

    def apply_to_values(self, value: Any, character: str) -> Any:
        """Return a copy of tools or template variables, likewise."""
        return map_texts(value, lambda text: self._all.break_up(text, character))

    def _guard_turn(self, turn: Turn, character: str) -> Turn:
        def everywhere(text: str) -> str:
            return self._all.break_up(text, character)

        markers = self._all
        if turn.role == "assistant":
            has_block = self._has_block(turn.text)
            markers = self._answer if has_block else self._plain_answer

        def of_role(text: str) -> str:
            return markers.break_up(text, character)

        return replace(
            turn,
            role=everywhere(turn.role),
            text=_outside(turn.text, turn.images, of_role),
            images=(),
            reasoning=self._answer.break_up(turn.reasoning, character)
            if turn.role == "assistant"
            else everywhere(turn.reasoning),
            calls=tuple(self._guard_call(call, character) for call in turn.calls),
            call_id=None if turn.call_id is None else everywhere(turn.call_id),
            name=None if turn.name is None else everywhere(turn.name),
        )

    def _has_block(self, text: str) -> bool:
        if not self._think_tags:
            return True
        opener, closer = self._think_tags
        return closer in text or text.lstrip().startswith(opener)

    def _guard_call(self, call: Call, character: str) -> Call:
        def control(text: str) -> str:
            return self._control.break_up(text, character)

        return replace(
            call,
            id=self._all.break_up(call.id, character),
            name=control(call.name),
            arguments=map_texts(call.arguments, control),
            source=control(call.source),
        )


def _outside(
    text: str, spans: Sequence[tuple[int, int]], change: Callable[[str], str]
) -> str:
    """Change `text` except in `spans`."""
    pieces = []
    position = 0
    for start, end in spans:
        pieces += [change(text[position:start]), text[start:end]]
        position = end
    return "".join((*pieces, change(text[position:])))
