"""How much more of the disk may be used. What is kept back: a reserve for acks, and what the next flush and checkpoint will
write, for without them nothing is freed."""

from __future__ import annotations

from .files import Disk

SHORT_FACTOR = 4  # room is short when less than so many reserves are left


class Room:
    def __init__(self, disk: Disk, reserve_bytes: int) -> None:
        self._disk = disk
        self._reserve_bytes = reserve_bytes
        self._unmeasured = reserve_bytes  # written since it was last measured
        self.bytes: int | None = None  # that may be used
        self.checkpoint_bytes = 0  # of the last checkpoint: the next one is written beside it
        self.full: str | None = None  # why nothing more may be published

    @property
    def is_short(self) -> bool:
        """Then it is measured each time, and a checkpoint comes early."""
        return self.full is not None or (self.bytes is not None and self.bytes < SHORT_FACTOR * self._reserve_bytes)

    @property
    def is_stale(self) -> bool:
        return self._unmeasured >= self._reserve_bytes // 8 or self.is_short

    def note_written(self, count: int) -> None:
        self._unmeasured += count

    def measure(self, waiting: int) -> None:
        """`waiting`: bytes that are only in the write-ahead log, and that a flush will write once more."""
        free, kept = self._disk.free_bytes(), self._reserve_bytes + waiting + self.checkpoint_bytes
        self._unmeasured = 0
        self.bytes = max(0, free - kept)
        self.full = None
        if free < kept:
            self.full = f"only {free >> 20} MiB of the disk are free; delete or purge something, or make room"
