"""Sets of offsets, as Roaring bitmaps: a run of a million costs a few bytes, and range operations cost microseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from pyroaring import BitMap64

_NOTHING = bytes(BitMap64().serialize())


def to_plain(value: object) -> object:
    """What msgpack has in place of a range."""
    if type(value) is range:
        return list(value)
    raise TypeError(f"cannot encode a value of type {type(value).__name__}")


class OffsetSet(BitMap64):
    """A mutable set of offsets. Records hold such sets too and never change them once made.

    Operators and what else the bitmap has (`&`, `|`, `-`, `in`, `len`, `add`, `discard`, `copy`) give sets of this kind, too.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    first = BitMap64.min  # the lowest offset; the set must not be empty
    last = BitMap64.max
    add_span = BitMap64.add_range
    update = BitMap64.__ior__  # type: ignore[assignment]  # with one other set
    subtract = BitMap64.__isub__
    is_disjoint = BitMap64.isdisjoint

    @classmethod
    def span(cls, start: int, end: int) -> OffsetSet:
        offsets = cls()
        offsets.add_range(start, end)
        return offsets

    @classmethod
    def of(cls, offsets: Sequence[int]) -> OffsetSet:
        """In whatever order, even twice."""
        if type(offsets) is range and offsets and offsets.step == 1:
            return cls.span(offsets.start, offsets.stop)
        return cls(offsets)

    @classmethod
    def ascending(cls, offsets: Sequence[int]) -> OffsetSet:
        """Of at least one offset, in ascending order, none of them twice. Mostly there is no gap, and then it is quick."""
        if offsets[-1] - offsets[0] == len(offsets) - 1:
            return cls.span(offsets[0], offsets[-1] + 1)
        return cls(offsets)

    def remove_span(self, start: int, end: int) -> None:
        if end > start:
            self.remove_range(start, end)

    def next_from(self, offset: int) -> int:
        """The lowest offset at or above, or -1."""
        if offset in self:  # as mostly; the bitmap takes ten times as long to come to that
            return offset
        if not self or offset > self.max():  # not left to the bitmap: saying so costs it 224 bytes for ever
            return -1
        first: int = self.min()
        return first if offset < first else int(self.next_set_bit(offset))

    def take(self, count: int) -> OffsetSet:
        """The lowest `count` offsets as a set of their own; this one does not change."""
        if count >= len(self):
            return self.copy()
        return self.within(self.min(), self[count])

    def within(self, start: int, end: int) -> OffsetSet:
        """Those in [start, end)."""
        found = OffsetSet()
        if self:  # the span is cut to what is there, for a bitmap of a huge span would be huge itself
            start, end = max(start, self.min()), min(end, self.max() + 1)
            if end > start:
                found.add_range(start, end)
                found &= self
        return found

    def count_within(self, start: int, end: int) -> int:
        return int(self.range_cardinality(start, end)) if end > start else 0

    def to_sequence(self) -> Sequence[int]:
        """In ascending order. A range where there is no gap, as mostly, and that costs the same for one and a million."""
        if self and self.max() - self.min() == len(self) - 1:
            return range(self.min(), self.max() + 1)
        return self.to_array().tolist()

    def to_bytes(self) -> bytes:
        if not self:
            return _NOTHING
        self.run_optimize()
        return bytes(self.serialize())

    @classmethod
    def from_bytes(cls, data: bytes) -> OffsetSet:
        return cls.deserialize(data)

    def __iter__(self) -> Iterator[int]:
        return iter(self.to_array())  # much faster to walk than the set itself

    def __repr__(self) -> str:
        shown = ", ".join(str(offset) for offset in self.take(8))
        return f"OffsetSet({shown}{', …' if len(self) > 8 else ''})"


class _Nothing(OffsetSet):
    """Refuses to be anything else. `found |= more` makes a set of its own of it, as with any value that never changes."""

    __slots__ = ()

    def __ior__(self, other: Any) -> OffsetSet:  # type: ignore[override]
        return OffsetSet(other)

    def __or__(self, other: Any) -> OffsetSet:  # type: ignore[override]
        return OffsetSet(other)

    def __and__(self, other: Any) -> OffsetSet:  # type: ignore[override]
        return OffsetSet()

    def __sub__(self, other: Any) -> OffsetSet:  # type: ignore[override]
        return OffsetSet()

    def copy(self) -> OffsetSet:  # type: ignore[override]
        return OffsetSet()

    def subtract(self, other: Any) -> None:  # type: ignore[override]
        pass

    def discard(self, value: int) -> None:
        pass

    def remove_span(self, start: int, end: int) -> None:
        pass

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError("the set that all share stays empty")

    add = add_range = add_span = update = _refuse  # type: ignore[assignment]


NOTHING: Final = _Nothing()  # for whoever mostly has none: an empty set of its own costs 260 bytes
