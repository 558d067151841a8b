"""What is made of a vector before it goes out: cut, scaled, written. Pure."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

RAW: Final = -1
"""As the model gives it."""
INT16: Final = 0
"""The largest component becomes 32760."""
EUCLIDEAN: Final = 2
"""Unit length."""
NORM_MAX: Final = 1000

_INT16_TOP = 32760.0


def scaled(
    vector: npt.NDArray[np.float32],
    *,
    norm: int = EUCLIDEAN,
    dimensions: int | None = None,
) -> npt.NDArray[np.float32]:
    """Cut the last axis of [n] or [n_tokens, n] and scale each vector.

    `norm` is llama-server's `embd_normalize`: RAW, INT16, or p for the p-norm. A vector
    of zeros stays one.
    """
    kept = vector if dimensions is None else vector[..., :dimensions]
    if norm == RAW:
        return kept
    wide = np.abs(kept.astype(np.float64))
    top = wide.max(axis=-1, keepdims=True)
    top[top == 0] = 1.0
    if norm == INT16:
        size = top / _INT16_TOP
    else:
        # Scaled by the largest one first: high powers would overflow.
        shares = wide / top
        size = top * (shares**norm).sum(axis=-1, keepdims=True) ** (1.0 / norm)
        size[size == 0] = 1.0
    made: npt.NDArray[np.float32] = (kept / size).astype(np.float32)
    return made


def written(vector: npt.NDArray[np.float32], *, as_base64: bool) -> str | list[float]:
    """A vector for JSON: numbers that are its floats exactly, or their bytes.

    Base64 is of little-endian float32, as OpenAI's.
    """
    if as_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers


def sigmoid(score: float) -> float:
    """A raw score from 0 to 1, the same order."""
    if score >= 0:
        return float(1.0 / (1.0 + np.exp(-score)))
    small = float(np.exp(score))
    return small / (1.0 + small)
