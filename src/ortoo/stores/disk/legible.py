"""The records in the write-ahead log that can be read, whatever lies between them."""

from __future__ import annotations

from collections.abc import Iterator

from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.records import Record

from .commit import decode_commit
from .crypto import KeyRing
from .files import Disk
from .wal import Body, list_wal, read_commits


def legible_records(disk: Disk, ring: KeyRing) -> Iterator[tuple[int, Record]]:
    """(number of its commit, record) of each, in order. What is damaged, or has no key, is passed over without a word: this is
    for those who look for something, not for those who tell what is there."""
    for first in list_wal(disk):
        for commit in read_commits(disk, first):
            for record in _records(commit, ring):
                yield commit.number, record


def _records(commit: Body, ring: KeyRing) -> Iterator[Record]:
    try:
        for _, records in decode_commit(*commit, ring):
            if not isinstance(records, OrtooError):
                yield from records
    except CorruptionError:
        return
