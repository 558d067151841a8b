"""What the Cache hears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.model.job import ImageSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Find a state that a prompt can build on; answered by Matched."""

    generation: int
    """Whom the answer is for: handed back with it."""
    scope: tuple[str, ...]
    prompt: npt.NDArray[np.int32]
    n_have: int
    """What the chosen slot holds of the prompt already."""
    images: tuple[ImageSpan, ...] = ()
    """The prompt's; no kept state is used up to inside one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Keep a sequence's state."""

    scope: tuple[str, ...]
    tokens: npt.NDArray[np.int32]
    n_prompt: int
    state: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesMeasured:
    """How fast the engine was just now; zeros say nothing."""

    prompt_tokens_per_s: float = 0.0
    restore_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWritten:
    """A state's file is written (`name`), or could not be (None)."""

    state_id: int
    name: str | None
    reason: str = ""
    """Why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRead:
    """A state's file is read, every byte checked; or cannot be used (None)."""

    state_id: int
    state: bytes | None
    seconds: float


CacheMessage = Match | Keep | RatesMeasured | StateWritten | StateRead
