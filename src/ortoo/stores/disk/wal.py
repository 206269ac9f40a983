"""The write-ahead log: the only file that is synced for every commit.

It is a row of files named by the number of their first commit. A new one begins at each checkpoint; the old ones go when
the checkpoint is durable, and no open transaction was staged in them.

Each frame's head tells which commit was the last known to be synced when it was written. A bad frame before a good one
that knows it to be synced is corruption; a bad frame that nothing later vouches for was never confirmed, and is cut off
together with all behind it: what is not synced may reach the disk in any order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ortoo.model.errors import CorruptionError

from .files import Disk, File
from .frame import COMMIT, Damage, Frame, encode_frame, scan_frames

_SYNCED = struct.Struct("<Q")

FOLDER = "wal"


class WalCommit(NamedTuple):
    number: int
    head: bytes
    body: bytes


class WalDamage(NamedTuple):
    """Something in the middle of the log cannot be read. `head` names what it spoke of, where that can be told."""

    path: str
    position: int
    reason: str
    number: int = 0
    head: bytes | None = None


def file_name(first: int) -> str:
    return f"{FOLDER}/{first:020d}.wal"


def _is_bad(item: Frame | Damage) -> bool:
    return isinstance(item, Damage) or item.body is None


def scan_commits(data: bytes) -> list[Frame | Damage]:
    """As scan_frames; a good frame that is no commit is out of place, too."""
    return [
        Damage(item.position, item.position + item.fixed.size, "this frame is not a commit")
        if isinstance(item, Frame) and (item.fixed.kind != COMMIT or len(item.head) < _SYNCED.size)
        else item
        for item in scan_frames(data)
    ]


def without_torn_end(found: list[Frame | Damage], number: int) -> list[Frame | Damage]:
    """What lies before the first bad frame that nothing later vouches for. `number`: of the file's first commit."""
    vouched = [_SYNCED.unpack_from(item.head)[0] if isinstance(item, Frame) else 0 for item in found]
    for at, item in enumerate(found):
        if isinstance(item, Frame):
            number = max(number, item.fixed.number)
        if _is_bad(item) and max(vouched[at + 1 :], default=0) < number:
            return found[:at]
        number += isinstance(item, Frame)
    return found


class Wal:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._file: File | None = None
        self.files: list[int] = []  # first commit number of each
        self.next_number = 1
        self.bytes_since_rotation = 0
        self._synced = 0

    def find(self, after: int) -> None:
        """Looks which files there are. CorruptionError when commits that should follow `after` are in none of them."""
        self._disk.make_dir(FOLDER)
        stems = [name.removesuffix(".wal") for name in self._disk.list(FOLDER) if name.endswith(".wal")]
        self.files = [int(stem) for stem in stems if stem.isdigit()]
        while len(self.files) > 1 and self.files[1] <= after + 1:  # trimmed before, but the removal was not durable yet
            self._disk.remove(file_name(self.files.pop(0)))
        if self.files and self.files[0] > after + 1:
            raise CorruptionError(
                f"{file_name(self.files[0])} is the first of the write-ahead log, but commits from {after + 1} on are "
                "needed; a file before it, or the checkpoint, is missing: restore it"
            )
        if not self.files and (after > 0 or self._disk.list("logs")):
            raise CorruptionError(f"{file_name(after + 1)} and all later files of the write-ahead log are missing")

    def recover(self, after: int) -> Iterator[WalCommit | WalDamage]:
        """The commits with numbers above `after`, in order. A torn tail is cut; damage before good frames is reported."""
        self.next_number = self.files[0] if self.files else after + 1
        path, size = "", 0
        for index, first in enumerate(self.files):
            if first != self.next_number:
                yield WalDamage(path, size, f"commits {self.next_number} to {first - 1} are missing")
            path, self.next_number = file_name(first), first
            data = self._disk.read(path)
            found, size = scan_commits(data), len(data)
            if index == len(self.files) - 1:
                found = self._cut_tail(path, found, first)
            yield from self._read(path, found, after)
        if self.files:  # a process that was killed may have left its last words in the page cache only
            file = self._disk.open(file_name(self.files[-1]))
            file.sync()
            file.close()
        self._synced = self.next_number - 1

    def _cut_tail(self, path: str, found: list[Frame | Damage], number: int) -> list[Frame | Damage]:
        """Cuts the file where its torn end begins."""
        whole = without_torn_end(found, number)
        if len(whole) < len(found):
            file = self._disk.open(path)
            file.truncate(found[len(whole)].position)
            file.sync()
            file.close()
        return whole

    def _read(self, path: str, found: list[Frame | Damage], after: int) -> Iterator[WalCommit | WalDamage]:
        for item in found:
            if isinstance(item, Damage):
                yield WalDamage(path, item.position, item.reason)
                continue
            number, head = item.fixed.number, item.head[_SYNCED.size :]
            if number != self.next_number:
                yield WalDamage(path, item.position, f"commit {self.next_number} should come next, not {number}")
            self.next_number = number + 1
            if item.body is None:
                yield WalDamage(path, item.position, "the checksum of the commit does not match", number, head)
            elif number > after:
                yield WalCommit(number, head, item.body)

    def rotate(self) -> None:
        """The next commit begins a new file."""
        if self._file is not None:
            self.sync()  # so that only the last file can have a torn end
            self._file.close()
        self._file = self._disk.open(file_name(self.next_number))
        self._disk.sync_dir(FOLDER)
        if not self.files or self.files[-1] != self.next_number:
            self.files.append(self.next_number)
        self.bytes_since_rotation = 0

    def append(self, head: bytes, body: bytes) -> int:
        """Writes one commit and returns its number. It is durable after `sync`."""
        assert self._file is not None
        number = self.next_number
        data = encode_frame(COMMIT, number, _SYNCED.pack(self._synced) + head, body)
        self._file.append(data)
        self.next_number += 1
        self.bytes_since_rotation += len(data)
        return number

    @property
    def is_synced(self) -> bool:
        return self._synced >= self.next_number - 1

    def sync(self) -> None:
        if self._file is not None and not self.is_synced:
            upto = self.next_number - 1
            self._file.sync()
            self._synced = upto

    def trim(self, upto: int) -> None:
        """Removes files that hold only commits up to that number."""
        while len(self.files) > 1 and self.files[1] <= upto + 1:
            self._disk.remove(file_name(self.files.pop(0)))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
