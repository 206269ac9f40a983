"""Which topics, or groups, have series of their own in the metrics where there are too many, and what the others sum up to.

The sum never goes down, and neither does any series, whoever comes, goes or changes places: everything that was counted is in one
of them, once. What something counted while it was among the others stays in their sum, and what it counted in a series of its own
stays in that, and goes on there when it comes back. So the others have what is left of the total:

    others = total − own series − what series showed that are not shown any more
"""

from __future__ import annotations

from heapq import nsmallest
from operator import add, sub
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key")

_SWAPS_MAX = 16  # of one look
_FROZEN_FACTOR = 10  # series that rest, at most, for each that is shown; with more, nobody changes places


class Rank(NamedTuple):
    """Who needs a series most: first what fails, then what moves most messages."""

    is_failing: bool
    weight: int

    def is_above(self, other: Rank) -> bool:
        """By far: places change seldom."""
        if self.is_failing != other.is_failing:
            return self.is_failing
        return self.weight > 2 * other.weight + 100


class _Own:
    """A series: what it shows is the total without what was counted elsewhere."""

    __slots__ = ("elsewhere", "rank", "shown")

    def __init__(self, elsewhere: list[int] | None, shown: list[int], rank: Rank) -> None:
        self.elsewhere = elsewhere
        self.shown = shown
        self.rank = rank


class OwnSeries(Generic[Key]):
    """Looks are made one after the other: `begin`, `see` each, `end`."""

    def __init__(self, most: int, width: int) -> None:
        self._most = most
        self._blank = [0] * width
        self._own: dict[Key, _Own] = {}
        self._frozen: dict[Key, list[int]] = {}  # of those among the others now: what their series showed
        self._gone = self._blank  # what series showed that are not shown now, these among them
        self._others: set[Key] = set()  # as they were at the last look
        self._is_exceeded = False  # there were others
        self.begin(None)

    def begin(self, past: list[int] | None) -> None:
        """`past`: what was counted by all that are gone."""
        self._total = self._blank if past is None else past
        self._shown = self._rest = self._blank
        self._seen: set[Key] = set()
        self._seen_others: set[Key] = set()
        self._challengers: list[tuple[Rank, Key, list[int]]] = []

    def count_past(self, total: list[int] | None) -> None:
        """Of something that is gone."""
        if total is not None:
            self._total = list(map(add, self._total, total))

    def see(self, key: Key, total: list[int] | None, rank: Rank) -> list[int] | None:
        """What its series shows; None when it has none."""
        total = self._blank if total is None else total
        if total is not self._blank:
            self._total = list(map(add, self._total, total))
        own = self._own.get(key)
        if own is None and len(self._own) < self._most:
            own = self._own[key] = _Own(self._elsewhere(key, total), total, rank)
            self._others.discard(key)
        if own is None:
            self._be_other(key, total, rank)
            return None
        self._seen.add(key)
        own.shown = total if own.elsewhere is None else list(map(sub, total, own.elsewhere))
        own.rank = rank
        if total is not self._blank:
            self._shown = list(map(add, self._shown, own.shown))
        return own.shown

    def _elsewhere(self, key: Key, total: list[int]) -> list[int] | None:
        if key not in self._others:
            return None
        frozen = self._frozen.pop(key, None)
        if frozen is None:
            return total
        self._gone = list(map(sub, self._gone, frozen))
        return list(map(sub, total, frozen))

    def _be_other(self, key: Key, total: list[int], rank: Rank) -> None:
        self._seen_others.add(key)
        if total is not self._blank:
            self._rest = list(map(add, self._rest, total))
        if rank.weight or rank.is_failing:
            self._challengers.append((rank, key, total))
        if len(self._challengers) >= 4 * _SWAPS_MAX:
            self._keep_best()

    def _keep_best(self) -> None:
        self._challengers.sort(key=lambda one: one[0], reverse=True)
        del self._challengers[_SWAPS_MAX:]

    def end(self) -> list[int] | None:
        """What the others sum up to; None as long as there have been none."""
        for key in self._own.keys() - self._seen:
            self._gone = list(map(add, self._gone, self._own.pop(key).shown))
        for key in self._frozen.keys() - self._seen_others:
            del self._frozen[key]
        self._others = self._seen_others
        if not self._is_exceeded:
            self._gone = list(map(sub, map(sub, self._total, self._shown), self._rest))
            self._is_exceeded = bool(self._others)
            if not self._is_exceeded:
                return None
        rest = list(map(sub, map(sub, self._total, self._shown), self._gone))
        self._change_places()
        return rest

    def _change_places(self) -> None:
        """For the next look: who needs it by far more gets the series of who needs it least."""
        self._keep_best()
        lasts = nsmallest(_SWAPS_MAX, self._own, key=lambda key: self._own[key].rank) if self._challengers else []
        for (rank, key, total), last in zip(self._challengers, lasts, strict=False):
            if len(self._frozen) >= _FROZEN_FACTOR * self._most or not rank.is_above(self._own[last].rank):
                return
            self._frozen[last] = self._own.pop(last).shown
            self._gone = list(map(add, self._gone, self._frozen[last]))
            elsewhere = self._elsewhere(key, total)
            assert elsewhere is not None  # it was among the others
            self._own[key] = _Own(elsewhere, list(map(sub, total, elsewhere)), rank)
            self._others.discard(key)
            self._others.add(last)
