"""When messages that were delayed came due: retention counts their age from there, and so does the lag of a group.

Only prefixes of a log are removed, so all that retention asks is from which offset on something is too young. A message that
came due before another with a lower offset need not be known by itself: it lies behind that one, and counts as due with it.
What is left ascends in both; where it would be much, neighbours share the later date and are kept a little longer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NoReturn

from ortoo.model.offsets import OffsetSet

SPANS_MAX = 1_024

Span = tuple[int, int, int]  # due, first offset, last offset: all of them count as due then


class DueDates:
    __slots__ = ("offsets", "spans")

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.offsets = OffsetSet()  # soft: those that were delayed, and came due since the queue was opened

    def add(self, pairs: Iterable[tuple[int, int]]) -> None:
        """(due, offset) pairs, in the order they came due."""
        offsets = []
        for due, offset in pairs:
            self.add_span(due, offset, offset)
            offsets.append(offset)
        self.offsets |= OffsetSet(offsets)

    def add_span(self, due: int, first: int, last: int) -> None:
        spans = self.spans
        while spans and spans[-1][2] >= first:
            earlier, lower, upper = spans.pop()
            last = max(last, upper)
            if lower < first:
                spans.append((earlier, lower, first - 1))
        if spans and spans[-1][0] == due:
            first = spans.pop()[1]
        spans.append((due, first, last))
        if len(spans) > SPANS_MAX:
            self._share()

    def _share(self) -> None:
        """Dates become coarser, all alike."""
        grain = (self.spans[-1][0] - self.spans[0][0]) // (SPANS_MAX // 2) + 1
        shared = self.spans[:1]
        for due, first, last in self.spans[1:]:
            if due // grain == shared[-1][0] // grain:
                shared[-1] = (due, shared[-1][1], last)
            else:
                shared.append((due, first, last))
        self.spans = shared

    def first_since(self, cutoff: int) -> int | None:
        """The lowest offset of those that came due then or later."""
        return next((first for due, first, _ in self.spans if due >= cutoff), None)

    def date_of(self, offset: int) -> int:
        """When it came due, or a little later; it is one of `offsets`."""
        return self.spans[bisect_right(self.spans, offset, key=itemgetter(1)) - 1][0]

    def trim(self, start: int) -> None:
        """Forgets what lies before that offset."""
        self.offsets.remove_span(0, start)
        self.spans = [(due, max(first, start), last) for due, first, last in self.spans if last >= start]


class _NoDates(DueDates):
    """Has nothing, for ever."""

    __slots__ = ()

    def add_span(self, due: int, first: int, last: int) -> NoReturn:
        raise TypeError("the dates that all share stay empty")


NO_DATES: Final = _NoDates()
