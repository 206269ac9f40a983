"""What the store holds in memory: the topics it knows, their logs and histories, and the transactions that are open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortoo.model import records as r
from ortoo.model.names import TopicId
from ortoo.stores.known_topics import KnownTopics

from .crypto import KeyRing, Secret
from .files import Disk
from .history import DiskHistory
from .log import DiskLog, LogEntry, Shared
from .logged import CommitReader
from .open_files import FilePool
from .quarantine import Quarantine
from .staged import StagedIndex

Place = tuple[TopicId, int]


class Catalog(KnownTopics):
    def __init__(
        self,
        disk: Disk,
        files: FilePool | None = None,
        commits: CommitReader | None = None,
        recent_bytes: int | None = None,
    ) -> None:
        """`commits`: reads what lies in the write-ahead log, where there is one. `recent_bytes`: of messages that are kept in
        memory when they are published."""
        super().__init__()
        self._disk = disk
        self._commits = commits
        self._shared = Shared(disk, files, commits, recent_bytes)
        self.logs: dict[Place, DiskLog] = {}
        self.histories: dict[Place, DiskHistory] = {}
        self.transactions: dict[tuple[str, str], int] = {}  # open ones, and the commit that began them
        self.staged = StagedIndex()
        self.doomed: list[str] = []  # folders of deleted topics, to go with the next checkpoint
        self.frees = False  # something was trimmed or deleted: a checkpoint makes room
        self.quarantine = Quarantine()
        self.secrets: dict[TopicId, Secret] = {}  # as the checkpoint has them
        self.unreadable: dict[Place, LogEntry] = {}  # logs that could not be loaded: their files stay as they are

    def absorb(self, record: r.Record, number: int, position: int = 0) -> None:
        """What a durable record means to the store. `position`: of its commit, in a file of the write-ahead log."""
        self.learn(record)
        if isinstance(record, r.Published):
            self.log(record.topic, record.partition).append(record, number, position)
        elif isinstance(record, r.HISTORY_RECORDS):
            self.history(record.topic, record.partition).note(record, number, position)
        elif isinstance(record, r.Trimmed):
            self.frees = True
            self.log(record.topic, record.partition).trim(record.start)
        elif isinstance(record, r.TopicPurged):
            self.frees = True
            for log in self.logs_of(record.topic):
                log.trim(log.end)
        elif isinstance(record, r.TopicDeleted):
            self.frees = True
            self._forget_topic(record.topic)
        elif isinstance(record, r.TransactionBegan | r.Staged | r.TransactionEnded):
            self._follow_transaction(record, number, position)

    def _follow_transaction(
        self, record: r.TransactionBegan | r.Staged | r.TransactionEnded, number: int, position: int
    ) -> None:
        name = (record.namespace, record.transaction)
        if isinstance(record, r.TransactionBegan):
            self.transactions[name] = number
        elif isinstance(record, r.TransactionEnded):
            self.frees = True
            self.transactions.pop(name, None)
        self.staged.absorb(record, number, position)

    def _forget_topic(self, topic: TopicId) -> None:
        for log in self.logs_of(topic):
            log.close()
            del self.logs[topic, log.partition]
        for place in [place for place in self.histories if place[0] == topic]:
            del self.histories[place]
        self.unreadable = {place: entry for place, entry in self.unreadable.items() if place[0] != topic}
        self.configs.pop(topic, None)
        self.names.pop(topic, None)
        self.secrets.pop(topic, None)
        self.quarantine.forget(topic)
        self.doomed += [f"logs/{topic}/", f"history/{topic}/"]

    def cannot_load(self, entry: LogEntry) -> None:
        place = (entry.topic, entry.partition)
        self.logs.pop(place).close()
        self.unreadable[place] = entry

    def keep_secrets(self, secrets: Mapping[TopicId, bytes], ring: KeyRing) -> list[Secret]:
        """Those of a topic that is quarantined as a whole stay as they are: nobody may have been able to read them."""
        held = self.quarantine.whole_topics
        kept = {topic: secret for topic, secret in self.secrets.items() if topic in held}
        new = {
            topic: Secret(topic, *ring.seal(data, Secret.context(topic)))
            for topic, data in secrets.items()
            if topic not in held and ring.current is not None
        }
        self.secrets = kept | new
        return list(self.secrets.values())

    def ring_of(self, topic: TopicId, ring: KeyRing) -> KeyRing | None:
        """The ring, when the topic is encrypted."""
        return ring if self.is_secret(topic) else None

    def log(self, topic: TopicId, partition: int) -> DiskLog:
        """Made if there is none. For those who write: who reads looks in `logs`, for the topic may be deleted by then."""
        log = self.logs.get((topic, partition))
        if log is None:
            log = self.logs[topic, partition] = DiskLog(self._disk, topic, partition, self._shared)
        return log

    def logs_of(self, topic: TopicId) -> list[DiskLog]:
        return [log for (owner, _), log in self.logs.items() if owner == topic]

    def history(self, topic: TopicId, partition: int) -> DiskHistory:
        """As `log`."""
        history = self.histories.get((topic, partition))
        if history is None:
            history = self.histories[topic, partition] = DiskHistory(self._disk, topic, partition, self._commits)
        return history

    def close_files(self, folder: str = "") -> None:
        """Of that folder, or all. What is removed keeps its place on the disk as long as it is open."""
        self._shared.files.close_under(folder)

    def lowest_logged(self) -> int | None:
        """The first commit in the write-ahead log that has messages or history which can be flushed."""
        return lowest_logged([(log, log.start) for log in self.logs.values()], self.histories.values())

    def count_blocks(self) -> int:
        """How many places in the write-ahead log are known."""
        logs = sum([len(log.blocks) for log in self.logs.values()])
        return logs + sum([len(history.blocks) for history in self.histories.values()])


def lowest_logged(logs: Iterable[tuple[DiskLog, int]], histories: Iterable[DiskHistory]) -> int | None:
    """Of logs with where each begins."""
    firsts = [log.first_logged(start) for log, start in logs if len(log.blocks) and not log.is_stuck]
    firsts += [history.blocks.numbers[0] for history in histories if len(history.blocks) and not history.is_stuck]
    return min((first for first in firsts if first is not None), default=None)
