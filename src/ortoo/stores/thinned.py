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

    def blank(self, offsets: OffsetSet) -> None:
        """What these messages said goes; their places stay."""
        columns = self.columns
        for offset in offsets:
            row = bisect_left(columns.offsets, offset)
            if row < len(columns) and columns.offsets[row] == offset:
                columns.values[row] = b""
                if columns.headers is not None:
                    columns.headers[row] = None

    def without(self, gone: OffsetSet) -> Thinned:
        rows = [row for row, offset in enumerate(self.columns.offsets) if offset not in gone]
        return Thinned(self.base, self.end, self.columns.pick(rows))


def thin(stretch: Stretch, gone: OffsetSet) -> Thinned:
    left = OffsetSet.span(stretch.base, stretch.end) - gone
    columns = stretch.read(left.to_sequence()) if left else Columns([], [], [])
    return Thinned(stretch.base, stretch.end, columns)


def joined(first: Thinned, second: Thinned) -> Thinned:
    """Of two that follow each other."""
    return Thinned(first.base, second.end, join_columns([first.columns, second.columns]))
