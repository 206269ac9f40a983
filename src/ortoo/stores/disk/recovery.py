"""Recovery: what a directory holds, told as records. Reads the checkpoint, the heads of segments, the write-ahead log."""

from __future__ import annotations

from collections.abc import Iterator

from ortoo.model import records as r
from ortoo.model.errors import CorruptionError, OrtooError, UnavailableError
from ortoo.model.names import TopicId, TopicName
from ortoo.model.topic import TopicConfig

from .catalog import Catalog
from .checkpoint import Checkpoint
from .commit import decode_commit, decode_touched
from .crypto import VARIABLE, KeyRing
from .files import Disk
from .happenings import HistoryEntry
from .log import LogEntry
from .wal import Wal, WalCommit, WalDamage


class Recovery:
    """Fills a catalog. What cannot be vouched for is quarantined in it, and told in `problems`."""

    def __init__(self, disk: Disk, wal: Wal, catalog: Catalog, ring: KeyRing, problems: list[str]) -> None:
        self._disk = disk
        self._wal = wal
        self._catalog = catalog
        self._ring = ring
        self.problems = problems

    def prepare(self, checkpoint: Checkpoint | None) -> None:
        """Before anything is removed, the write-ahead log must be there to replace it."""
        self._wal.find(self._replay_after(checkpoint))
        self._remove_strangers(checkpoint)

    def lock_up_without_key(self) -> None:
        """An encrypted topic can be read with old keys, but not written to without a current one."""
        for topic, config in self._catalog.configs.items():
            if config.encrypted and self._ring.current is None:
                self._isolate(topic, -1, f"there is no encryption key; set {VARIABLE} or pass keys=, and reopen")

    @staticmethod
    def _replay_after(checkpoint: Checkpoint | None) -> int:
        """The last commit that need not be read again: what open transactions staged is in the log only."""
        if checkpoint is None:
            return 0
        begun = [number - 1 for _, _, number in checkpoint.manifest.transactions]
        return max(0, min([checkpoint.number, *begun]))

    def _remove_strangers(self, checkpoint: Checkpoint | None) -> None:
        """What a checkpoint wrote that was never finished; the write-ahead log has it all."""
        known: set[str] = set()
        if checkpoint is not None:
            known.update(f"{entry.topic}/{entry.partition}" for entry in checkpoint.manifest.logs)
            known.update(f"{entry.topic}/{entry.partition}" for entry in checkpoint.manifest.histories)
        for folder in ("logs", "history"):
            for topic in self._disk.list(folder):
                for partition in self._disk.list(f"{folder}/{topic}"):
                    if f"{topic}/{partition}" not in known:
                        self._disk.remove_dir(f"{folder}/{topic}/{partition}")

    def load(self, checkpoint: Checkpoint) -> r.Restored:
        manifest = checkpoint.manifest
        for topic in manifest.topics:
            self._catalog.configs[TopicId(topic.id)] = topic.config
            self._catalog.names[TopicId(topic.id)] = TopicName(topic.namespace, topic.name)
        self._catalog.transactions = {(namespace, name): number for namespace, name, number in manifest.transactions}
        indexes = [index for entry in manifest.logs if (index := self._load_log(entry, manifest.at)) is not None]
        for history in manifest.histories:
            loaded = self._catalog.history(history.topic, history.partition)
            self.problems.extend(loaded.load(HistoryEntry(*history)))
        return r.Restored(manifest.at, checkpoint.snapshot, indexes)

    def _load_log(self, entry: LogEntry, at: int) -> r.LogIndex | None:
        log = self._catalog.log(entry.topic, entry.partition)
        config = self._catalog.configs.get(entry.topic, TopicConfig())
        try:
            return log.load(entry, self._ring, at - round(config.dedup_window * 1000))
        except UnavailableError as error:  # a key is missing
            self._isolate(entry.topic, -1, str(error))
        except OrtooError as error:
            self._isolate(entry.topic, entry.partition, str(error))
        return None

    def replay(self, checkpoint: Checkpoint | None) -> Iterator[list[r.Record]]:
        after = checkpoint.number if checkpoint is not None else 0
        for item in self._wal.recover(self._replay_after(checkpoint)):
            if isinstance(item, WalDamage):
                self._report_damage(item, after)
                continue
            records = self._healthy(item)
            if item.number <= after:  # only what was staged then is still needed
                records = [record for record in records if self._is_open_stage(record, item.number)]
            else:
                for record in records:
                    self._catalog.absorb(record, item.number)
            if records:
                yield records

    def _is_open_stage(self, record: r.Record, number: int) -> bool:
        """Not what an earlier transaction of the same name staged."""
        if not isinstance(record, r.Staged):
            return False
        begun = self._catalog.transactions.get((record.namespace, record.transaction))
        return begun is not None and number >= begun

    def _report_damage(self, damage: WalDamage, after: int) -> None:
        where = f"{damage.path} is damaged at byte {damage.position}: {damage.reason}"
        touched = decode_touched(damage.head) if damage.head is not None else [(0, -1)]
        if damage.number <= after and all(topic for topic, _ in touched):
            return  # the checkpoint has it
        if any(topic not in self._catalog.configs for topic, _ in touched):
            raise CorruptionError(f"{where}; what follows builds on it, so the queue stays closed; repair it")
        for topic, partition in touched:
            self._isolate(TopicId(topic), partition, where)

    def _isolate(self, topic: TopicId, partition: int, reason: str) -> None:
        """Partition -1: the topic as a whole."""
        if partition < 0:
            self._catalog.quarantine.add_topic(topic, self._catalog.configs[topic].partitions, reason)
        else:
            self._catalog.quarantine.add(topic, partition, reason)
        what = f"topic {topic}" if partition < 0 else f"partition {partition} of topic {topic}"
        self.problems.append(f"{what} is quarantined: {reason}")

    def _healthy(self, commit: WalCommit) -> list[r.Record]:
        """The commit's records, less those that build on what is quarantined."""
        found: list[r.Record] = []
        for topic, records in decode_commit(commit.body, self._ring):
            if not isinstance(records, OrtooError):
                found.extend(records)
            elif topic in self._catalog.configs:  # else it is deleted by now
                self._isolate(TopicId(topic), -1, str(records))
        return (
            [record for record in found if not self._catalog.quarantine.covers(record)]
            if self._catalog.quarantine
            else found
        )
