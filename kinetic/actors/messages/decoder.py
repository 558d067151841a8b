"""What the Decoder hears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.model.job import ImageSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Run these tokens after what the sequence holds; answered by Logits."""

    slot_id: int
    serial: int
    """The question's, as in all that a slot asks: handed back with the answer."""
    first: int
    """How many tokens the sequence must hold."""
    position: int
    """Of the first token; less than `first` after pictures with axes."""
    tokens: npt.NDArray[np.int32]
    n_logits: int
    """How many of the last tokens want logits."""
    is_step: bool
    """Generated tokens (run whole, first), not a prompt (run in chunks)."""
    images: tuple[ImageSpan, ...] = ()
    """Those among the tokens, whole and in order; counted as `first` is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Keep the sequence's first `n_keep` tokens."""

    slot_id: int
    n_keep: int
    position: int
    """Of the first token that goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Replace the sequence's memory; answered by Restored."""

    slot_id: int
    serial: int
    state: bytes
    n_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeSnapshot:
    """Copy the sequence's memory; answered by SnapshotTaken."""

    slot_id: int
    serial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question to the draft model: how does this text go on?"""

    first: int
    """Where the new tokens begin; those before were told with earlier questions."""
    tokens: tuple[int, ...]
    count: int
    """Most tokens to guess."""
    least: float
    """How sure it must be of each, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """Ask the draft model how the slot's text goes on; answered by Proposed."""

    slot_id: int
    serial: int
    ask: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Drop what the slot has waiting, it owes no answer; answered by Withdrawn."""

    slot_id: int
    serial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """Run this input for its vector; answered by Embedded."""

    serial: int
    """Grows by one per input; stale messages are told by it."""
    tokens: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEmbed:
    """Run no more of an input; if it is not done yet, Embedded follows at once."""

    serial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Run a pass; the Decoder's word to itself, so that others are heard between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedStep:
    """Run the next part of the input; the Decoder's word to itself, as Step is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeStep:
    """Go on with a picture; the Decoder's word to itself, as Step is."""

    serial: int
    """Grows by one per picture; stale messages are told by it."""


DecoderMessage = (
    Feed
    | Cut
    | Restore
    | TakeSnapshot
    | Propose
    | Withdraw
    | Embed
    | DropEmbed
    | Step
    | EmbedStep
    | EncodeStep
)
