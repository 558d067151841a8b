"""The index of kept states against a brute-force model, and what is evicted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kinetic.actors.policy.kept import (
    BLOCK,
    Kept,
    PrefixIndex,
    Rates,
    StateRules,
    exact_length,
    is_worth,
    to_evict,
    value,
)


def kept(state_id, tokens, *, scope=(), n_bytes=100, at=0.0, **named):
    return Kept(
        state_id=state_id,
        scope=scope,
        tokens=np.array(tokens, np.int32),
        n_prompt=len(tokens),
        n_bytes=n_bytes,
        in_memory=named.pop("in_memory", True),
        on_disk=False,
        kept_s=at,
        **named,
    )


# Few blocks, put together in many ways, so that prefixes are often shared.
BLOCKS = [[i] * BLOCK for i in range(3)]
token_lists = st.builds(
    lambda blocks, tail: [t for b in blocks for t in BLOCKS[b]] + tail,
    st.lists(st.integers(0, 2), max_size=4),
    st.lists(st.integers(0, 2), max_size=BLOCK - 1),
)
scopes = st.sampled_from([(), ("image",)])


def common(left, right):
    n = 0
    while n < min(len(left), len(right)) and left[n] == right[n]:
        n += 1
    return n


class AgainstBruteForce(RuleBasedStateMachine):
    """The index finds what comparing with every state finds."""

    def __init__(self):
        super().__init__()
        self.index = PrefixIndex()
        self.model = {}

    @rule(state_id=st.integers(0, 5), tokens=token_lists, scope=scopes)
    def add(self, state_id, tokens, scope):
        self.index.add(kept(state_id, tokens, scope=scope))
        self.model[state_id] = (scope, tokens)

    @rule(state_id=st.integers(0, 5))
    def remove(self, state_id):
        self.index.remove(state_id)
        self.model.pop(state_id, None)

    @rule(prompt=token_lists, scope=scopes)
    def look_up(self, prompt, scope):
        expected = {
            i: n
            for i, (other, tokens) in self.model.items()
            if other == scope and (n := common(prompt, tokens)) >= BLOCK
        }
        found = self.index.matches(scope, np.array(prompt, np.int32))
        assert {m.kept.state_id: m.n_shared for m in found} == expected
        assert [m.n_shared for m in found] == sorted(expected.values(), reverse=True)

    @invariant()
    def nothing_is_left_behind(self):
        assert len(self.index) == len(self.model)
        if not self.model:
            assert not self.index._by_chain


TestAgainstBruteForce = AgainstBruteForce.TestCase


def test_of_equal_prefixes_the_shorter_state_comes_first():
    index = PrefixIndex()
    index.add(kept(1, BLOCKS[0] + BLOCKS[1] + BLOCKS[2]))
    index.add(kept(2, BLOCKS[0] + BLOCKS[1]))
    found = index.matches((), np.array(BLOCKS[0] + BLOCKS[1], np.int32))
    assert [m.kept.state_id for m in found] == [2, 1]


def test_what_is_covered_is_known():
    index = PrefixIndex()
    index.add(kept(1, BLOCKS[0] + BLOCKS[1]))
    assert index.covers((), np.array(BLOCKS[0], np.int32))
    longer = np.array(BLOCKS[0] + BLOCKS[1] + BLOCKS[2], np.int32)
    assert not index.covers((), longer)
    assert [k.state_id for k in index.covered_by((), longer)] == [1]


def test_use_and_youth_make_a_state_valuable_and_size_costs():
    old = kept(1, BLOCKS[0], at=0.0)
    assert value(replace(old, kept_s=900.0), 1000.0) > value(old, 1000.0)
    assert value(replace(old, n_uses=3), 1000.0) > value(old, 1000.0)
    assert value(replace(old, n_bytes=1000), 1000.0) < value(old, 1000.0)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0, 100)), max_size=8),
    st.integers(0, 200),
)
def test_eviction_fits_the_budget_and_takes_no_more_than_needed(entries, budget):
    states = [kept(i, BLOCKS[0], n_bytes=n, at=at) for i, (n, at) in enumerate(entries)]
    gone = to_evict(states, budget, 100.0)
    left = sum(k.n_bytes for k in states) - sum(k.n_bytes for k in gone)
    assert left <= budget
    if gone:
        assert left + gone[-1].n_bytes > budget
        worst_kept = [value(k, 100.0) for k in states if k not in gone]
        assert all(value(gone[0], 100.0) <= v for v in worst_kept)


def test_a_state_is_used_only_where_it_is_faster():
    rates = Rates(
        prompt_tokens_per_s=100, restore_bytes_per_s=1000, read_bytes_per_s=1000
    )
    state = kept(1, BLOCKS[0], n_bytes=1000)
    assert is_worth(state, 101, rates)
    assert not is_worth(state, 99, rates)
    assert not is_worth(replace(state, in_memory=False), 150, rates)
    assert not is_worth(state, 0, rates)


@pytest.mark.parametrize(
    ("window", "n", "expected"),
    [(0, 700, 700), (512, 512, 512), (512, 600, 576), (512, 576, 576), (64, 70, 64)],
)
def test_windows_allow_states_at_some_lengths(window, n, expected):
    assert exact_length(StateRules(window=window), n) == expected
