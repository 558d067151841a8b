"""What is done to conversations so that one template prints all of them.

A `Treatment` is a list of decisions, carried out by `arrange.py`. The first one comes
from probing the template (`probe.py`); `stricter_treatments` are the ones to try for
conversations whose shape the template refuses, or partly drops, under the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """What is done to a conversation before a template sees it."""

    family: str = "generic"
    call_form: str | None = None

    has_parts: bool = False
    """Content is a list of parts; the template cannot print a text."""
    has_text_arguments: bool = False
    """Arguments are JSON text instead of an object."""
    has_null_content: bool = False
    """An assistant turn with calls has null content instead of an empty text."""
    has_short_ids: bool = False
    """Call ids are nine letters or digits."""
    has_reasoning_part: bool = False
    """Reasoning is a content part instead of a field of the message."""
    is_trimmed: bool = False
    """Texts lose the white space at both ends."""
    user_end: str = ""
    """What the template prints after a user's text."""
    answer_start: str = ""
    """What it adds after that for the answer to begin."""

    text_beside_calls: Literal["kept", "spliced", "split"] = "kept"
    """The template prints it; it is put in afterwards; it is a message of its own."""
    call_opener: str = ""
    """What the template prints before the first call's name, for splicing."""
    is_one_call: bool = False
    """An assistant turn with several calls becomes several, each with its result."""
    embeds_results: bool = False
    """Results, and the answer after them, stand in the message with the calls."""
    writes_tools: bool = False
    """The tool list goes into the system text."""
    writes_calls: bool = False
    """Calls go into the assistant's text."""
    writes_results: bool = False
    """Results become user texts."""

    merges: bool = False
    """Neighbours of one role become one message."""
    moves_later_systems: bool = False
    """A system message that is not the first becomes a user message."""
    moves_systems: bool = False
    """Every system message does."""
    begins_with_user: bool = False
    """An empty user message is put before an assistant that comes first."""
    drops_empty: bool = False
    """Assistant messages without anything in them are left out."""
    filler: str | None = None
    """An assistant's text to put between two user turns round a call, and none else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Private characters that stand in no text of the conversation."""

    splice: str
    """Encloses the number of a text that is spliced in after rendering."""
    end: str
    """Stands at the end of an answer that the model is to go on with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """What a template is given, and what is to be spliced into its output."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    """None where the template is to be given no tools."""
    splices: dict[str, str]
    """Texts by the mark that stands before the name of the call they precede."""


def stricter_treatments(
    treatment: Treatment, *, has_tools: bool
) -> Iterator[Treatment]:
    """Yield `treatment` and then ever stronger changes, the mildest first."""
    yield treatment
    merged = replace(treatment, merges=True)
    yield merged
    moved = replace(merged, moves_later_systems=True)
    yield moved
    strict = replace(moved, begins_with_user=True, drops_empty=True)
    yield strict
    yield replace(strict, filler="")
    # One template refuses an answer of no characters, and takes a space.
    yield replace(strict, filler=" ")
    yield replace(treatment, moves_systems=True)
    without_system = replace(strict, moves_systems=True)
    yield without_system
    if not has_tools:
        return
    yield replace(treatment, writes_tools=True)
    yield replace(strict, is_one_call=True, text_beside_calls="split")
    yield replace(strict, is_one_call=True, text_beside_calls="split", filler="")
    for whole in (strict, without_system):
        written = replace(whole, writes_calls=True, text_beside_calls="kept")
        yield written
        yield replace(written, writes_results=True)
        yield replace(written, writes_results=True, writes_tools=True)
