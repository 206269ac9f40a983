"""What open transactions staged: where in the write-ahead log it lies, and how it is read from there.

The write-ahead log is kept from the commit on that began the oldest open transaction, so what was staged need not be anywhere
else: 16 bytes a batch are kept in memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from ortoo.model.errors import OrtooError
from ortoo.model.records import Record, Staged, TransactionBegan, TransactionEnded

from .commit import decode_commit
from .crypto import KeyRing
from .wal import Wal

Name = tuple[str, str]


class _Places(NamedTuple):
    """Of each batch the number of its commit, and where that begins in its file."""

    numbers: array[int]
    positions: array[int]


class StagedIndex:
    def __init__(self) -> None:
        self._places: dict[Name, _Places] = {}

    def absorb(self, record: Record, number: int, position: int) -> None:
        if isinstance(record, TransactionBegan):
            self._places[record.namespace, record.transaction] = _Places(array("Q"), array("Q"))
        elif isinstance(record, TransactionEnded):
            self._places.pop((record.namespace, record.transaction), None)
        elif isinstance(record, Staged):
            name = (record.namespace, record.transaction)
            places = self._places.setdefault(name, _Places(array("Q"), array("Q")))  # began before the checkpoint
            places.numbers.append(number)
            places.positions.append(position)

    def read(self, name: Name, start: int, bytes_max: int, wal: Wal, ring: KeyRing) -> list[Staged]:
        """From that batch on, whole commits, until there are so many bytes."""
        found: list[Staged] = []
        places = self._places.get(name)
        while places is not None and start < len(places.numbers) and bytes_max > 0:
            number = places.numbers[start]
            body = wal.read(number, places.positions[start])
            first, after = bisect_left(places.numbers, number), bisect_right(places.numbers, number)
            records = _staged(number, body, name, ring)[first - after :]
            found += records[start - first :]
            start = after
            bytes_max -= len(body)
        return found


def _staged(number: int, body: bytes, name: Name, ring: KeyRing) -> list[Staged]:
    found: list[Staged] = []
    for _, records in decode_commit(number, body, ring):
        if isinstance(records, OrtooError):
            raise records
        found += [one for one in records if isinstance(one, Staged) and (one.namespace, one.transaction) == name]
    return found
