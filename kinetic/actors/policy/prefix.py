"""Which slot serves a prompt: the one that shares most of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

WORTH_KEEPING = 0.1
"""A slot is chosen for its prefix from this share of the prompt on; below it the
least recently used one is, so that a few common tokens cost no other conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSlot:
    """What an idle slot holds."""

    slot_id: int
    tokens: npt.NDArray[np.int32]
    n_prompt: int
    """How many of the tokens were run as a prompt, not generated."""
    idle_since: int
    """Order in which slots became idle."""
    can_cut: bool = True
    """Whether its memory may be cut shorter."""
    is_kept: bool = False
    """The Cache was told to keep what it holds."""


def shared_length(left: npt.NDArray[np.int32], right: npt.NDArray[np.int32]) -> int:
    """Number of equal leading tokens."""
    n = min(len(left), len(right))
    differs = np.flatnonzero(left[:n] != right[:n])
    return int(differs[0]) if len(differs) else n


def choose_slot(
    prompt: npt.NDArray[np.int32], idle: Sequence[IdleSlot]
) -> tuple[IdleSlot, int]:
    """The idle slot to use and how many leading tokens it shares.

    `idle` holds at least one slot. Empty slots go before those whose tokens would be
    lost, least recently used first.
    """
    shared = {slot.slot_id: shared_length(prompt, slot.tokens) for slot in idle}
    best = max(idle, key=lambda slot: (shared[slot.slot_id], slot.idle_since))
    if shared[best.slot_id] >= max(WORTH_KEEPING * len(prompt), 1):
        return best, shared[best.slot_id]
    oldest = min(idle, key=lambda slot: (len(slot.tokens) > 0, slot.idle_since))
    return oldest, shared[oldest.slot_id]
