"""What the Renewer hears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinetic.model.constraints.matching import Renewal


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Compile a constraint again for an answer that met a limit; see Renewed."""

    slot_id: int
    serial: int
    """The question's, handed back with the answer."""
    renewal: Renewal


RenewerMessage = Renew
