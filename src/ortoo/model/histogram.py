"""A histogram as monitoring wants it: how many observations fell into each bucket, and their sum. Soft, and cheap to feed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

# Upper bounds in seconds: from a command in memory to a request that waits for a slow disk.
LATENCY_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZE_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


class Histogram(msgspec.Struct):
    """One writer; a reader in another thread may see an observation in the counts that is not in the sum yet."""

    bounds: tuple[int | float, ...] = LATENCY_BOUNDS
    counts: list[int] = []  # one more than there are bounds: the last is beyond all of them
    total: float = 0.0  # sum of what was observed

    def __post_init__(self) -> None:
        if not self.counts:
            self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Histogram:
        return Histogram(self.bounds, self.counts.copy(), self.total)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """The bound that so large a share of the observations does not exceed; 0.0 when there are none."""
        wanted, seen = share * self.count, 0
        for bound, count in zip([*self.bounds, self.bounds[-1]], self.counts, strict=True):
            seen += count
            if count and seen >= wanted:
                return bound
        return 0.0


def sum_histograms(found: Sequence[Histogram]) -> Histogram:
    """Of the same bounds."""
    counts = [sum(column) for column in zip(*(one.counts for one in found), strict=True)]
    return Histogram(found[0].bounds, counts, sum(one.total for one in found))
