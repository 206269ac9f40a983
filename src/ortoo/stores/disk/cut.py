"""A checkpoint in the making: everything as of one commit, held still while it is written beside the commits that follow.

Whatever is trimmed, deleted or changed meanwhile is no part of it. So where each log begins and which topic is encrypted is
settled when the cut is taken, and files go only when a durable checkpoint does not name them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from ortoo.model.names import TopicId

from .blocks import Blocks
from .catalog import Catalog, lowest_logged
from .checkpoint import Checkpoint, Manifest, TopicEntry
from .crypto import KeyRing, Secret
from .history import DiskHistory, HistoryEntry
from .log import DiskLog, LogEntry
from .quarantine import Behind
from .wal import Run, Wal


class Cut(NamedTuple):
    number: int
    snapshot: bytes
    at: int
    logs: list[tuple[DiskLog, int, KeyRing | None]]  # with its start
    histories: list[tuple[DiskHistory, int, KeyRing | None]]  # with the start of its log
    unreadable: list[LogEntry]
    transactions: list[tuple[str, str, int]]
    topics: list[TopicEntry]
    behind: list[Behind]
    secrets: list[Secret]
    staged: list[Run]
    doomed: list[str]
    frees: bool
    bytes: int  # how many the write-ahead log had got

    def lowest_logged(self) -> int | None:
        """The first commit in the write-ahead log that has messages or history which can be flushed."""
        return lowest_logged([(log, start) for log, start, _ in self.logs], [one for one, _, _ in self.histories])

    def logged(self, wal: Wal) -> list[Run]:
        """The commits which may have messages or history that no file has: those that can be flushed, and those of each log and
        history that cannot. A run for each file there is, for those between may be gone."""
        lowest = self.lowest_logged()
        files = [(first, min(wal.last_of(first), self.number)) for first in wal.files]
        runs = {(max(lowest, first), last) for first, last in files if lowest is not None and lowest <= last}
        stuck = [log.blocks.numbers for log, _, _ in self.logs if log.is_stuck]
        stuck += [one.blocks.numbers for one, _, _ in self.histories if one.is_stuck]
        stuck += [Blocks(entry.blocks).numbers for entry in self.unreadable]
        for numbers in stuck:
            for first, last in files:
                at, after = bisect_left(numbers, first), bisect_right(numbers, last)
                if at < after:
                    runs.add((numbers[at], numbers[after - 1]))
        return sorted(run for run in runs if run[0] <= run[1])

    def checkpoint(self, logs: list[LogEntry], histories: list[HistoryEntry], logged: list[Run]) -> Checkpoint:
        """With what each log and history is by now, and the commits where they lie."""
        manifest = Manifest(
            self.at,
            self.topics,
            logs + self.unreadable,
            histories,
            self.transactions,
            self.behind,
            self.secrets,
            self.staged,
            logged,
        )
        return Checkpoint(self.number, manifest, self.snapshot)

    def give_back(self, catalog: Catalog) -> None:
        """It failed: the next one has to free what this one did not."""
        catalog.doomed = self.doomed + catalog.doomed
        catalog.frees = catalog.frees or self.frees


def take_cut(
    catalog: Catalog,
    ring: KeyRing,
    number: int,
    written: int,
    snapshot: bytes,
    at: int,
    secrets: Mapping[TopicId, bytes],
    staged: list[Run],
) -> Cut:
    starts = {place: log.start for place, log in catalog.logs.items()}
    cut = Cut(
        number,
        snapshot,
        at,
        [
            (log, log.start, catalog.ring_of(log.topic, ring))
            for place, log in catalog.logs.items()
            if place not in catalog.unreadable and log.topic in catalog.configs
        ],
        [
            (history, starts.get(place, 0), catalog.ring_of(history.topic, ring))
            for place, history in catalog.histories.items()
            if history.topic in catalog.configs
        ],
        list(catalog.unreadable.values()),
        [(namespace, name, begun) for (namespace, name), begun in catalog.transactions.items()],
        [TopicEntry(topic, *catalog.names[topic], config) for topic, config in catalog.configs.items()],
        catalog.quarantine.behind(),
        catalog.keep_secrets(secrets, ring),
        staged,
        catalog.doomed,
        catalog.frees,
        written,
    )
    catalog.doomed, catalog.frees = [], False
    return cut
