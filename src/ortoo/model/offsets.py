"""Sets of offsets, as Roaring bitmaps: a run of a million costs a few bytes, and range operations cost microseconds."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from pyroaring import BitMap64

_NOTHING = bytes(BitMap64().serialize())


class OffsetSet:
    """A mutable set of offsets. Records hold such sets too and never change them once made."""

    __slots__ = ("bits",)

    def __init__(self, offsets: Iterable[int] | BitMap64 = ()) -> None:
        self.bits = offsets if isinstance(offsets, BitMap64) else BitMap64(offsets)

    @classmethod
    def span(cls, start: int, end: int) -> OffsetSet:
        bits = BitMap64()
        bits.add_range(start, end)
        return cls(bits)

    def add(self, offset: int) -> None:
        self.bits.add(offset)

    def discard(self, offset: int) -> None:
        self.bits.discard(offset)

    def add_span(self, start: int, end: int) -> None:
        self.bits.add_range(start, end)

    def remove_span(self, start: int, end: int) -> None:
        if end > start:
            self.bits.remove_range(start, end)

    def update(self, other: OffsetSet) -> None:
        self.bits |= other.bits

    def subtract(self, other: OffsetSet) -> None:
        self.bits -= other.bits

    def clear(self) -> None:
        self.bits.clear()

    def copy(self) -> OffsetSet:
        return OffsetSet(self.bits.copy())

    def first(self) -> int:
        """The lowest offset; the set must not be empty."""
        return int(self.bits.min())

    def last(self) -> int:
        return int(self.bits.max())

    def next_from(self, offset: int) -> int:
        """The lowest offset at or above, or -1."""
        if not self.bits or offset > self.bits.max():  # not left to the bitmap: saying so costs it 224 bytes for ever
            return -1
        return int(self.bits.next_set_bit(offset))

    def take(self, count: int) -> OffsetSet:
        """The lowest `count` offsets as a set of their own; this one does not change."""
        if count >= len(self.bits):
            return self.copy()
        return self.within(self.first(), int(self.bits[count]))

    def within(self, start: int, end: int) -> OffsetSet:
        """Those in [start, end)."""
        bits = BitMap64()
        if self.bits:  # the span is cut to what is there, for a bitmap of a huge span would be huge itself
            start, end = max(start, self.first()), min(end, self.last() + 1)
            if end > start:
                bits.add_range(start, end)
                bits &= self.bits
        return OffsetSet(bits)

    def count_within(self, start: int, end: int) -> int:
        return int(self.bits.range_cardinality(start, end)) if end > start else 0

    def is_disjoint(self, other: OffsetSet) -> bool:
        return bool(self.bits.isdisjoint(other.bits))

    def to_array(self) -> array[int]:
        """All offsets, ascending; much faster to walk than the set itself."""
        return self.bits.to_array()

    def to_bytes(self) -> bytes:
        if not self.bits:
            return _NOTHING
        self.bits.run_optimize()
        return bytes(self.bits.serialize())

    @classmethod
    def from_bytes(cls, data: bytes) -> OffsetSet:
        return cls(BitMap64.deserialize(data))

    def __and__(self, other: OffsetSet) -> OffsetSet:
        return OffsetSet(self.bits & other.bits)

    def __or__(self, other: OffsetSet) -> OffsetSet:
        return OffsetSet(self.bits | other.bits)

    def __sub__(self, other: OffsetSet) -> OffsetSet:
        return OffsetSet(self.bits - other.bits)

    def __contains__(self, offset: int) -> bool:
        return offset in self.bits

    def __len__(self) -> int:
        return len(self.bits)

    def __bool__(self) -> bool:
        return bool(self.bits)

    def __iter__(self) -> Iterator[int]:
        return iter(self.bits.to_array())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetSet) and self.bits == other.bits

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(str(offset) for offset in self.take(8))
        return f"OffsetSet({shown}{', …' if len(self) > 8 else ''})"
