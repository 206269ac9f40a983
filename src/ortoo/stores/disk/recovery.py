"""Recovery: what a directory holds, told as records. Reads the checkpoint, the heads of segments, the write-ahead log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ortoo.model import records as r
from ortoo.model.errors import CorruptionError, OrtooError, UnavailableError
from ortoo.model.names import TopicId, TopicName
from ortoo.model.topic import TopicConfig

from .catalog import Catalog
from .checkpoint import Checkpoint, Manifest, remove_drafts
from .commit import decode_commit, decode_touched
from .contents import list_folders, tell_strays
from .crypto import KeyRing, Secret
from .files import Disk
from .history import HistoryEntry
from .legible import legible_records
from .log import LogEntry
from .log_index import IndexBuilder
from .logged import LoggedPublish, Sections, decode_logged
from .quarantine import WHOLE, Behind, Quarantine, Swept, place_of
from .wal import Body, Run, Wal, WalCommit, WalDamage


class Recovery:
    """Fills a catalog. What cannot be vouched for is quarantined in it, and told in `problems`."""

    def __init__(
        self,
        disk: Disk,
        wal: Wal,
        catalog: Catalog,
        ring: KeyRing,
        problems: list[str],
        checkpoint: Checkpoint | None,
    ) -> None:
        self._disk = disk
        self._checkpoint = checkpoint
        self._after = checkpoint.number if checkpoint is not None else 0
        self._kept: list[Run] = checkpoint.kept() if checkpoint is not None else []
        if checkpoint is not None:
            catalog.quarantine = Quarantine(Behind(*one) for one in checkpoint.manifest.behind)
        self._wal = wal
        self._catalog = catalog
        self._ring = ring
        self.problems = problems

    def prepare(self) -> None:
        """Finds the write-ahead log: without it nothing may be touched."""
        self._wal.find(self._after, self._kept)
        self.problems += tell_strays(self._disk)

    def lock_up_without_key(self) -> None:
        """An encrypted topic can be read with old keys, but not written to without a current one."""
        for topic, config in self._catalog.configs.items():
            if config.encrypted and self._ring.current is None:
                self._isolate(topic, WHOLE, self._ring.quarantine_reason)

    def remove_strangers(self) -> None:
        """What a checkpoint wrote that was never finished: the write-ahead log, as it is replayed by now, has it all."""
        remove_drafts(self._disk)
        known: set[str] = set()
        checkpoint = self._checkpoint
        if checkpoint is not None:
            known.update(f"{entry.topic}/{entry.partition}" for entry in checkpoint.manifest.logs)
            known.update(f"{entry.topic}/{entry.partition}" for entry in checkpoint.manifest.histories)
        for folder in ("logs", "history"):
            for topic in list_folders(self._disk, folder):
                partitions = list_folders(self._disk, f"{folder}/{topic}")
                strangers = [partition for partition in partitions if f"{topic}/{partition}" not in known]
                if len(strangers) == len(partitions):
                    self._disk.remove_dir(f"{folder}/{topic}")
                    continue
                for partition in strangers:
                    self._disk.remove_dir(f"{folder}/{topic}/{partition}")

    def load(self, checkpoint: Checkpoint) -> r.Restored:
        manifest = checkpoint.manifest
        for topic in manifest.topics:
            self._catalog.configs[TopicId(topic.id)] = topic.config
            self._catalog.names[TopicId(topic.id)] = TopicName(topic.namespace, topic.name)
        self._catalog.transactions = {(namespace, name): number for namespace, name, number in manifest.transactions}
        indexes = self._load_logs(manifest)
        for history in manifest.histories:
            loaded = self._catalog.history(history.topic, history.partition)
            self.problems.extend(loaded.load(HistoryEntry(*history)))
        return r.Restored(manifest.at, checkpoint.snapshot, indexes, list(self._open_secrets(manifest.secrets)))

    def _open_secrets(self, secrets: list[Secret]) -> Iterator[tuple[int, bytes]]:
        for secret in secrets:
            topic = TopicId(secret.topic)
            self._catalog.secrets[topic] = Secret(*secret)
            try:
                yield topic, self._ring.open(secret.sealed, secret.data, Secret.context(topic))
            except OrtooError as error:
                self._isolate(topic, WHOLE, str(error))

    def _load_logs(self, manifest: Manifest) -> list[r.LogIndex]:
        found: dict[tuple[TopicId, int], tuple[LogEntry, IndexBuilder]] = {}
        for entry in manifest.logs:
            log = self._catalog.log(entry.topic, entry.partition)
            config = self._catalog.configs.get(entry.topic, TopicConfig())
            try:
                index = log.load(entry, self._ring, manifest.at - round(config.dedup_window * 1000))
            except OrtooError as error:
                self._cannot_load(entry, error)
            else:
                found[entry.topic, entry.partition] = (entry, index)
        errors = self._read_logged(found, manifest.logged)
        for entry, index in found.values():
            missing = self._what_is_missing(entry, index, errors)
            if missing is not None:
                self._cannot_load(entry, missing)
        return [index.build() for place, (_, index) in found.items() if place not in self._catalog.unreadable]

    def _cannot_load(self, entry: LogEntry, error: OrtooError) -> None:
        """Without a key, nothing of the topic can be vouched for."""
        self._catalog.cannot_load(entry)
        self._isolate(entry.topic, WHOLE if isinstance(error, UnavailableError) else entry.partition, str(error))

    def _read_logged(
        self, logs: Mapping[tuple[TopicId, int], tuple[LogEntry, IndexBuilder]], runs: Sequence[Run]
    ) -> dict[int, OrtooError]:
        """What lies in the write-ahead log of what the checkpoint contains. Returns why topics cannot be decrypted there."""
        errors: dict[int, OrtooError] = {}
        for commit in self._wal.kept_commits(self._after, runs) if runs else ():
            for topic, records in self._decoded(commit):
                if isinstance(records, OrtooError):
                    errors.setdefault(topic, records)
                    continue
                for record in records:
                    if not isinstance(record, LoggedPublish):
                        continue
                    place = (record.topic, record.partition)
                    if place in logs and self._is_next(place, logs[place][1], record.base, commit.number):
                        logs[place][1].add_block(record)
        return errors

    def _is_next(self, place: tuple[TopicId, int], index: IndexBuilder, base: int, number: int) -> bool:
        """Behind one that is missing, the others are of no use."""
        blocks = self._catalog.log(*place).blocks
        return index.blocks < len(blocks) and blocks[index.blocks][:2] == (base, number)

    def _decoded(self, commit: Body) -> Sections:
        try:
            return list(decode_logged(*commit, self._ring))
        except CorruptionError:  # what lies there is missed by its log
            return []

    def _what_is_missing(
        self, entry: LogEntry, index: IndexBuilder, errors: dict[int, OrtooError]
    ) -> OrtooError | None:
        blocks = self._catalog.log(entry.topic, entry.partition).blocks
        if not len(blocks) or (index.blocks == len(blocks) and index.end == entry.end):
            return None
        if isinstance(error := errors.get(entry.topic), UnavailableError):
            return error
        missing = blocks[min(index.blocks, len(blocks) - 1)]
        return CorruptionError(
            f"{self._wal.path_of(missing.number)} is damaged at byte {missing.position}: commit {missing.number}, which has "
            f"messages from {missing.base} on, cannot be read"
        )

    def replay(self) -> Iterator[list[r.Record]]:
        before = self._catalog.quarantine.before
        swept = Swept(before, legible_records(self._disk, self._ring))
        for item in self._wal.recover(self._after, self._kept):
            if isinstance(item, WalDamage):
                self._report_damage(item)
                continue
            records: list[r.Record] = []
            for record in self._told(item):
                self._catalog.absorb(record, item.number, item.position)
                if item.number > self._after or not swept.has(record, item.number):
                    records.append(record)
            if records:
                yield records

    def _told(self, commit: WalCommit) -> Iterator[r.Record]:
        """Each when those before it are absorbed."""
        for record in self._healthy(commit):
            self._catalog.quarantine.follow(record, commit.number, self._after)
            if commit.number > self._after or self._is_needed(record, commit.number):
                yield record
                continue
            for partition in self._catalog.quarantine.swept(record, commit.number):
                topic = record.topic  # type: ignore[union-attr]  # only a purge sweeps
                yield r.Trimmed(record.at, topic, partition, self._catalog.log(topic, partition).end)

    def _is_needed(self, record: r.Record, number: int) -> bool:
        """Of a commit that the checkpoint contains: what was staged then, and what was quarantined missed."""
        return self._is_open_stage(record, number) or self._catalog.quarantine.missed(record, number)

    def _is_open_stage(self, record: r.Record, number: int) -> bool:
        """Not what an earlier transaction of the same name staged."""
        if not isinstance(record, r.Staged):
            return False
        begun = self._catalog.transactions.get((record.namespace, record.transaction))
        return begun is not None and number >= begun

    def _report_damage(self, damage: WalDamage) -> None:
        where = f"{damage.path} is damaged at byte {damage.position}: {damage.reason}"
        if damage.head is None and damage.span is not None and self._is_contained(damage.span):
            self.problems.append(f"{where}; what it held is in the checkpoint, but perhaps for some history")
            return
        touched = decode_touched(damage.head) if damage.head is not None else [(0, -1)]
        if damage.number <= self._after and all(topic for topic, _ in touched):  # the checkpoint has it, mostly
            if any(self._has_history(*place, damage.number) for place in touched):
                self.problems.append(f"{where}; some history cannot be read")
            missing = self._catalog.quarantine.missing
            touched = [missed for place in touched for missed in missing(*place, damage.number)]
        if any(topic not in self._catalog.configs for topic, _ in touched):
            raise CorruptionError(f"{where}; what follows builds on it, so the queue stays closed; repair it")
        for topic, partition in touched:
            self._isolate(TopicId(topic), partition, where)
            self._catalog.quarantine.note(TopicId(topic), partition, damage.number)

    def _has_history(self, topic: int, partition: int, number: int) -> bool:
        """Whether some of it lies in that commit alone."""
        history = self._catalog.histories.get((TopicId(topic), partition))
        return history is not None and number in history.blocks.numbers

    def _is_contained(self, span: Run) -> bool:
        """Whether the checkpoint has all that these commits changed. Logs whose messages lie there miss them already."""
        manifest = self._checkpoint.manifest if self._checkpoint is not None else None
        if manifest is None or span[1] > self._after or (manifest.transactions and manifest.staged is None):
            return False
        needed = [*(manifest.staged or ()), *((one.first, one.last) for one in manifest.behind)]
        return not any(first <= span[1] and span[0] <= last for first, last in needed)

    def _isolate(self, topic: TopicId, partition: int, reason: str) -> None:
        self._catalog.quarantine.add(topic, partition, self._catalog.configs[topic].partitions, reason)
        what = f"topic {str(self._catalog.names[topic])!r}"
        what = what if partition == WHOLE else f"partition {partition} of {what}"
        self.problems.append(f"{what} is quarantined: {reason}")

    def _cannot_decrypt(self, topic: TopicId, number: int, reason: str) -> None:
        if number > self._after or self._catalog.quarantine.misses(topic, WHOLE, number):
            self._isolate(topic, WHOLE, reason)
            self._catalog.quarantine.note(topic, WHOLE, number)
        elif any(begun <= number for begun in self._catalog.transactions.values()):  # it may have been staged
            self._isolate(topic, WHOLE, reason)

    def _healthy(self, commit: WalCommit) -> list[r.Record]:
        """The commit's records, less those that build on what is quarantined."""
        found: list[r.Record] = []
        is_whole = True
        for topic, records in decode_commit(commit.number, commit.body, commit.flags, self._ring):
            if not isinstance(records, OrtooError):
                found.extend(records)
                self._learn_new(records, commit.number)
                continue
            is_whole = False
            if topic in self._catalog.configs:  # else it is deleted by now
                self._cannot_decrypt(TopicId(topic), commit.number, str(records))
        if not is_whole and any(not topic for topic, _ in decode_touched(commit.head)):
            self._lose_staged(found, commit.number)
        return [record for record in found if not self._is_quarantined(record, commit.number)]

    def _lose_staged(self, found: list[r.Record], number: int) -> None:
        """What cannot be decrypted may have been staged, for a topic that may be deleted by now."""
        begun = [(one.namespace, one.transaction) for one in found if isinstance(one, r.TransactionBegan)]
        begun += [name for name, first in self._catalog.transactions.items() if first <= number]
        self._catalog.staged.lose(dict.fromkeys(begun), number)

    def _learn_new(self, records: list[r.Record], number: int) -> None:
        """A commit that makes an encrypted topic may also hold its first messages."""
        for record in records:
            if isinstance(record, r.TopicCreated) and number > self._after:
                self._catalog.learn(record)

    def _is_quarantined(self, record: r.Record, number: int) -> bool:
        quarantine = self._catalog.quarantine
        if not quarantine or not quarantine.covers(record):
            return False
        if number > self._after or quarantine.missed(record, number):
            quarantine.note(*place_of(record), number)
        return True
