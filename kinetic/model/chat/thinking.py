"""Which tags stand round a model's thoughts, and whether a prompt opens them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

ThinkTags = tuple[str, str]
"""The opening and the closing tag."""

KNOWN_TAGS: Final[tuple[ThinkTags, ...]] = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
_XML_TAG = re.compile(r"</?((?:\w+:)?think(?:ing)?(?::\w+)?)>")
"""Also `<seed:think>`, `<mm:think>`, `<think:opensource>`, `<thinking>`."""


def tags_in(text: str) -> ThinkTags | None:
    """Return the first known pair of tags of which either stands in `text`."""
    places = [
        (place, tags)
        for tags in KNOWN_TAGS
        for tag in tags
        if (place := text.find(tag)) >= 0
    ]
    if match := _XML_TAG.search(text):
        places.append((match.start(), (f"<{match[1]}>", f"</{match[1]}>")))
    return min(places)[1] if places else None


def open_block(prompt: str, tags: ThinkTags | None) -> str | None:
    """Return the opening tag that `prompt` ends in, if any."""
    return tags[0] if tags and prompt.rstrip().endswith(tags[0]) else None


def open_block_in_answer(head: str, answer: str, tags: ThinkTags | None) -> str | None:
    """Return the opening tag of a block that is open where an answer goes on.

    Only the first thing in an answer can open one, as a template prints it; a tag
    anywhere else is the answer's own text.

    Args:
        head: The prompt up to the answer.
        answer: What the client wrote of it.
        tags: The template's pair.
    """
    if tags is None:
        return None
    opener, closer = tags
    is_open = bool(open_block(head, tags)) or answer.lstrip().startswith(opener)
    return opener if is_open and closer not in answer else None


def find_tags(prompt_ends: Iterable[str], source: str) -> ThinkTags | None:
    """Find a template's pair: where its prompts end first, then in its source.

    Args:
        prompt_ends: What follows the last user text, with thinking on, unset, off.
        source: The template.
    """
    for end in prompt_ends:
        if tags := tags_in(end):
            return tags
    return tags_in(source)
