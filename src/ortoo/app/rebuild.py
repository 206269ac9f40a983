"""A new data directory out of a damaged one: its files, then its state, then what the write-ahead log tells.

Three cases, by what is left of the checkpoint. Whole: its state, less what is lost. Only its manifest: every message counts as
new, groups begin anew. Nothing: so do topics, under new names where the write-ahead log does not tell the old ones.
"""

from __future__ import annotations

import msgspec

from ortoo.engine import Engine
from ortoo.engine.partition import Partition
from ortoo.engine.snapshot import Snapshot
from ortoo.model import records as r
from ortoo.model.names import LEASES_PER_EPOCH, TopicId, TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import TopicConfig
from ortoo.stores.disk import KeyRing
from ortoo.stores.disk.checkpoint import Checkpoint, Manifest
from ortoo.stores.disk.draft import Draft
from ortoo.stores.disk.files import Disk
from ortoo.stores.disk.keys import bind_keys
from ortoo.stores.disk.quarantine import WHOLE, Behind, Quarantine
from ortoo.stores.disk.salvage import (
    LostCommits,
    Salvage,
    SavedCheckpoint,
    SavedCommit,
    SavedLog,
    to_published,
    without_first,
)
from ortoo.stores.disk.wal import Run, list_wal, reaches

from .losses import Loss, LostCommit, Repair, runs_of
from .retold import NEVER, OF_TRANSACTIONS, Retold

# What a record raises that builds on something lost.
MISFITS = (KeyError, IndexError, AssertionError, ValueError, OverflowError, msgspec.MsgspecError)

Place = tuple[TopicId, int]


class Rebuild:
    def __init__(self, source: Disk, draft: Disk, ring: KeyRing, keep_state: bool) -> None:
        self._source = source
        self._draft = Draft(draft, ring)
        self._ring = ring
        self._keep_state = keep_state
        self._salvage = Salvage(source, draft, ring)
        self._repair = Repair(losses=[], commits=[], transactions=[], complaints=self._salvage.complaints)
        self._engine = Engine()
        self._catalog = self._draft.catalog
        self._number = 0  # of the last commit
        self._quarantine = Quarantine()  # what the checkpoint does not have, though it has the commit
        self._transactions = Retold(self._engine.state, self._apply)
        self._needed: tuple[int, list[Run]] = (0, [])  # commits after that number, and these
        self._suspects: dict[Place, int] = {}  # where messages may be missing at the end, and from which on
        self._ended: set[TopicId] = set()  # topics that were deleted: nothing of them can be missing
        self._told: set[TopicId] = set()  # topics whose making the write-ahead log tells
        self._lease = self._group = 0  # the highest numbers that history knows
        self._deleted: list[r.Deleted] = []  # as history knows it

    def run(self) -> Repair:
        self._salvage.complaints += bind_keys(self._source, self._ring, self._draft.disk)
        saved = self._salvage.checkpoint()
        if saved is None:
            self._repair.state_kept = list_wal(self._source)[:1] == [1]
            self._start_from_files()
        elif saved.snapshot is None or not self._keep_state:
            self._repair.state_kept = False
            self._start_over(saved.manifest)
        else:
            self._restore(saved.manifest, saved.snapshot)
        self._replay(saved)
        self._finish()
        return self._repair

    # -- where it starts

    def _restore(self, manifest: Manifest, snapshot: bytes) -> None:
        self._learn_topics(manifest)
        logs = [self._salvage.log(entry.topic, entry.partition, entry) for entry in manifest.logs]
        indexes = []
        for log in logs:
            for _ in log.frames():
                pass
            config = self._catalog.configs.get(log.entry.topic, TopicConfig())
            indexes.append(self._load(log, manifest.at - round(config.dedup_window * 1000)))
        self._copy_histories(manifest)
        self._apply(r.Restored(manifest.at, snapshot, indexes, self._salvage.secrets(manifest)))
        for log in logs:
            self._note_gaps(log)

    def _start_over(self, manifest: Manifest) -> None:
        """Without the state, every message counts as new: topics and their messages, but no groups."""
        self._learn_topics(manifest)
        for topic in manifest.topics:
            self._apply(r.TopicCreated(manifest.at, TopicId(topic.id), topic.namespace, topic.name, topic.config))
        for entry in manifest.logs:
            self._publish_log(self._salvage.log(entry.topic, entry.partition, entry))
        self._copy_histories(manifest)
        self._heed_history()

    def _start_from_files(self) -> None:
        """What the write-ahead log tells itself is taken from there."""
        first: dict[Place, int] = {}
        for told in Salvage(self._source, self._draft.disk, self._ring).commits(0, []):
            for record in told.records if isinstance(told, SavedCommit) else ():
                if isinstance(record, r.Published):
                    first.setdefault((record.topic, record.partition), record.base)
                elif isinstance(record, r.TopicCreated | r.TopicDeleted):
                    self._told.add(record.topic)
        for place in self._salvage.partitions():
            if place[0] not in self._told:
                self._publish_log(self._salvage.log(*place, None, first.get(place)))
                self._copy_history(*place, None)
        self._heed_history()

    def _learn_topics(self, manifest: Manifest) -> None:
        for topic in manifest.topics:
            self._catalog.configs[TopicId(topic.id)] = topic.config
            self._catalog.names[TopicId(topic.id)] = TopicName(topic.namespace, topic.name)

    def _load(self, log: SavedLog, dedup_since: int) -> r.LogIndex:
        return self._catalog.log(log.entry.topic, log.entry.partition).load(log.entry, self._ring, dedup_since)

    def _publish_log(self, log: SavedLog) -> None:
        topic, partition = log.entry.topic, log.entry.partition
        for frame in log.frames():
            self._make_room(topic, partition, frame.head.sealed is not None)
            for record in to_published(topic, partition, frame):
                self._apply(record)
        self._make_room(topic, partition, False)
        self._load(log, NEVER)
        start = log.entry.start
        if start and not log.is_known:
            self._lose(topic, partition, 0, start, certain=False)
        self._engine.apply(r.Trimmed(self._engine.state.now, topic, partition, start))
        self._note_gaps(log)

    def _note_gaps(self, log: SavedLog) -> None:
        partition = self._partition(log.entry.topic, log.entry.partition)
        partition.end = partition.confirmed = max(partition.end, log.entry.end)
        for start, end in log.gaps:
            self._lose(log.entry.topic, log.entry.partition, start, end)

    def _copy_histories(self, manifest: Manifest) -> None:
        known = {(entry.topic, entry.partition): entry for entry in manifest.histories}
        for topic, partition in known:
            self._copy_history(topic, partition, manifest)

    def _copy_history(self, topic: TopicId, partition: int, manifest: Manifest | None) -> None:
        entries = manifest.histories if manifest is not None else []
        known = next((entry for entry in entries if (entry.topic, entry.partition) == (topic, partition)), None)
        entry = self._salvage.history(topic, partition, known, self._note_history)
        self._catalog.history(topic, partition).load(entry)

    def _note_history(self, records: list[r.Happening]) -> None:
        for record in records:
            self._lease = max(self._lease, getattr(record, "lease", 0))
            self._group = max(self._group, getattr(record, "group", 0))
            if isinstance(record, r.Deleted):
                self._deleted.append(record)

    def _heed_history(self) -> None:
        """What was deleted stays so, and no number that a receipt or a record names is given again."""
        state = self._engine.state
        for record in self._deleted:
            partition = self._partition(record.topic, record.partition)
            offsets = record.offsets.within(partition.start, partition.end)
            if offsets:
                self._engine.apply(r.Deleted(state.now, record.topic, record.partition, offsets))
        state.number = max([state.number, self._group, *state.topics])
        state.epoch = max(state.epoch, self._lease // LEASES_PER_EPOCH)

    # -- the write-ahead log

    def _replay(self, saved: SavedCheckpoint | None) -> None:
        after = 0 if saved is None else saved.number
        self._number = after
        kept: list[Run] = []
        if saved is not None:
            self._quarantine = Quarantine(Behind(*one) for one in saved.manifest.behind)
            kept = Checkpoint(saved.number, saved.manifest, b"").kept()
            self._transactions.start(saved.manifest, saved.number, kept)
        self._needed = (after, kept)
        for told in self._salvage.commits(after, kept):
            if isinstance(told, LostCommits):
                self._lose_commits(told, after)
            else:
                self._take_commit(told, after)
        if not reaches(list_wal(self._source), after):
            self._salvage.complain(
                f"the end of the write-ahead log is missing: what was committed after commit {after} is gone"
            )
            self._repair.commits.append(LostCommit(after + 1, None, None))
            self._transactions.lose(NEVER)
        self._transactions.note_missing()

    def _take_commit(self, commit: SavedCommit, after: int) -> None:
        self._number = max(self._number, commit.number)
        for record in commit.records:
            if commit.number > after or self._quarantine.missed(record, commit.number):
                self._take(record, commit)
            elif isinstance(record, OF_TRANSACTIONS):  # the checkpoint has the rest
                self._transactions.retell(record, commit.number)

    def _take(self, record: r.Record, commit: SavedCommit) -> None:
        if isinstance(record, r.Published):
            self._publish(record, record.topic in commit.secret)
            return
        if isinstance(record, OF_TRANSACTIONS) and not self._transactions.is_whole(record, commit.number):
            return
        if isinstance(record, r.TopicCreated):
            self._free_name(record)
        if isinstance(record, r.TopicDeleted):
            self._ended.add(record.topic)
        try:
            self._apply(record)
        except MISFITS:
            self._repair.skipped_records += 1
            if isinstance(record, r.HAPPENINGS) and record.topic in self._catalog.configs:
                self._draft.take(record)  # it happened all the same
            return
        self._draft.take(record)

    def _free_name(self, record: r.TopicCreated) -> None:
        """A name is given again only when its topic is deleted: so that was lost."""
        old = self._engine.state.names.get(TopicName(record.namespace, record.name))
        if old is not None and old.id != record.topic:
            deleted = r.TopicDeleted(record.at, old.id)
            self._ended.add(old.id)
            self._apply(deleted)
            self._draft.take(deleted)

    def _publish(self, record: r.Published, secret: bool) -> None:
        place = (record.topic, record.partition)
        partition = self._make_room(*place, secret)
        end = partition.end
        if record.base + record.count <= end:
            return  # is known already
        if record.base < end:
            record = without_first(record, end - record.base)
        is_unknown = end == 0 and record.base > 0 and self._number_is_unknown(record.topic)
        self._apply(record)
        self._draft.take(record)
        self._suspects.pop(place, None)
        if is_unknown:
            self._lose(*place, 0, record.base, certain=False)
            trimmed = r.Trimmed(record.at, *place, record.base)
            self._apply(trimmed)
            self._draft.take(trimmed)
        elif record.base > end:
            self._lose(*place, end, record.base)

    def _number_is_unknown(self, topic: TopicId) -> bool:
        """Whether messages of the topic may have come and gone before anything that is left was written."""
        return topic not in self._told and not self._repair.state_kept

    # -- what is lost

    def _lose(self, topic_id: TopicId, partition: int, start: int, end: int, certain: bool = True) -> None:
        log = self._partition(topic_id, partition)
        name = str(self._engine.state.topics[topic_id].name)
        missing = OffsetSet.span(max(start, log.start), end) if end > max(start, log.start) else OffsetSet()
        missing.subtract(log.deleted)
        for first, last in runs_of(missing):
            self._repair.losses.append(Loss(name, topic_id, partition, first, last, certain))
        if missing and certain:
            self._engine.apply(r.Deleted(self._engine.state.now, topic_id, partition, missing))

    def _lose_commits(self, lost: LostCommits, after: int) -> None:
        if lost.touched is None or any(topic == 0 for topic, _ in lost.touched):
            self._transactions.lose(lost.last)
        touched, first = lost.touched, max(lost.first, after + 1)
        if lost.last <= after:
            touched, first = self._missed(lost), lost.first
            if not touched:
                return  # the checkpoint has it
        self._number = max(self._number, lost.last)
        names = None if touched is None else [self._describe(*place) for place in touched]
        self._repair.commits.append(LostCommit(first, lost.last, names))
        for topic, partition in touched or ():
            if partition >= 0:
                known = self._engine.state.topics.get(TopicId(topic))
                is_there = known is not None and partition < len(known.partitions)
                self._suspects[TopicId(topic), partition] = known.partitions[partition].end if known and is_there else 0

    def _missed(self, lost: LostCommits) -> list[tuple[int, int]]:
        """What of it the checkpoint does not have, though it has the commits: it was quarantined."""
        behind = [one for one in self._quarantine.before if one.first <= lost.last and lost.first <= one.last]
        places: list[tuple[int, int]] = [(one.topic, one.partition) for one in behind]
        if lost.touched is None:
            return places
        return [place for place in lost.touched if place in places or (place[0], WHOLE) in places]

    def _describe(self, topic: int, partition: int) -> str:
        if topic == 0:
            return "transactions"
        name = self._catalog.names.get(TopicId(topic))
        what = f"topic {str(name)!r}" if name is not None else f"topic number {topic}"
        return what if partition < 0 else f"partition {partition} of {what}"

    # -- the state

    def _apply(self, record: r.Record) -> None:
        self._engine.apply(record)
        self._engine.confirm(record)

    def _partition(self, topic: TopicId, partition: int) -> Partition:
        return self._engine.state.topics[topic].partitions[partition]

    def _make_room(self, topic: TopicId, partition: int, secret: bool) -> Partition:
        """The partition, made if what made it is lost. What was encrypted stays so."""
        found = self._engine.state.topics.get(topic)
        config = TopicConfig(partitions=partition + 1) if found is None else found.config
        config = msgspec.structs.replace(
            config, partitions=max(config.partitions, partition + 1), encrypted=config.encrypted or secret
        )
        record: r.Record | None = None
        if found is None:
            name = f"recovered-{topic}"
            self._salvage.complain(
                f"what topic {topic} was called is not known; it is {name!r} now, with default settings"
            )
            record = r.TopicCreated(self._engine.state.now, topic, "default", name, config)
        elif config != found.config:
            record = r.TopicChanged(self._engine.state.now, topic, config)
        if record is not None:
            self._apply(record)
            self._draft.take(record)
        return self._partition(topic, partition)

    # -- writing

    def _finish(self) -> None:
        state = self._engine.state
        for (topic, partition), start in self._suspects.items():
            name = str(state.topics[topic].name) if topic in state.topics else f"number {topic}"
            self._repair.losses.append(Loss(name, topic, partition, start, None))
        self._repair.losses = [loss for loss in self._repair.losses if loss.topic_id not in self._ended]
        self._repair.transactions = sorted("/".join(name) for name in self._transactions.lost)
        self._repair.messages = sum(
            log.end - log.start - len(log.deleted) for topic in state.topics.values() for log in topic.partitions
        )
        again = Salvage(self._source, self._draft.disk, self._ring)
        staged = self._transactions.take(again, *self._needed)
        snapshot = Snapshot(state)
        self._draft.finish(self._number, snapshot.finish(), snapshot.at, snapshot.secrets, staged)
