"""What a picture is to the projector, and becomes in a prompt.

Pixels go in; tiles of vectors, and markers around them, come out. Nothing is loaded
for these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Pixels:
    """A decoded picture."""

    width: int
    height: int
    rgb: bytes
    """width * height * 3 bytes, row by row."""


@dataclass(frozen=True, slots=True)
class Markers:
    """Ordinary tokens around and between the parts of a picture."""

    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A picture, or one part of it, as the text model reads it."""

    n_tokens: int
    n_positions: int
    """How far the positions go on; fewer than tokens where they have axes."""
    axes: Axes | None
    """None where positions go on by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """Positions along time, row, column and one more axis, for any first position."""

    start: npt.NDArray[np.int32]
    """[4, n_tokens], for the first position 0."""
    slope: npt.NDArray[np.int32]
    """[4, n_tokens]: how much of the first position is added."""

    def at(self, first: int) -> npt.NDArray[np.int32]:
        """[4, n_tokens] for tokens that begin at position `first`."""
        return self.start + self.slope * np.int32(first)


Layout = tuple[Markers | Tile, ...]
"""What a picture becomes in a prompt, in order."""
