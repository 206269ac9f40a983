"""How long things took: percentiles of the last one or two minutes, and a histogram since the queue was opened, from a few
hundred bytes. Soft, and cheap to feed."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import add

import msgspec

from .histogram import Histogram

WINDOW_MS = 60_000
# Upper bounds in milliseconds, about 1.4 apart, up to eight days: what is told is off by less than that.
_STEPS = (1, 1.5, 2, 3, 5, 7)
BOUNDS_MS = (
    0,
    *sorted({int(step * 10**power) for power in range(9) for step in _STEPS}),
)
HISTOGRAM_BOUNDS_MS = tuple(bound for bound in BOUNDS_MS if str(bound).rstrip("0") in ("1", "3"))  # 1 ms to 3.5 days
HISTOGRAM_WIDTH = len(HISTOGRAM_BOUNDS_MS) + 2  # what lies beyond, and the sum in milliseconds
_BUCKETS = [*(bisect_left(HISTOGRAM_BOUNDS_MS, bound) for bound in BOUNDS_MS), len(HISTOGRAM_BOUNDS_MS)]
_HISTOGRAM_BOUNDS = tuple(bound / 1000 for bound in HISTOGRAM_BOUNDS_MS)
_NEVER = array("Q", bytes(8 * HISTOGRAM_WIDTH))
_NONE = array("I", bytes(4 * (len(BOUNDS_MS) + 1)))
_MOST = (1 << 32) - 1


class Latency(msgspec.Struct, frozen=True):
    """Of the last one to two minutes. What was leased together, or settled together, counts once."""

    count: int
    p50_ms: int
    p95_ms: int
    p99_ms: int


def slowest(latencies: Iterable[Latency | None]) -> Latency | None:
    """Of several of which no more is known: no larger share of all of them took longer."""
    known = [latency for latency in latencies if latency is not None]
    if not known:
        return None
    return Latency(
        sum(one.count for one in known),
        max(one.p50_ms for one in known),
        max(one.p95_ms for one in known),
        max(one.p99_ms for one in known),
    )


class Recent:
    """Two windows, the one that is being filled and the one before: what is older is forgotten."""

    __slots__ = ("_before", "_now", "_window", "ever")

    def __init__(self) -> None:
        self.ever = _NEVER  # all since the start: by bucket, then the sum
        self._window = -1  # number of the one that is being filled
        self._now = self._before = _NONE  # shared by all who have seen nothing

    def observe(self, took_ms: int, at_ms: int) -> None:
        window = at_ms // WINDOW_MS
        if window != self._window:
            self._before = self._now if window == self._window + 1 else _NONE
            self._window, self._now = window, _NONE[:]
            if self.ever is _NEVER:
                self.ever = _NEVER[:]
        place = bisect_left(BOUNDS_MS, took_ms)
        if self._now[place] < _MOST:
            self._now[place] += 1
        self.ever[_BUCKETS[place]] += 1
        self.ever[-1] += took_ms

    def counts(self, at_ms: int) -> Iterable[int] | None:
        """By bound, of those that are new enough; None when there are none."""
        passed = at_ms // WINDOW_MS - self._window
        if self._window < 0 or passed > 1:
            return None
        return self._now if passed == 1 else map(add, self._now, self._before)


def to_histogram(ever: Sequence[int]) -> Histogram:
    """In seconds."""
    return Histogram(_HISTOGRAM_BOUNDS, list(ever[:-1]), ever[-1] / 1000)


class Sum:
    """Of several together, as they were at one instant."""

    __slots__ = ("_at_ms", "_counts")

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms
        self._counts: list[int] | None = None

    def add(self, recent: Recent | None) -> bool:
        """Whether there was anything to add."""
        counts = None if recent is None else recent.counts(self._at_ms)
        if counts is None:
            return False
        self._counts = list(counts) if self._counts is None else list(map(add, self._counts, counts))
        return True

    def latency(self) -> Latency | None:
        """None when nothing was observed of late."""
        counts = self._counts
        if counts is None or not (count := sum(counts)):
            return None
        return Latency(count, *(_percentile(counts, count, share) for share in (0.5, 0.95, 0.99)))


def _percentile(counts: list[int], count: int, share: float) -> int:
    """The bound that so large a share does not exceed."""
    wanted, seen = share * count, 0
    for bound, some in zip(BOUNDS_MS, counts, strict=False):
        seen += some
        if seen >= wanted:
            return bound
    return BOUNDS_MS[-1]
