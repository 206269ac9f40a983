"""A stretch of a log in memory, as flat columns. What the memory store is made of, and the unwritten end of a disk log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ortoo.model.publishers import Publishers, pick_publishers, spread
from ortoo.model.records import Published
from ortoo.model.replies import Columns
from ortoo.model.topic import DEFAULT_PRIORITY

OPTIONAL: dict[str, Any] = {
    "keys": None,
    "headers": None,
    "priorities": DEFAULT_PRIORITY,
    "json": False,
    "dedup_ids": None,
}


class Stretch:
    """A column that no message uses does not exist."""

    __slots__ = ("base", "dedup_ids", "headers", "json", "keys", "priorities", "publishers", "timestamps", "values")

    def __init__(self, base: int) -> None:
        self.base = base
        self.values: list[bytes] = []
        self.timestamps: list[int] = []
        self.keys: list[str | None] | None = None
        self.headers: list[dict[str, str] | None] | None = None
        self.priorities: list[int] | None = None
        self.json: list[bool] | None = None
        self.dedup_ids: list[str | None] | None = None
        self.publishers: Publishers | None = None

    @property
    def end(self) -> int:
        return self.base + len(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def append(self, record: Published) -> None:
        before = len(self.values)
        self.values.extend(record.batch.values)
        self.timestamps.extend([record.at] * record.count)
        for name, blank in OPTIONAL.items():
            column, more = getattr(self, name), getattr(record.batch, name)
            if column is None and more is None:
                continue
            if column is None:
                column = [blank] * before
                setattr(self, name, column)
            column.extend(more if more is not None else [blank] * record.count)
        if record.publishers is not None or self.publishers is not None:
            self._note(record.publishers, before, record.count)

    def blank(self, offsets: Iterable[int]) -> None:
        """What these messages said goes; their places stay."""
        for offset in offsets:
            row = offset - self.base
            self.values[row] = b""
            if self.keys is not None:
                self.keys[row] = None
            if self.headers is not None:
                self.headers[row] = None

    def _note(self, publishers: Publishers | None, before: int, count: int) -> None:
        """A name that all share stays one."""
        if not before:
            self.publishers = list(publishers) if isinstance(publishers, list) else publishers
        elif isinstance(publishers, list) or publishers != self.publishers:
            if not isinstance(self.publishers, list):
                self.publishers = spread(self.publishers, before)
            self.publishers.extend(spread(publishers, count))

    def read(self, offsets: Sequence[int]) -> Columns:
        if not offsets:
            return Columns([], [], [])
        first, last = offsets[0] - self.base, offsets[-1] - self.base
        rows: slice | list[int]
        if last - first + 1 == len(offsets):
            rows = slice(first, last + 1)

            def chosen(column: list[Any]) -> list[Any]:
                return column[first : last + 1]
        else:
            rows = places = [offset - self.base for offset in offsets]

            def chosen(column: list[Any]) -> list[Any]:
                return [column[place] for place in places]

        return Columns(
            offsets if type(offsets) is range else list(offsets),
            chosen(self.values),
            chosen(self.timestamps),
            None if self.keys is None else chosen(self.keys),
            None if self.headers is None else chosen(self.headers),
            None if self.priorities is None else chosen(self.priorities),
            None if self.json is None else chosen(self.json),
            pick_publishers(self.publishers, rows),
            None if self.dedup_ids is None else chosen(self.dedup_ids),
        )
