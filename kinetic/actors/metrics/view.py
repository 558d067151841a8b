"""What the server shows of the present: frozen values, replaced as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinetic.actors.messages import CacheChanged, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """One slot as /slots shows it: its present or last request."""

    slot_id: int
    is_processing: bool = False
    job: Job | None = None
    n_cached: int = 0
    n_prompt_done: int = 0
    n_generated: int = 0
    has_new_line: bool = False
    n_drafted: int = 0
    n_accepted: int = 0
    task: int = -1
    """Counts the generations of the server from 0; -1 before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsView:
    """Everything at one moment; read by any thread, never changed."""

    slots: tuple[SlotView, ...]
    n_running: int = 0
    n_waiting: int = 0
    cache: CacheChanged | None = None
    """What is kept; None where nothing is."""
    n_held: int = 0
    """Tokens that all slots hold in the engine's memory, as of the last pass."""
    n_max_tokens: int = 0
    """The longest sequence of all passes."""
    n_sequences: int = 0
    """Sequences in a pass, added up over all passes."""

    @property
    def n_idle(self) -> int:
        """Slots that serve nobody."""
        return sum(not slot.is_processing for slot in self.slots)


def empty_view(n_slots: int) -> MetricsView:
    """What there is to see before the first request."""
    return MetricsView(slots=tuple(SlotView(slot_id=i) for i in range(n_slots)))
