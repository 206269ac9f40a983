"""The records in the write-ahead log that can be read, whatever lies between them."""

from __future__ import annotations

from collections.abc import Iterator

from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.records import Record

from .commit import decode_commit
from .crypto import KeyRing
from .files import Disk, read_file
from .frame import Frame
from .wal import file_name, list_wal, scan_commits


def legible_records(disk: Disk, ring: KeyRing) -> Iterator[tuple[int, Record]]:
    """(number of its commit, record) of each, in order. What is damaged, or has no key, is passed over without a word: this is
    for those who look for something, not for those who tell what is there."""
    for first in list_wal(disk):
        for item in scan_commits(*read_file(disk, file_name(first))):
            if isinstance(item, Frame) and item.body is not None:
                for record in _records(item.fixed.number, item.body, item.fixed.flags, ring):
                    yield item.fixed.number, record


def _records(number: int, body: bytes, flags: int, ring: KeyRing) -> Iterator[Record]:
    try:
        for _, records in decode_commit(number, body, flags, ring):
            if not isinstance(records, OrtooError):
                yield from records
    except CorruptionError:
        return
