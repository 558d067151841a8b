"""What comes out: a request's sink hears these, and nothing else hears of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from kinetic.errors import KineticError
    from kinetic.types import (
        Finish,
        OutputPiece,
        Timings,
        TokenLogprob,
        Usage,
    )


class Sink(Protocol):
    """Carries a request's output to whoever asked; `put` is safe from any thread."""

    def put(self, event: SinkEvent) -> None:
        """Hand over an event; never blocks and never raises."""


class VectorSink(Protocol):
    """Carries a request's vectors; `put` is safe from any thread."""

    def put(self, event: VectorEvent) -> None:
        """Hand over an event; never blocks and never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A choice has its slot and its prompt will be run."""

    index: int
    slot_id: int
    n_prompt: int
    n_cached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMoved:
    """How far a choice's prompt is; told from its start on, where it was asked for."""

    index: int
    n_done: int
    """Prompt tokens that stand, reused ones included."""
    seconds: float
    """Since the slot was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScored:
    """The prompt's tokens with their log-probabilities; the first has none."""

    index: int
    tokens: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a choice's output."""

    index: int
    pieces: tuple[OutputPiece, ...]
    tokens: tuple[int, ...]
    """Ids of the tokens drawn since the last delta."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """One entry per token whose text is now out, if asked for."""
    n_generated: int = 0
    """Tokens drawn so far."""
    timings: Timings | None = None
    """Up to this piece, where it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A choice is complete; nothing follows for its index."""

    index: int
    finish: Finish
    usage: Usage
    timings: Timings
    slot_id: int
    warnings: tuple[str, ...] = ()
    """What of its schema a whole answer breaks, where decoding could not hold it."""
    receipt: Mapping[str, Any] | None = None
    """The answer's receipt as JSON, where one was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A choice ended by an error; nothing follows for its index."""

    index: int
    error: KineticError
    usage: Usage | None = None
    """Tokens until then; None where nobody knows any more."""
    timings: Timings | None = None
    """Times until then; known where `usage` is."""


SinkEvent = Started | PromptMoved | PromptScored | Delta | Finished | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorMade:
    """An input's vector; nothing follows for its index."""

    index: int
    vector: npt.NDArray[np.float32]
    """[n_vector] float32, read-only; [n_tokens, n_vector] where nothing is pooled."""


VectorEvent = VectorMade | Failed
