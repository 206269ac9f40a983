"""What open transactions staged: where in the write-ahead log it lies, and how it is read from there.

The files of the write-ahead log that have such batches are kept, so what was staged need not be anywhere else: 16 bytes a batch
are kept in memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ortoo.model.errors import OrtooError, UnavailableError
from ortoo.model.records import Record, Staged, TransactionBegan, TransactionEnded

from .commit import decode_commit
from .crypto import KeyRing
from .wal import Body, Run, Wal

Name = tuple[str, str]


class _Places(NamedTuple):
    """Of each batch the number of its commit, and where that begins in its file."""

    numbers: array[int]
    positions: array[int]
    lost: array[int]  # commits that cannot be decrypted, and may have staged something


def _nowhere() -> _Places:
    return _Places(array("Q"), array("Q"), array("Q"))


class StagedIndex:
    def __init__(self) -> None:
        self._places: dict[Name, _Places] = {}

    def absorb(self, record: Record, number: int, position: int) -> None:
        if isinstance(record, TransactionBegan):
            self._places.setdefault(
                (record.namespace, record.transaction), _nowhere()
            )  # its commit may be known as lost
        elif isinstance(record, TransactionEnded):
            self._places.pop((record.namespace, record.transaction), None)
        elif isinstance(record, Staged):
            name = (record.namespace, record.transaction)
            places = self._places.setdefault(name, _nowhere())  # began before the checkpoint
            places.numbers.append(number)
            places.positions.append(position)

    def lose(self, names: Iterable[Name], number: int) -> None:
        """How many batches of these that commit has cannot be told, nor which numbers those behind them have."""
        for name in names:
            self._places.setdefault(name, _nowhere()).lost.append(number)

    def needed(self, files: Sequence[int]) -> list[Run]:
        """The commits with what was staged: a run for each file, which is named by its first commit."""
        runs: dict[int, Run] = {}
        for numbers in [numbers for places in self._places.values() for numbers in (places.numbers, places.lost)]:
            at = 0
            while at < len(numbers):
                first, which = numbers[at], bisect_right(files, numbers[at])
                at = bisect_left(numbers, files[which]) if which < len(files) else len(numbers)
                lowest, highest = runs.get(which, (first, first))
                runs[which] = (min(first, lowest), max(numbers[at - 1], highest))
        return [run for _, run in sorted(runs.items())]

    def read(self, name: Name, start: int, bytes_max: int, wal: Wal, ring: KeyRing) -> list[Staged]:
        """From that batch on, whole commits, until there are so many bytes."""
        found: list[Staged] = []
        places = self._places.get(name)
        if places is not None and places.lost:
            raise UnavailableError(f"commit {places.lost[0]}, which may have staged some of it, cannot be decrypted")
        while places is not None and start < len(places.numbers) and bytes_max > 0:
            number = places.numbers[start]
            commit, _ = wal.read(number, places.positions[start])
            first, after = bisect_left(places.numbers, number), bisect_right(places.numbers, number)
            records = _staged(commit, name, ring)[first - after :]
            found += records[start - first :]
            start = after
            bytes_max -= len(commit.body)
        return found


def _staged(commit: Body, name: Name, ring: KeyRing) -> list[Staged]:
    found: list[Staged] = []
    for _, records in decode_commit(*commit, ring):
        if isinstance(records, OrtooError):
            raise records
        found += [one for one in records if isinstance(one, Staged) and (one.namespace, one.transaction) == name]
    return found
