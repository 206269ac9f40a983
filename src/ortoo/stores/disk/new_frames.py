"""Frames of messages that are to be written to a segment: of what lies in the write-ahead log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from .codec import seal_messages
from .crypto import KeyRing, Sealed
from .logged import LoggedPublish, in_frames

FRAME_MESSAGES, FRAME_BYTES = 4_096, 1 << 20


class NewFrame(NamedTuple):
    """That is to be written: its bytes, its first message, how many it has, when the first was published, how it is encrypted."""

    data: bytes
    base: int
    messages: int
    time: int
    sealed: Sealed | None


def new_frames(records: Iterable[LoggedPublish], ring: KeyRing | None, salt: int) -> Iterator[NewFrame]:
    for stretch in _in_stretches(records):
        first = stretch[0]
        data, sealed = seal_messages(stretch, ring, salt)
        yield NewFrame(data, first.base, stretch[-1].end - first.base, first.at, sealed)


def _in_stretches(records: Iterable[LoggedPublish]) -> Iterator[list[LoggedPublish]]:
    """What becomes one frame each."""
    stretch: list[LoggedPublish] = []
    count = size = 0
    for record in chain.from_iterable(in_frames(record, FRAME_MESSAGES, FRAME_BYTES) for record in records):
        if stretch and (count >= FRAME_MESSAGES or size >= FRAME_BYTES or stretch[-1].end != record.base):
            yield stretch
            stretch, count, size = [], 0, 0
        stretch.append(record)
        count, size = count + record.count, size + record.size
    if stretch:
        yield stretch
