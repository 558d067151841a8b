from __future__ import annotations

import math

from hypothesis import given, strategies as st

from kinetic.actors.metrics.histogram import Histogram


def test_a_new_histogram_has_seen_nothing():
    empty = Histogram.empty(1, 2)
    assert (empty.n, empty.total) == (0, 0)
    assert empty.cumulative() == [("1.0", 0), ("2.0", 0), ("+Inf", 0)]


def test_a_bound_holds_what_equals_it():
    seen = Histogram.empty(1, 2).observe(1).observe(1.5).observe(7)
    assert seen.cumulative() == [("1.0", 1), ("2.0", 2), ("+Inf", 3)]
    assert seen.total == 9.5


def test_an_observation_leaves_the_old_value_as_it_was():
    before = Histogram.empty(1)
    before.observe(0.5)
    assert before.n == 0


@given(st.lists(st.floats(0, 1000), max_size=50))
def test_the_last_bucket_counts_everything(values):
    seen = Histogram.empty(0.1, 1, 10, 100)
    for value in values:
        seen = seen.observe(value)
    counts = [count for _, count in seen.cumulative()]
    assert counts == sorted(counts)
    assert counts[-1] == seen.n == len(values)
    assert math.isclose(seen.total, sum(values))
    for bound, count in seen.cumulative():
        assert count == sum(value <= float(bound) for value in values)
