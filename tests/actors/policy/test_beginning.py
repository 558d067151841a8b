"""Where a job begins, as a pure decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kinetic.actors.policy.beginning import (
    LEAST_ASKED,
    LEAST_KEPT,
    Beginning,
    BeginningRules,
    Sharing,
    decide,
    keeps_first,
    keeps_idle,
)
from kinetic.actors.policy.kept import StateRules
from kinetic.actors.policy.plan import alone_plan, uniform_plan
from kinetic.actors.policy.prefix import IdleSlot
from kinetic.model.job import Job
from kinetic.types import SamplingParams

RULES = BeginningRules(
    plan=uniform_plan(n_sequences=2), can_cut=True, states=StateRules()
)
PROMPT = tuple(range(1, 101))


def job(**named):
    return Job(
        request_id="r", index=0, prompt=PROMPT, sampling=SamplingParams(), **named
    )


def slot(slot_id=0, n_shared=0, n_more=0, **named):
    """An idle slot that shares some of the prompt and holds other tokens after it."""
    tokens = [*PROMPT[:n_shared], *[7777] * n_more]
    return IdleSlot(
        slot_id=slot_id,
        tokens=np.array(tokens, np.int32),
        n_prompt=n_shared,
        idle_since=slot_id,
        **named,
    )


def begun(*slots, rules=RULES, sharing=None, **named):
    idle = {slot.slot_id: slot for slot in slots}
    return decide(job(**named), idle, rules, sharing or Sharing())


def test_the_slot_that_shares_most_is_built_on():
    found = begun(slot(0, 20), slot(1, 60, 5))
    assert (found.slot.slot_id, found.n_keep) == (1, 60)


def test_the_slot_that_a_job_names_is_taken():
    found = begun(slot(0, 20), slot(1, 60), slot_id=0)
    assert (found.slot.slot_id, found.n_keep) == (0, 20)


@pytest.mark.parametrize(
    ("named", "sharing"),
    [({"prompt_logprobs": True}, Sharing()), ({}, Sharing(n_open=2, stands=True))],
)
def test_nothing_is_reused_where_all_is_scored_or_the_prompt_stands(named, sharing):
    found = begun(slot(0, 60), sharing=sharing, **named)
    assert (found.n_keep, found.asks_cache, found.is_shared) == (0, False, False)


def test_memory_that_cannot_be_cut_is_used_whole_or_not_at_all():
    rules = replace(RULES, can_cut=False)
    assert begun(slot(0, 60), rules=rules).n_keep == 60
    assert begun(slot(0, 60, 1), rules=rules).n_keep == 0
    assert begun(slot(0, 60, 1, can_cut=False)).n_keep == 0


def test_turn_by_turn_whole_chunks_are_reused():
    assert begun(slot(0, 70), rules=replace(RULES, plan=alone_plan())).n_keep == 64


@pytest.mark.parametrize(("n_shared", "asks"), [(99 - LEAST_ASKED, True), (68, False)])
def test_the_cache_is_asked_only_for_what_is_worth_asking(n_shared, asks):
    assert begun(slot(0, n_shared)).asks_cache == asks


def test_a_prompt_is_run_for_others_where_they_wait_for_it_and_its_state_is_exact():
    waits = Sharing(n_open=2)
    window = replace(RULES, states=StateRules(can_cut=False, window=50))
    assert begun(slot(), sharing=waits).is_shared
    assert not begun(slot()).is_shared
    assert not begun(slot(), sharing=waits, rules=window).is_shared


def test_what_would_be_lost_is_kept_first():
    held = slot(0, 20, LEAST_KEPT)
    beginning = Beginning(slot=held, n_keep=20, is_shared=False, asks_cache=False)
    assert keeps_first(beginning, is_replaced=False)
    assert not keeps_first(replace(beginning, n_keep=21), is_replaced=False)
    assert keeps_first(replace(beginning, n_keep=21), is_replaced=True)
    kept = replace(beginning, slot=replace(held, is_kept=True))
    assert not keeps_first(kept, is_replaced=True)


def test_idle_slots_are_kept_where_that_is_worth_it_and_exact():
    assert keeps_idle(slot(0, LEAST_KEPT), StateRules())
    assert not keeps_idle(slot(0, LEAST_KEPT - 1), StateRules())
    assert not keeps_idle(slot(0, LEAST_KEPT, is_kept=True), StateRules())
    assert not keeps_idle(slot(0, 70), StateRules(window=50))
