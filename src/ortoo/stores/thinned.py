"""A stretch of a log in memory of which most messages are gone: those that are left, and where they lay."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns, join_columns

from .stretch import Stretch


class Thinned:
    """Covers [base, end), and has some of it."""

    __slots__ = ("base", "columns", "end")

    def __init__(self, base: int, end: int, columns: Columns) -> None:
        self.base = base
        self.end = end
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    def read(self, offsets: Sequence[int]) -> Columns:
        """Those of them that are left."""
        found, rows = self.columns.offsets, []
        at = 0
        for offset in offsets:
            at = bisect_left(found, offset, at)
            if at == len(found):
                break
            if found[at] == offset:
                rows.append(at)
        return self.columns if len(rows) == len(found) else self.columns.pick(rows)

    def without(self, gone: OffsetSet) -> Thinned:
        return thinned(self.base, self.end, self.columns, gone)


def thinned(base: int, end: int, columns: Columns, gone: OffsetSet) -> Thinned:
    rows = [row for row, offset in enumerate(columns.offsets) if offset not in gone]
    return Thinned(base, end, columns.pick(rows))


def thin(stretch: Stretch, gone: OffsetSet) -> Thinned:
    left = OffsetSet.span(stretch.base, stretch.end) - gone
    columns = stretch.read(left.to_sequence()) if left else Columns([], [], [])
    return Thinned(stretch.base, stretch.end, columns)


def joined(first: Thinned, second: Thinned) -> Thinned:
    """Of two that follow each other."""
    return Thinned(first.base, second.end, join_columns([first.columns, second.columns]))
