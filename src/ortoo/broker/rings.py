"""Samples of the last minutes and hours, in few bytes.

A row is kept only when something happened or stands otherwise than before; whoever reads fills in the others. So a topic that
nothing happens in costs next to nothing, and a busy one no more than its two rings.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from typing import Literal, NamedTuple

from ortoo.model import limits
from ortoo.model.series import GAUGES, GROUP_GAUGES, RATES

_MOST = {"I": (1 << 32) - 1, "Q": (1 << 64) - 1}

Code = Literal["I", "Q"]


class Kind(NamedTuple):
    """Of the rows of a series: first what is summed up, then how it stood. `codes`: how each number is kept."""

    names: tuple[str, ...]
    codes: tuple[Code, ...]
    rates: int  # so many are summed up


def _kind(rates: tuple[str, ...], gauges: tuple[str, ...]) -> Kind:
    names = rates + gauges
    return Kind(names, tuple(["Q" if name == "bytes" else "I" for name in names]), len(rates))


OF_TOPIC = _kind(RATES, GAUGES)
OF_GROUP = _kind((), GROUP_GAUGES)


class Ring:
    """The newest rows, each with its tick: a column of each number, and of the ticks."""

    __slots__ = ("_capacity", "_columns", "_kind", "_newest", "_ticks")

    def __init__(self, kind: Kind, capacity: int) -> None:
        self._kind = kind
        self._capacity = capacity
        self._ticks: array[int] = array("I")
        self._columns: list[array[int]] = []
        self._newest = -1  # where the newest row lies; the oldest one comes after it, once the ring is full

    def __len__(self) -> int:
        return len(self._ticks)

    @property
    def newest(self) -> int:
        """The tick of the newest row; 0 when there is none."""
        return self._ticks[self._newest] if self._ticks else 0

    def add(self, tick: int, row: Sequence[int]) -> None:
        """Ticks ascend. What comes with the newest tick is summed up with it."""
        if self._ticks and tick <= self._ticks[self._newest]:
            self._merge(row)
            return
        if not self._columns:
            self._columns = [array(code) for code in self._kind.codes]
        row = self._fitting(row)
        self._newest = (self._newest + 1) % self._capacity
        if len(self._ticks) < self._capacity:
            for column, value in zip((self._ticks, *self._columns), (tick, *row), strict=True):
                column.append(value)
            if len(self._ticks) == self._capacity:  # it grows no more, and needs no room for that
                self._ticks, self._columns = self._ticks[:], [column[:] for column in self._columns]
            return
        for column, value in zip((self._ticks, *self._columns), (tick, *row), strict=True):
            column[self._newest] = value

    def _merge(self, row: Sequence[int]) -> None:
        rates, at = self._kind.rates, self._newest
        before = [column[at] for column in islice(self._columns, rates)]
        merged = [*map(int.__add__, before, row), *row[rates:]]
        for column, value in zip(self._columns, self._fitting(merged), strict=True):
            column[at] = value

    def _fitting(self, row: Sequence[int]) -> Sequence[int]:
        if max(row) < _MOST["I"] and min(row) >= 0:
            return row
        return [max(0, min(value, _MOST[code])) for value, code in zip(row, self._kind.codes, strict=True)]

    def read(self, first: int, count: int, numbers: Sequence[int] | None = None) -> list[list[int]]:
        """A list of each number, or of some, for so many ticks from `first` on. Where there is no row, nothing happened, and all
        stood as before."""
        numbers = range(len(self._kind.codes)) if numbers is None else numbers
        if not self._ticks:
            return [[0] * count for _ in numbers]
        ticks = self._in_order(self._ticks)
        start = bisect_left(ticks, first)
        places = [tick - first for tick in ticks[start : bisect_left(ticks, first + count)]]
        found = []
        for number in numbers:
            ordered = self._in_order(self._columns[number])
            values = ordered[start : start + len(places)]
            if len(places) == count:  # something happened all the time
                found.append(values.tolist())
            elif number < self._kind.rates:
                found.append(_spread(places, values, count))
            else:
                found.append(_carried(places, values, count, ordered[start - 1] if start else 0))
        return found

    def sums(self, first: int, count: int, numbers: Sequence[int]) -> list[int]:
        """Of some numbers over so many ticks from `first` on, which are among the last: found from the newest on."""
        places, at, ticks = list[int](), self._newest, self._ticks
        for _ in range(len(ticks)):
            if ticks[at] < first:
                break
            if ticks[at] < first + count:
                places.append(at)
            at = (at - 1) % len(ticks)
        columns = self._columns
        if len(places) == 1:  # as mostly where many topics take turns
            [place] = places
            return [columns[number][place] for number in numbers]
        return [sum([columns[number][place] for place in places]) for number in numbers]

    def _in_order(self, column: array[int]) -> array[int]:
        after = self._newest + 1
        return column if after == len(column) else column[after:] + column[:after]


def _has_no_gap(places: list[int]) -> bool:
    return bool(places) and places[-1] - places[0] == len(places) - 1


def _spread(places: list[int], values: Sequence[int], count: int) -> list[int]:
    found = [0] * count
    if _has_no_gap(places):
        found[places[0] : places[0] + len(places)] = values
        return found
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return found


def _carried(places: list[int], values: Sequence[int], count: int, before: int) -> list[int]:
    if _has_no_gap(places):
        return [*[before] * places[0], *values, *[values[-1]] * (count - places[0] - len(places))]
    found: list[int] = []
    for place, value in zip(places, values, strict=True):
        found.extend([before] * (place - len(found)))
        before = value
        found.append(value)
    found.extend([before] * (count - len(found)))
    return found


class Rings:
    """Of one topic or group: the last minutes by the second, the last day by the minute."""

    __slots__ = ("minutes", "seconds", "stands")

    def __init__(self, kind: Kind) -> None:
        self.seconds = Ring(kind, limits.SERIES_SECONDS)
        self.minutes = Ring(kind, limits.SERIES_MINUTES)
        self.stands: tuple[int, ...] = (0,) * (len(kind.codes) - kind.rates)  # the gauges, as they were added last

    def add(self, tick: int, rates: tuple[int, ...], gauges: tuple[int, ...]) -> bool:
        """Whether anything is new."""
        if gauges == self.stands and not any(rates):
            return False
        self.stands = gauges
        row = rates + gauges
        self.seconds.add(tick, row)
        self.minutes.add(tick // 60, row)
        return True
