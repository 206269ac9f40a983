"""What waits for a checkpoint: when one is due, and when so much waits, or so little room is left, that publishing stops."""

from __future__ import annotations

from collections.abc import Callable

CHECKPOINT_BYTES, CHECKPOINT_COMMITS = 32 << 20, 20_000  # since the last one
BACKLOG_FACTOR = 64  # publishing stops when so many checkpoints' worth has gathered, for none succeeds
FULL_S, FULL_MAX_S = 5.0, 20.0  # for which publishing stops when the database has said that its disk is full


class Backlog:
    def __init__(self, commits_max: int, bytes_max: int, now: Callable[[], float]) -> None:
        self._commits_max = commits_max
        self._bytes_max = bytes_max
        self._now = now
        self.number = 0  # of the last commit
        self.checkpointed = 0  # the last one in a checkpoint
        self.bytes = 0  # of those that followed
        self._full_until = self._full_s = 0.0

    def recovered(self, number: int, checkpointed: int, size: int) -> None:
        """How full the disk is does not change with that."""
        self.number, self.checkpointed, self.bytes = number, checkpointed, size

    def add(self, number: int, size: int) -> None:
        self.number = number
        self.bytes += size

    def contained(self, number: int, size: int) -> None:
        """A checkpoint has those up to that number, and so many bytes of them."""
        self.checkpointed = max(self.checkpointed, number)
        self.bytes = max(0, self.bytes - size)

    @property
    def commits(self) -> int:
        return self.number - self.checkpointed

    @property
    def is_due(self) -> bool:
        return self.commits >= self._commits_max or self.bytes >= self._bytes_max

    # -- room

    def note_full(self) -> None:
        """Whoever is refused makes the queue recover: that is tried ever more rarely."""
        self._full_s = min(max(2 * self._full_s, FULL_S), FULL_MAX_S)
        self._full_until = self._now() + self._full_s

    def note_room(self) -> None:
        self._full_s = self._full_until = 0.0

    def full(self, waits_for: Callable[[], str]) -> str | None:
        """Why nothing more may be published. `waits_for`: what a checkpoint waits for."""
        if self._full_until and self._now() < self._full_until:
            return "the database's disk is full; make room there"
        if self.commits > BACKLOG_FACTOR * self._commits_max or self.bytes > BACKLOG_FACTOR * self._bytes_max:
            return f"{waits_for()}; {self.commits} commits ({self.bytes >> 20} MiB) wait for a checkpoint"
        return None
