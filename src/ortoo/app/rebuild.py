"""A new data directory out of a damaged one: its files, then its state, then what the write-ahead log tells.

Three cases, by what is left of the checkpoint. Whole: its state, less what is lost. Only its manifest: every message counts as
new, groups begin anew. Nothing: so do topics, under new names where the write-ahead log does not tell the old ones. Whichever it
is, no message that lies whole in some file is lost: see messages.py.
"""

from __future__ import annotations

import msgspec

from ortoo.engine import Engine
from ortoo.engine.snapshot import Snapshot
from ortoo.model import records as r
from ortoo.model.names import LEASES_PER_EPOCH, TopicId, TopicName
from ortoo.model.topic import TopicConfig
from ortoo.stores.disk import KeyRing
from ortoo.stores.disk.blocks import HistoryBlocks
from ortoo.stores.disk.checkpoint import Checkpoint, Manifest
from ortoo.stores.disk.draft import Draft
from ortoo.stores.disk.files import Disk
from ortoo.stores.disk.format import refuse_unknown
from ortoo.stores.disk.history import HistoryEntry
from ortoo.stores.disk.keys import bind_keys
from ortoo.stores.disk.legible import legible_records
from ortoo.stores.disk.quarantine import Behind, Quarantine, Swept
from ortoo.stores.disk.salvage import LostCommits, Salvage, SavedCheckpoint, SavedCommit
from ortoo.stores.disk.wal import Run, list_wal, reaches

from .losses import LostCommit, Repair
from .messages import Messages, Place
from .retold import NEVER, OF_TRANSACTIONS, Retold

# What a record raises that builds on something lost.
MISFITS = (KeyError, IndexError, AssertionError, ValueError, OverflowError, msgspec.MsgspecError)


class Rebuild:
    def __init__(self, source: Disk, draft: Disk, ring: KeyRing, keep_state: bool) -> None:
        refuse_unknown(source)  # learns its salt
        self._source = source
        self._draft = Draft(draft, ring)
        self._ring = ring
        self._keep_state = keep_state
        self._salvage = Salvage(source, draft, ring)
        self._repair = Repair(losses=[], commits=[], transactions=[], complaints=self._salvage.complaints)
        self._engine = Engine()
        self._messages = Messages(self._engine, self._draft, self._salvage, self._repair)
        self._catalog = self._draft.catalog
        self._number = 0  # of the last commit
        self._quarantine = Quarantine()  # what the checkpoint does not have, though it has the commit
        self._swept = Swept([], [])
        self._transactions = Retold(self._engine.state, self._apply)
        self._needed: tuple[int, list[Run]] = (0, [])  # commits after that number, and these
        self._lease = self._group = 0  # the highest numbers that history knows
        self._deleted: list[r.Deleted | r.Superseded] = []  # as history knows it
        self._logged: set[int] = set()  # records of histories in the write-ahead log
        self._doubled: set[int] = set()  # of them, those that are in history, too
        self._told: dict[
            Place, dict[int, int]
        ] = {}  # by partition, the commits where its history lies, and its numbers
        self._ends: dict[Place, int] = {}  # by partition, the number after that of the last record in the checkpoint
        self._has_state = False  # that of the checkpoint
        self._staged: list[Run] | None = None  # commits with what its transactions staged; None: not known

    def run(self) -> Repair:
        self._salvage.complaints += bind_keys(self._source, self._ring, self._draft.disk)
        saved = self._salvage.checkpoint()
        if saved is None:
            self._repair.state_kept = list_wal(self._source)[:1] == [1]
            self._start_from_files()
        elif saved.snapshot is None or not self._keep_state:
            self._repair.state_kept = False
            self._start_over(saved)
        else:
            self._restore(saved, saved.snapshot)
        self._replay(saved)
        self._messages.finish()
        self._heed_history()
        self._finish()
        return self._repair

    # -- where it starts

    def _restore(self, saved: SavedCheckpoint, snapshot: bytes) -> None:
        manifest, self._has_state = saved.manifest, True
        self._staged = manifest.staged
        self._learn_topics(manifest)
        self._messages.look(manifest, saved.number)
        indexes = []
        for entry in manifest.logs:
            config = self._catalog.configs.get(entry.topic, TopicConfig())
            indexes.append(self._messages.copy(entry, manifest.at - round(config.dedup_window * 1000)))
        self._copy_histories(manifest)
        self._apply(r.Restored(manifest.at, snapshot, indexes, self._salvage.secrets(manifest)))
        self._messages.restored(manifest.logs)

    def _start_over(self, saved: SavedCheckpoint) -> None:
        """Without the state, every message counts as new: topics and their messages, but no groups."""
        manifest = saved.manifest
        self._learn_topics(manifest)
        self._messages.look(manifest, saved.number)
        for topic in manifest.topics:
            self._apply(r.TopicCreated(manifest.at, TopicId(topic.id), topic.namespace, topic.name, topic.config))
        self._messages.publish_logs(manifest.logs)
        self._copy_histories(manifest)

    def _start_from_files(self) -> None:
        """Everything is told by the write-ahead log, and where that has gaps, by the files."""
        self._messages.look(None, 0)
        records = (record for _, record in legible_records(self._source, self._ring))
        self._logged = {_print(record) for record in records if isinstance(record, r.HISTORY_RECORDS)}
        for place in self._salvage.partitions():
            self._copy_history(*place, None)

    def _learn_topics(self, manifest: Manifest) -> None:
        for topic in manifest.topics:
            self._catalog.configs[TopicId(topic.id)] = topic.config
            self._catalog.names[TopicId(topic.id)] = TopicName(topic.namespace, topic.name)

    def _copy_histories(self, manifest: Manifest) -> None:
        for entry in manifest.histories:
            place, blocks = (entry.topic, entry.partition), HistoryBlocks(entry.blocks)
            self._copy_history(*place, entry)
            self._told[place] = dict(zip(blocks.numbers, blocks.starts, strict=True))
            self._ends[place] = entry.end + entry.logged

    def _copy_history(self, topic: TopicId, partition: int, known: HistoryEntry | None) -> None:
        entry = self._salvage.history(topic, partition, known, self._note_history)
        self._catalog.history(topic, partition).load(entry)

    def _note_history(self, records: list[r.HistoryRecord]) -> None:
        for record in records:
            self._note_numbers(record)
            if isinstance(record, r.Deleted | r.Superseded) and not self._has_state:  # else that knows
                self._deleted.append(record)
            if self._logged and (told := _print(record)) in self._logged:
                self._doubled.add(told)

    def _note_numbers(self, record: r.HistoryRecord) -> None:
        self._lease = max(self._lease, getattr(record, "lease", 0))
        self._group = max(self._group, getattr(record, "group", 0))

    def _heed_history(self) -> None:
        """What was deleted stays so, and no number that a receipt or a record names is given again."""
        state = self._engine.state
        for record in self._deleted:
            self._messages.delete(record)
        state.number = max([state.number, self._group, *state.topics])
        state.epoch = max(state.epoch, self._lease // LEASES_PER_EPOCH)

    # -- the write-ahead log

    def _replay(self, saved: SavedCheckpoint | None) -> None:
        after = 0 if saved is None else saved.number
        self._number = after
        kept: list[Run] = []
        if saved is not None:
            self._quarantine = Quarantine(Behind(*one) for one in saved.manifest.behind)
            self._swept = Swept(self._quarantine.before, legible_records(self._source, self._ring))
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
        for place, end in self._ends.items():
            self._draft.reach(*place, end)

    def _take_commit(self, commit: SavedCommit, after: int) -> None:
        self._number = max(self._number, commit.number)
        for record in commit.records:
            if commit.number <= after and self._swept.has(record, commit.number):
                self._keep(record)  # it happened all the same
            elif commit.number > after or self._quarantine.missed(record, commit.number):
                self._take(record, commit)
            elif isinstance(record, r.HISTORY_RECORDS):
                self._retell_history(record, commit.number)
            elif isinstance(record, OF_TRANSACTIONS):  # the checkpoint has the rest
                self._transactions.retell(record, commit.number)
            elif isinstance(record, r.TopicPurged):
                for partition in self._quarantine.swept(record, commit.number):
                    self._messages.purge(record, partition)

    def _retell_history(self, record: r.HistoryRecord, commit: int) -> None:
        """Of a commit that the checkpoint contains: no file of history has it, but its number is known."""
        numbers = self._told.get((record.topic, record.partition), {})
        if commit in numbers:
            self._note_history([record])
            self._draft.take(record, numbers[commit])
            numbers[commit] += 1

    def _take(self, record: r.Record, commit: SavedCommit) -> None:
        if isinstance(record, r.Published):
            self._messages.publish(record, record.topic in commit.secret)
            return
        if isinstance(record, OF_TRANSACTIONS) and not self._transactions.is_whole(record, commit.number):
            return
        if isinstance(record, r.TopicCreated):
            self._free_name(record)
        if isinstance(record, r.TopicDeleted):
            self._end_topic(record)
            return
        self._messages.prepare(record)
        try:
            self._apply(record)
        except MISFITS:
            self._repair.skipped_records += 1
            if isinstance(record, r.HISTORY_RECORDS) and record.topic in self._catalog.configs:
                self._keep(record)  # it happened all the same
            return
        self._keep(record)

    def _keep(self, record: r.Record) -> None:
        if not isinstance(record, r.HISTORY_RECORDS):
            self._draft.take(record)
        elif not self._doubled or _print(record) not in self._doubled:
            self._note_numbers(record)
            self._draft.take(record, self._ends.get((record.topic, record.partition), 0))

    def _free_name(self, record: r.TopicCreated) -> None:
        """A name is given again only when its topic is deleted: so that was lost."""
        old = self._engine.state.names.get(TopicName(record.namespace, record.name))
        if old is not None and old.id != record.topic:
            self._end_topic(r.TopicDeleted(record.at, old.id))

    def _end_topic(self, record: r.TopicDeleted) -> None:
        self._messages.ended.add(record.topic)
        if record.topic in self._engine.state.topics:
            self._apply(record)
        self._draft.take(record)

    # -- what is lost

    def _lose_commits(self, lost: LostCommits, after: int) -> None:
        if (lost.touched is None or any(topic == 0 for topic, _ in lost.touched)) and self._may_have_staged(
            lost, after
        ):
            self._transactions.lose(lost.last)
        if lost.touched is None and self._messages.are_in_files and not self._needed[0]:
            self._repair.state_kept = False  # a checkpoint may have had those commits, with whatever they changed
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
                self._messages.suspect(TopicId(topic), partition)

    def _may_have_staged(self, lost: LostCommits, after: int) -> bool:
        """The state has what became of transactions up to the checkpoint, and that tells where all lies which they staged."""
        if lost.last > after or self._staged is None:
            return True
        return any(first <= lost.last and lost.first <= last for first, last in self._staged)

    def _missed(self, lost: LostCommits) -> list[tuple[int, int]]:
        """What of it the checkpoint does not have, though it has the commits: it was quarantined."""
        if lost.touched is not None:
            missing = self._quarantine.missing
            return list(dict.fromkeys(found for place in lost.touched for found in missing(*place, lost.first)))
        behind = [one for one in self._quarantine.before if one.first <= lost.last and lost.first <= one.last]
        return list(dict.fromkeys((int(one.topic), one.partition) for one in behind))

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

    # -- writing

    def _finish(self) -> None:
        state = self._engine.state
        self._repair.losses = [loss for loss in self._messages.losses() if loss.topic_id not in self._messages.ended]
        self._repair.transactions = sorted("/".join(name) for name in self._transactions.lost)
        self._repair.messages = sum(
            log.end - log.start - len(log.deleted) for topic in state.topics.values() for log in topic.partitions
        )
        again = Salvage(self._source, self._draft.disk, self._ring)
        staged = self._transactions.take(again, *self._needed)
        snapshot = Snapshot(state)
        self._draft.finish(self._number, snapshot.finish(), snapshot.at, snapshot.secrets, staged)


def _print(record: r.HistoryRecord) -> int:
    """By which it is known again."""
    return hash(r.encode_records([record]))
