"""A job: what a slot is to do, as the prompt builder leaves it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinetic.types import AnswerOptions

if TYPE_CHECKING:
    from kinetic.model.chat.reply.calls import OutputFormat
    from kinetic.model.constraints.matching import Constraint
    from kinetic.model.constraints.verdict import Verdict
    from kinetic.model.tiles import Tile
    from kinetic.types import RequestAsRead


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture of a request, as it came: it is decoded where it is needed."""

    digest: str
    """SHA-256 of `data`, 64 hex digits: equal ones give the same vectors."""
    data: bytes
    """A file that was read without complaint once."""

    @classmethod
    def of(cls, data: bytes) -> Picture:
        """A picture's file with its digest."""
        return cls(hashlib.sha256(data).hexdigest(), data)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageSpan:
    """Where a picture, or a tile of one, stands in a prompt.

    Its tokens have no ids of the vocabulary. They hold negative ones, made of the
    picture's digest, so that a prefix with the same picture is a prefix with the same
    ids.
    """

    first: int
    """Index of its first token in the prompt."""
    tile: Tile
    number: int
    """Which of the picture's tiles it is, from 0."""
    picture: Picture
    sees_ahead: bool
    """Its tokens see each other: they are run in one pass."""

    @property
    def end(self) -> int:
        """Index after its last token."""
        return self.first + self.tile.n_tokens


def position_of(images: Sequence[ImageSpan], index: int) -> int:
    """Position of a prompt's token in the model's memory; its index without pictures.

    A picture may take fewer positions than tokens; its own all count as its first.
    """
    position = index
    for span in images:
        if span.first >= index:
            break
        if index < span.end:
            return position - (index - span.first if span.tile.axes else 0)
        position -= span.tile.n_tokens - span.tile.n_positions
    return position


def outside(images: Sequence[ImageSpan], index: int) -> int:
    """`index`, or the start of the picture that it lies inside."""
    for span in images:
        if span.first < index < span.end:
            return span.first
    return index


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(AnswerOptions):
    """One answer to be made: a request's prompt and everything that shapes it."""

    index: int
    """Number of the choice within the request."""
    prompt: tuple[int, ...]
    """At least one token id; shorter than the context. Pictures' ids are negative."""
    images: tuple[ImageSpan, ...] = ()
    """Where pictures stand in the prompt, in order."""
    output: OutputFormat | None = None
    """How the text is read; None is plain text."""
    visible_markers: tuple[str, ...] = ()
    """Control tokens that the reader of the text needs to see."""
    constraint: Constraint | None = None
    """What the answer is held to; each generation makes its own matcher."""
    verdict: Verdict | None = None
    """What the whole answer is judged by; None: nothing."""
    prompt_logprobs: bool = False
    """Report the prompt's tokens too; nothing of the prompt is then reused."""
    group: str | None = None
    """Jobs of one group have the same prompt: it is run once."""
    scope: tuple[str, ...] = ()
    """What else than tokens a kept prefix must share, such as adapters."""
    is_prefill: bool = False
    """Only run the prompt; ends at once when somebody else needs the slot."""
    receipt: RequestAsRead | None = None
    """What a receipt tells of the request; None: no receipt is asked for."""
