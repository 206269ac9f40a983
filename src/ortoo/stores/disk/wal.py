"""The write-ahead log: the only file that is synced for every commit.

It is a row of files named by the number of their first commit. A new one begins at each checkpoint. An old one is never
changed again: messages and history are read from it until they are flushed to files of their own. It goes when a durable
checkpoint needs nothing of it: no log and no history lies there, no open transaction has staged something there, and nothing
quarantined has missed any of it. So what is left of commits that a checkpoint contains may have gaps.

Each frame's head tells which commit was the last known to be synced when it was written. A bad frame before a good one
that knows it to be synced is corruption; a bad frame that nothing later vouches for was never confirmed, and is cut off
together with all behind it: what is not synced may reach the disk in any order. What the disk cannot read is never cut off:
it may have been confirmed, and may be read another day.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ortoo.model.errors import CorruptionError

from .contents import WAL_FILES, list_files
from .files import Disk, File, read_file, read_head
from .frame import (
    COMMIT,
    UNKNOWN,
    BadFrameError,
    Damage,
    Frame,
    Salt,
    Span,
    UnreadableError,
    check_body,
    frame_start,
    scan_frames,
)
from .open_files import FilePool

_SYNCED = struct.Struct("<Q")
SYNCED_BYTES = _SYNCED.size

FOLDER = "wal"


Run = tuple[int, int]  # commits from one number to another, both included


class WalCommit(NamedTuple):
    number: int
    head: bytes
    body: bytes
    flags: int
    position: int


class Body(NamedTuple):
    """Of a commit: what decode_commit takes."""

    number: int
    body: bytes
    flags: int


class WalDamage(NamedTuple):
    """Something in the middle of the log cannot be read. `head` names what it spoke of, where that can be told."""

    path: str
    position: int
    reason: str
    number: int = 0
    head: bytes | None = None
    span: Run | None = None  # the commits that may be in it, where its own number cannot be told, but the next one's


def file_name(first: int) -> str:
    return f"{FOLDER}/{first:020d}.wal"


def list_wal(disk: Disk) -> list[int]:
    """The first commit number of each file."""
    return [int(name.removesuffix(".wal")) for name in list_files(disk, FOLDER, WAL_FILES)]


def reaches(files: Sequence[int], after: int) -> bool:
    """Whether the commits after that number have a file. A checkpoint begins one for those that follow it, before it counts."""
    return bool(files) and files[-1] > after


def _is_bad(item: Frame | Damage) -> bool:
    return isinstance(item, Damage) or item.body is None


def scan_commits(data: bytes, holes: Sequence[Span] = (), salt: Salt = UNKNOWN) -> list[Frame | Damage]:
    """As scan_frames; a good frame that is no commit is out of place, too."""
    return [
        Damage(item.position, item.position + item.fixed.size, "this frame is not a commit")
        if isinstance(item, Frame) and (item.fixed.kind != COMMIT or len(item.head) < _SYNCED.size)
        else item
        for item in scan_frames(data, holes, salt)
    ]


def without_torn_end(found: list[Frame | Damage], number: int) -> list[Frame | Damage]:
    """What lies before the first bad frame that nothing later vouches for. `number`: of the file's first commit."""
    vouched = [_SYNCED.unpack_from(item.head)[0] if isinstance(item, Frame) else 0 for item in found]
    for at, item in enumerate(found):
        if isinstance(item, Frame):
            number = max(number, item.fixed.number)
        if _is_bad(item) and not item.is_unreadable and max(vouched[at + 1 :], default=0) < number:
            return found[:at]
        number += isinstance(item, Frame)
    return found


def read_commits(disk: Disk, first: int) -> Iterator[Body]:
    """Each commit in the file that can be read, one after the other: one at a time is in memory."""
    return (commit for _, commit in located_commits(disk, first))


def located_commits(disk: Disk, first: int) -> Iterator[tuple[int, Body]]:
    """The same, each with where its body begins in the file. Numbers ascend: what is damaged may hold a message with bytes of
    this very directory, and so an earlier commit."""
    last = first - 1
    for begin, commit in _commits_in(disk, file_name(first)):
        if commit.number > last:
            last = commit.number
            yield begin, commit


def _commits_in(disk: Disk, path: str) -> Iterator[tuple[int, Body]]:
    position = 0
    try:
        file = disk.open(path)
    except UnreadableError:
        return
    try:
        while position < file.size():
            fixed, _ = read_head(file, position)
            body = file.read(position + fixed.body_at, fixed.body_size)
            check_body(fixed, body)
            if fixed.kind == COMMIT:
                yield position + fixed.body_at, Body(fixed.number, body, fixed.flags)
            position += fixed.size
    except BadFrameError:  # what lies behind the damage is worth having
        for item in scan_commits(*read_file(disk, path)):
            if isinstance(item, Frame) and item.body is not None and item.position > position:
                yield item.position + item.fixed.body_at, Body(item.fixed.number, item.body, item.fixed.flags)
    finally:
        file.close()


class Wal:
    """`on_sync_failure` is told of every sync that fails, of a file or of the folder. Nothing is synced a second time after
    that: the system may have forgotten what it failed to write."""

    def __init__(
        self, disk: Disk, on_sync_failure: Callable[[OSError], Any] = lambda _: None, pool: FilePool | None = None
    ) -> None:
        self._disk = disk
        self._pool = pool or FilePool(disk)
        self._on_sync_failure = on_sync_failure
        self._file: File | None = None
        self.files: list[int] = []  # first commit number of each
        self.sizes: dict[int, int] = {}  # bytes of each
        self._lasts: dict[
            int, int
        ] = {}  # the number of the last commit in each, once nothing is written to it any more
        self.next_number = 1
        self.bytes_since_rotation = 0
        self.bytes_total = 0  # of commits after the checkpoint that was recovered
        self.bytes_written = 0  # of them, those that a later checkpoint contains
        self.torn: str | None = None  # what recovery had to cut off
        self.position = 0  # where the last commit begins in its file
        self.last_size = 0  # bytes of the last commit
        self._size = 0  # of the file that is written
        self._synced = 0

    def find(self, after: int, kept: Sequence[Run] = ()) -> None:
        """Looks which files there are. CorruptionError when commits that should follow `after`, or those `kept`, are in none."""
        self._disk.make_dir(FOLDER)
        self.files = list_wal(self._disk)
        if not reaches(self.files, after):  # new commits would get numbers that the checkpoint contains
            raise CorruptionError(
                f"{file_name(after + 1)} and all later files of the write-ahead log are missing; restore them, or a backup"
            )
        needed = min([after + 1, *(first for first, _ in kept)])
        if self.files[0] > needed:
            raise CorruptionError(
                f"{file_name(self.files[0])} is the first of the write-ahead log, but commits from {needed} on are "
                "needed; a file before it, or the checkpoint, is missing: restore it"
            )
        self.trim(after, kept)  # trimmed before, but the removal was not durable yet

    def recover(self, after: int, kept: Sequence[Run] = ()) -> Iterator[WalCommit | WalDamage]:
        """The commits with numbers above `after`, and those `kept`, in order. A torn tail is cut; damage before good frames
        is reported."""
        self.next_number = self.files[0] if self.files else after + 1
        path, size = "", 0
        for index, first in enumerate(self.files):
            if first != self.next_number and not is_needless(self.next_number, first - 1, after, kept):
                yield WalDamage(path, size, f"commits {self.next_number} to {first - 1} are missing")
            path, self.next_number = file_name(first), first
            content = read_file(self._disk, path)
            found, size = scan_commits(*content), len(content.data)
            self.sizes[first] = size
            if index == len(self.files) - 1:
                found = self._cut_tail(path, found, first)
            following = self.files[index + 1] if index + 1 < len(self.files) else None
            yield from self._read(path, found, following, after, kept)
            self._lasts[first] = self.next_number - 1
        if self.files:  # a process that was killed may have left its last words in the page cache only
            file = self._disk.open(file_name(self.files[-1]))
            self._durably(file.sync)
            file.close()
        self._synced = self.next_number - 1

    def kept_commits(self, after: int, kept: Sequence[Run]) -> Iterator[Body]:
        """Those up to `after` that are kept and can be read. Changes nothing, and tells of no damage."""
        for first in self.files:
            if first > after or not any(start <= self.last_of(first) and first <= end for start, end in kept):
                continue
            for commit in read_commits(self._disk, first):
                if commit.number <= after:
                    yield commit

    def _cut_tail(self, path: str, found: list[Frame | Damage], number: int) -> list[Frame | Damage]:
        """Cuts the file where its torn end begins."""
        whole = without_torn_end(found, number)
        if len(whole) < len(found):
            file, position = self._disk.open(path), found[len(whole)].position
            self.torn = f"{file.size() - position} bytes at the end of {path} were never confirmed, and are cut off"
            file.truncate(position)
            self._durably(file.sync)
            file.close()
        return whole

    def _is_nameless(self, item: Frame | Damage) -> bool:
        """Whether it does not tell its number. What has that of an earlier commit lies in a message, which may hold bytes of
        this very directory: it is part of the damage before it."""
        return isinstance(item, Damage) or item.fixed.number < self.next_number

    def _read(
        self, path: str, found: list[Frame | Damage], following: int | None, after: int, kept: Sequence[Run]
    ) -> Iterator[WalCommit | WalDamage]:
        """`following`: the first commit of the next file."""
        for at, item in enumerate(found):
            if self._is_nameless(item):
                known = (one.fixed.number for one in found[at + 1 :] if not self._is_nameless(one))  # type: ignore[union-attr]
                end = next(known, following)
                span = None if end is None else (self.next_number, end - 1)
                reason = item.reason if isinstance(item, Damage) else f"commit {item.fixed.number} is not in its place"
                yield WalDamage(path, item.position, reason, span=span)
                if at == len(found) - 1:
                    self.next_number = following or self.next_number
                continue
            assert isinstance(item, Frame)
            number, head = item.fixed.number, item.head[_SYNCED.size :]
            if number != self.next_number:
                reason = f"commit {self.next_number} should come next, not {number}"
                yield WalDamage(path, item.position, reason, span=(self.next_number, number - 1))
            self.next_number = number + 1
            if item.body is None:
                yield WalDamage(path, item.position, item.reason, number, head)
            elif number > after:
                self.bytes_total += item.fixed.size
                yield WalCommit(number, head, item.body, item.fixed.flags, item.position)
            elif not is_needless(number, number, after, kept):
                yield WalCommit(number, head, item.body, item.fixed.flags, item.position)

    def rotate(self) -> None:
        """The next commit begins a new file. When that fails, the one before goes on."""
        self.sync()  # so that only the last file can have a torn end
        file = self._disk.open(file_name(self.next_number))
        try:
            self._durably(lambda: self._disk.sync_dir(FOLDER))
        except BaseException:
            file.close()
            raise
        before, self._file = self._file, file
        if before is not None:
            before.close()
            self._lasts[self.files[-1]] = self.next_number - 1
        self._lasts.pop(self.next_number, None)  # an empty file goes on
        if not self.files or self.files[-1] != self.next_number:
            self.files.append(self.next_number)
        self._size = self.sizes[self.next_number] = file.size()
        self.bytes_since_rotation = 0

    def append(self, head: bytes, body: bytes, flags: int) -> int:
        """Writes one commit, and returns its number. It is durable after `sync`."""
        assert self._file is not None
        number, head = self.next_number, _SYNCED.pack(self._synced) + head
        start = frame_start(COMMIT, number, head, body, flags, salt=self._disk.salt.value)
        self._file.append(start + head, body)
        self.next_number += 1
        self.position, self.last_size = self._size, len(start) + len(head) + len(body)
        self._size += self.last_size
        self.sizes[self.files[-1]] = self._size
        self.bytes_since_rotation += self.last_size
        self.bytes_total += self.last_size
        return number

    def read(self, number: int, position: int) -> tuple[Body, int]:
        """A commit that is needed still, and where its body begins in the file. CorruptionError when it is missing or damaged."""
        path = self.path_of(number)
        try:
            with self._pool.use(path) as file:
                fixed, _ = read_head(file, position)
                body = file.read(position + fixed.body_at, fixed.body_size)
            check_body(fixed, body)
            if (fixed.kind, fixed.number) != (COMMIT, number):
                raise BadFrameError(f"commit {number} is not here")
        except BadFrameError as error:
            raise CorruptionError(f"{path} is damaged at byte {position}: {error.reason}") from None
        return Body(number, body, fixed.flags), position + fixed.body_at

    def read_part(self, number: int, start: int, size: int) -> bytes:
        """Some of the file that has that commit, unchecked."""
        try:
            with self._pool.use(self.path_of(number)) as file:
                return file.read(start, size)
        except BadFrameError as error:
            raise CorruptionError(f"{self.path_of(number)} is damaged at byte {start}: {error.reason}") from None

    def path_of(self, number: int) -> str:
        """Of the file that has that commit, or had it."""
        files = list(self.files)
        return file_name(files[max(0, bisect_right(files, number) - 1)] if files else number)

    @property
    def bytes_unwritten(self) -> int:
        """Of commits that no durable checkpoint contains."""
        return self.bytes_total - self.bytes_written

    @property
    def is_synced(self) -> bool:
        return self._synced >= self.next_number - 1

    def sync(self) -> None:
        if self._file is not None and not self.is_synced:
            upto = self.next_number - 1
            self._durably(self._file.sync)
            self.synced(upto)

    @property
    def descriptor(self) -> int | None:
        """Of the file that is written; None where the disk is no real one."""
        return None if self._file is None else self._file.descriptor

    def synced(self, number: int) -> None:
        """All up to that commit is on the disk."""
        self._synced = max(self._synced, number)

    def sync_failed(self, error: OSError) -> None:
        self._on_sync_failure(error)

    def _durably(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError as error:
            self.sync_failed(error)
            raise

    def trim(self, upto: int, kept: Sequence[Run] = ()) -> None:
        """Removes files that hold only commits up to that number, and none of those `kept`."""
        for first, after in list(pairwise(self.files)):
            if is_needless(first, after - 1, upto, kept):
                self._pool.close(file_name(first))
                self._disk.remove(file_name(first))
                self.files.remove(first)
                self.sizes.pop(first, None)
                self._lasts.pop(first, None)

    def count_after(self, number: int) -> int:
        """How many files begin after that commit."""
        return len(self.files) - bisect_right(self.files, number)

    def bytes_after(self, number: int) -> int:
        """Of the files that have commits after that number."""
        return sum([self.sizes.get(first, 0) for first in self.files if self.last_of(first) > number])

    def last_of(self, first: int) -> int:
        """The number of the last commit in the file with that first one; as long as nothing was read yet, at the most."""
        if first in self._lasts:
            return self._lasts[first]
        which = bisect_right(self.files, first)
        return (self.files[which] if which < len(self.files) else self.next_number) - 1

    def close(self) -> None:
        self._pool.close_under(FOLDER)
        file, self._file = self._file, None
        if file is not None:
            file.close()


def is_needless(first: int, last: int, upto: int, kept: Sequence[Run]) -> bool:
    """Whether a checkpoint with commits up to that number, and those `kept`, can do without these."""
    return last <= upto and not any(first <= end and start <= last for start, end in kept)
