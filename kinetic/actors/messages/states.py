"""States of sequences, as messages hand them on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptState:
    """A sequence after its whole prompt: the memory and the last row's logits."""

    state: bytes
    tokens: npt.NDArray[np.int32]
    logits: npt.NDArray[np.float32]
    """[n_vocab] float32, read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState:
    """A kept sequence state, to be put back and built on."""

    state: bytes
    tokens: npt.NDArray[np.int32]
    n_prompt: int
    """How many of the tokens were run as a prompt."""
    n_keep: int
    """How many leading tokens the prompt may build on."""
