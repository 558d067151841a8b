"""Rows of a pass: what the engine is told to run. No engine is loaded for these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive tokens of one sequence in a pass."""

    sequence: int
    first: int
    """Position of the first token."""
    tokens: Int32Array
    n_logits: int
    """How many of the last tokens want logits."""
    embedded: PictureRows | None = None
    """What stands for the tokens, whose ids then only count; the pass's only part."""


@dataclass(frozen=True, slots=True)
class PictureRows:
    """A picture's tokens, which have no ids in the vocabulary."""

    vectors: Float32Array
    """[n_tokens, n_embd_in] float32, contiguous."""
    axes: Int32Array | None
    """[4, n_tokens]: time, row, column and one more, of models that look at them;
    None: positions go on from the first."""
    sees_ahead: bool
    """All of these tokens see each other: they must be run in one pass."""
