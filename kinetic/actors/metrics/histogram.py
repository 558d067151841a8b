"""A histogram as a value: counts of observations below bounds. Pure, no threads."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Observations sorted into buckets, as Prometheus counts them.

    Never changed: `observe` gives a new one, so a reader's copy stays consistent.
    """

    bounds: tuple[float, ...]
    """Upper bounds, rising; a last bucket without bound stands behind them."""
    counts: tuple[int, ...]
    """Observations per bucket, one more than there are bounds."""
    total: float = 0.0
    """Sum of all observations."""

    @classmethod
    def empty(cls, *bounds: float) -> Histogram:
        """One that has seen nothing."""
        return cls(bounds=bounds, counts=(0,) * (len(bounds) + 1))

    @property
    def n(self) -> int:
        """How many observations there are."""
        return sum(self.counts)

    def observe(self, *values: float) -> Histogram:
        """The same with more observations; a bound holds what equals it."""
        counts = list(self.counts)
        for value in values:
            counts[bisect_left(self.bounds, value)] += 1
        total = sum(values, self.total)
        return Histogram(bounds=self.bounds, counts=tuple(counts), total=total)

    def cumulative(self) -> list[tuple[str, float]]:
        """Bounds as text with how many observations lie at or below them."""
        found: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip((*self.bounds, None), self.counts, strict=True):
            so_far += count
            found.append(("+Inf" if bound is None else repr(float(bound)), so_far))
        return found
