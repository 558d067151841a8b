"""What Receipt hears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinetic.actors.messages.scheduler import Cancel

if TYPE_CHECKING:
    from kinetic.actors.messages.sink import Finished, Sink
    from kinetic.errors import KineticError
    from kinetic.model.job import Job
    from kinetic.types import (
        OutputPiece,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An answer is complete: make its receipt, and tell the sink its end."""

    job: Job
    sink: Sink
    finished: Finished
    """The end as it is without a receipt."""
    tokens: tuple[int, ...]
    """Everything drawn, the end-of-generation token included."""
    pieces: tuple[OutputPiece, ...]
    """Everything delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digested:
    """The model file's digest is known, or why it is not; one of the two is given."""

    sha256: str = ""
    error: KineticError | None = None


ReceiptMessage = Record | Digested | Cancel
