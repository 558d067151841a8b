"""What is measured: each figure's name, unit and direction, and how two compare."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Better = Literal["less", "more", "neither"]
Values = Sequence[float]
NOISE: Final = 0.03
"""Medians this close count as equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the page.

    Attributes:
        key: Its name in the results.
        topic: The part of the table that it stands in.
        label: What it is, with names of `Sizes` in braces.
        short: The same in a few words, for the chart.
        unit: "s", "tokens/s", "answers/s", "texts/s", "MiB" or "" for yes and no.
        better: Which direction is good.
    """

    key: str
    topic: str
    label: str
    short: str
    unit: str
    better: Better

    def named(self, sizes: Mapping[str, Any]) -> str:
        """Its label with the sizes of a run."""
        return self.label.format(**sizes)


def _seconds(key: str, topic: str, short: str, label: str) -> Figure:
    return Figure(
        key=key, topic=topic, label=label, short=short, unit="s", better="less"
    )


def _rate(key: str, topic: str, short: str, label: str, unit: str) -> Figure:
    return Figure(
        key=key, topic=topic, label=label, short=short, unit=unit, better="more"
    )


_NEW, _ANSWERS, _LONG = "New prompts", "Answers", "Answers behind a long context"
_AGAIN, _HELD, _MANY = "Conversations", "Held answers", "Many at once"
_PROCESS, _DRAFTS, _VECTORS = "The process", "Drafting", "Vectors"
_TOKENS = "tokens/s"

CATALOGUE: Final = (
    *(
        _seconds(
            f"cold_{size}_s",
            _NEW,
            f"first token, {size} prompt",
            f"first token of a new prompt of {{{size}_prompt:,}} tokens",
        )
        for size in ("short", "middle", "long")
    ),
    *(
        Figure(
            key=f"cold_{size}_tokens",
            topic=_NEW,
            label=f"tokens of that prompt of {{{size}_prompt:,}}, with its template",
            short="",
            unit="tokens",
            better="neither",
        )
        for size in ("short", "middle", "long")
    ),
    _rate(
        "one_tps",
        _ANSWERS,
        "one stream",
        "one answer of {answer} tokens",
        _TOKENS,
    ),
    _rate("two_tps", _ANSWERS, "two streams", "two at once, together", _TOKENS),
    _rate("four_tps", _ANSWERS, "four streams", "four at once, together", _TOKENS),
    _rate(
        "long_one_tps",
        _LONG,
        "one stream, long context",
        "one answer of {long_answer} tokens behind {context:,} others",
        _TOKENS,
    ),
    _rate(
        "long_two_tps",
        _LONG,
        "two streams, long context",
        "two at once, together, each behind its own {context:,}",
        _TOKENS,
    ),
    _rate(
        "long_four_tps",
        _LONG,
        "four streams, long context",
        "four at once, together, each behind its own {context:,}",
        _TOKENS,
    ),
    _seconds(
        "turn_two_s",
        _AGAIN,
        "second turn",
        "first token of the second turn, opened with {opening:,} tokens",
    ),
    _seconds("turn_four_s", _AGAIN, "fourth turn", "first token of its fourth turn"),
    _seconds(
        "kept_new_s",
        _AGAIN,
        "new conversation",
        "first token of a new conversation of {kept:,} tokens",
    ),
    _seconds(
        "displaced_s",
        _AGAIN,
        "displaced conversation",
        "first token when it goes on, after {others} others displaced it",
    ),
    _seconds(
        "restarted_s",
        _AGAIN,
        "after a restart",
        "first token when one of {kept:,} tokens goes on after a restart",
    ),
    _seconds(
        "prefilled_s",
        _AGAIN,
        "after a prefill",
        "first token of a prompt of {kept:,} tokens after a prefill",
    ),
    _seconds(
        "one_word_s", _AGAIN, "one-word prompt", "first token of a one-word prompt"
    ),
    _rate(
        "schema_tps",
        _HELD,
        "JSON Schema",
        "an answer held to a JSON Schema, prompt included",
        _TOKENS,
    ),
    Figure(
        key="schema_ok",
        topic=_HELD,
        label="such answers that fit the schema",
        short="",
        unit="",
        better="more",
    ),
    _rate(
        "tool_tps",
        _HELD,
        "tool call",
        "a tool call that is asked for, prompt included",
        _TOKENS,
    ),
    Figure(
        key="tool_ok",
        topic=_HELD,
        label="such calls whose arguments fit",
        short="",
        unit="",
        better="more",
    ),
    _seconds(
        "pause_s",
        _MANY,
        "longest pause",
        "longest pause of three streams while a prompt of {arriving:,} tokens comes in",
    ),
    _seconds("gap_s", _MANY, "usual gap beside", "their usual time between two tokens"),
    _seconds(
        "beside_s", _MANY, "that prompt's first token", "first token of that prompt"
    ),
    _rate(
        "few_aps",
        _MANY,
        "16 clients",
        "answers of {brief} tokens to {few_clients} clients at once",
        "answers/s",
    ),
    _rate(
        "many_aps",
        _MANY,
        "64 clients",
        "answers of {brief} tokens to {many_clients} clients at once",
        "answers/s",
    ),
    _seconds("start_s", _PROCESS, "start", "from the start to the first health check"),
    _seconds(
        "first_start_s",
        _PROCESS,
        "first start",
        "the first start with a model, which is probed then",
    ),
    Figure(
        key="memory_mib",
        topic=_PROCESS,
        label="resident memory behind these loads",
        short="memory",
        unit="MiB",
        better="less",
    ),
    _rate("copy_tps", _DRAFTS, "copied text", "a text repeated", _TOKENS),
    _rate("edit_tps", _DRAFTS, "edited code", "code with a name changed", _TOKENS),
    _rate("story_tps", _DRAFTS, "a story", "a story, where nothing repeats", _TOKENS),
    _rate(
        "vectors_few_tps",
        _VECTORS,
        "vectors, 32 texts",
        "{few_texts} texts of {text_tokens} tokens in a request",
        "texts/s",
    ),
    _rate(
        "vectors_many_tps",
        _VECTORS,
        "vectors, 256 texts",
        "{many_texts} texts of {text_tokens} tokens in a request",
        "texts/s",
    ),
)
BY_KEY: Final = {figure.key: figure for figure in CATALOGUE}


def ratio(ours: Values | None, theirs: Values | None) -> float | None:
    """Kinetic's median by a peer's; None where either is missing or nothing."""
    if not ours or not theirs:
        return None
    other = statistics.median(theirs)
    return statistics.median(ours) / other if other else None


def advantage(
    figure: Figure, ours: Values | None, theirs: Values | None
) -> float | None:
    """How many times as good Kinetic is, above 1 for better, whatever the direction."""
    found = ratio(ours, theirs)
    if not found or figure.better == "neither":
        return None
    return 1 / found if figure.better == "less" else found


def is_slower(figure: Figure, ours: Values | None, theirs: Values | None) -> bool:
    """Tells whether Kinetic is behind by more than noise."""
    found = advantage(figure, ours, theirs)
    return found is not None and found < 1 - NOISE


def spreads_overlap(ours: Values, theirs: Values) -> bool:
    """Tells whether the rounds of both share some range."""
    return min(ours) <= max(theirs) and min(theirs) <= max(ours)
