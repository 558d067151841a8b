"""Where a job begins: in which slot, on what, and whether the Cache is asked. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kinetic.actors.policy.kept import StateRules, exact_length
from kinetic.actors.policy.plan import BatchPlan, Held, usable_prefix
from kinetic.actors.policy.prefix import IdleSlot, choose_slot, shared_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinetic.model.job import Job

LEAST_ASKED: Final = 32
"""Prompt tokens left to run from which on the Cache is asked for a kept state."""

LEAST_KEPT: Final = 64
"""Tokens that would be lost from which on a slot's state is kept first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginningRules:
    """What the model and its plan allow."""

    plan: BatchPlan
    can_cut: bool
    """Whether memory that was not put back can drop its last tokens."""
    states: StateRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What the other jobs with the same prompt have to do with one's beginning."""

    n_open: int = 1
    """Jobs with this prompt that have not ended."""
    stands: bool = False
    """Its state is there already: it was run for another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What was decided."""

    slot: IdleSlot
    n_keep: int
    """Leading tokens of the slot's own memory to build on."""
    is_shared: bool
    """The prompt is run for others too."""
    asks_cache: bool
    """The Cache may know a state that reaches further."""


def decide(
    job: Job, idle: Mapping[int, IdleSlot], rules: BeginningRules, sharing: Sharing
) -> Beginning:
    """Where a job begins; `idle` holds the slot that it names, or any at all."""
    slot, n_shared = _slot_for(job, idle)
    reuses = not sharing.stands and not job.prompt_logprobs
    n_keep = 0
    if reuses:
        held = Held(
            n_tokens=len(slot.tokens),
            n_prompt=slot.n_prompt,
            n_shared=n_shared,
            can_cut=rules.can_cut and slot.can_cut,
        )
        n_keep = usable_prefix(
            rules.plan, held, n_prompt=len(job.prompt), images=job.images
        )
    n_left = len(job.prompt) - 1 - n_keep
    is_exact = exact_length(rules.states, len(job.prompt)) == len(job.prompt)
    return Beginning(
        slot=slot,
        n_keep=n_keep,
        is_shared=sharing.n_open > 1 and not sharing.stands and is_exact,
        asks_cache=reuses and n_left >= LEAST_ASKED,
    )


def _slot_for(job: Job, idle: Mapping[int, IdleSlot]) -> tuple[IdleSlot, int]:
    prompt = np.array(job.prompt, np.int32)
    if job.slot_id is not None:
        slot = idle[job.slot_id]
        return slot, shared_length(prompt, slot.tokens)
    return choose_slot(prompt, list(idle.values()))


def keeps_first(beginning: Beginning, *, is_replaced: bool) -> bool:
    """Whether what the slot holds is to be kept before it is lost.

    `is_replaced`: another state is put in its place.
    """
    slot = beginning.slot
    n_lost = len(slot.tokens) - (0 if is_replaced else beginning.n_keep)
    return n_lost >= LEAST_KEPT and not slot.is_kept


def keeps_idle(slot: IdleSlot, rules: StateRules) -> bool:
    """Whether what an idle slot holds is worth keeping, and can be as it is."""
    n_tokens = len(slot.tokens)
    if slot.is_kept or n_tokens < LEAST_KEPT:
        return False
    return exact_length(rules, n_tokens) == n_tokens
