"""Choosing a slot by what it holds."""

import numpy as np

from kinetic.actors.policy.prefix import IdleSlot, choose_slot, shared_length


def ids(*tokens):
    return np.array(tokens, np.int32)


def slot(slot_id, tokens, since=0):
    return IdleSlot(
        slot_id=slot_id, tokens=tokens, n_prompt=len(tokens), idle_since=since
    )


def test_shared_length_counts_equal_leading_tokens():
    assert shared_length(ids(1, 2, 3), ids(1, 2, 4)) == 2
    assert shared_length(ids(1, 2), ids(1, 2, 4)) == 2
    assert shared_length(ids(), ids(1)) == 0
    assert shared_length(ids(5), ids(1)) == 0


def test_the_slot_that_shares_most_is_chosen():
    best, n = choose_slot(
        ids(1, 2, 3, 4), [slot(0, ids(1)), slot(1, ids(1, 2, 3)), slot(2, ids())]
    )
    assert (best.slot_id, n) == (1, 3)


def test_an_empty_slot_goes_before_one_with_a_conversation():
    best, n = choose_slot(
        ids(9, 9, 9), [slot(0, ids(1, 2, 3), since=1), slot(1, ids(), since=2)]
    )
    assert (best.slot_id, n) == (1, 0)


def test_the_least_recently_used_conversation_is_given_up():
    best, _ = choose_slot(
        ids(9, 9), [slot(0, ids(1), since=5), slot(1, ids(2), since=3)]
    )
    assert best.slot_id == 1


def test_a_few_common_tokens_cost_no_other_conversation():
    prompt = ids(*range(100))
    chat = slot(0, ids(0, 1, 2, 777), since=9)
    best, n = choose_slot(prompt, [chat, slot(1, ids(), since=1)])
    assert (best.slot_id, n) == (1, 0)
