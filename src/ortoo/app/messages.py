"""The messages of a new data directory: whatever lies whole in a file of the damaged one, or in its write-ahead log, once.

Neither tells all of them. Files of the write-ahead log that an open transaction needs, or something quarantined, are kept when
those between them go, so it has gaps, and what was published there is only in the logs. What came after the last checkpoint is
not in the logs, and what is damaged in them may lie whole in a file of the write-ahead log that was kept. So each fills the
gaps of the other: as far as a checkpoint knows the logs, these come first; from there on, and without a checkpoint from the
beginning, the write-ahead log is told in its order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from ortoo.engine import Engine
from ortoo.engine.partition import Partition
from ortoo.model import records as r
from ortoo.model.names import TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import TopicConfig
from ortoo.stores.disk.checkpoint import Manifest
from ortoo.stores.disk.draft import Draft
from ortoo.stores.disk.log import LogEntry
from ortoo.stores.disk.salvage import Salvage
from ortoo.stores.disk.saved_log import Piece, SavedLog, part_of
from ortoo.stores.disk.saved_publish import saved_publishes

from .losses import Loss, Repair, runs_of
from .retold import NEVER

Place = tuple[TopicId, int]


class Messages:
    def __init__(self, engine: Engine, draft: Draft, salvage: Salvage, repair: Repair) -> None:
        self._engine = engine
        self._draft = draft
        self._salvage = salvage
        self._repair = repair
        self._logs: dict[Place, SavedLog] = {}
        self._manifest: Manifest | None = None
        self._number = 0  # topics up to this one the checkpoint knows, or they are deleted
        self._lost: dict[Place, OffsetSet] = {}
        self._starts: dict[Place, int] = {}  # before it nothing is left, and what was there may have been removed
        self._suspects: dict[Place, int] = {}  # where messages may be missing at the end, and from which on
        self._doubted: set[Place] = set()  # where that was so at some time
        self.ended: set[TopicId] = set()  # topics that were deleted: nothing of them can be missing

    # -- what the files have

    def look(self, manifest: Manifest | None, upto: int) -> None:
        """At all the logs. `upto`: the last commit that the checkpoint contains."""
        self._manifest = manifest
        entries = {} if manifest is None else {(entry.topic, entry.partition): entry for entry in manifest.logs}
        for place in dict.fromkeys([*entries, *self._salvage.partitions()]):
            self._logs[place] = SavedLog(self._salvage, *place, entries.get(place))
        gaps = {place: list(self._logs[place].gaps(entry.start, entry.end)) for place, entry in entries.items()}
        if not any(gaps.values()):
            return
        found: dict[Place, list[Piece]] = defaultdict(list)
        for record, publish in saved_publishes(self._salvage.disk, self._salvage.ring, upto):
            place = (record.topic, record.partition)
            for start, end in gaps.get(place, ()):
                first, after = max(start, record.base), min(end, record.end)
                if first < after:
                    found[place].append(Piece(first, after, publish.path, publish.position, publish.size, publish))
        for place, pieces in found.items():
            self._logs[place].patch(pieces)

    @property
    def are_in_files(self) -> bool:
        return bool(self._logs)

    def copy(self, entry: LogEntry, dedup_since: int) -> r.LogIndex:
        """Into the new directory, as far as the checkpoint knows the log; its state tells the rest of them."""
        log = self._logs[entry.topic, entry.partition]
        self._lost[entry.topic, entry.partition] = OffsetSet()
        for start, end in log.gaps(entry.start, entry.end):
            self._lost[entry.topic, entry.partition].add_span(start, end)
        while log.pieces and log.pieces[0].base < entry.end:
            piece = log.pieces.popleft()
            saved = log.read(piece)
            if piece.end <= entry.start:
                continue
            if saved.raw is not None:
                self._draft.copy(piece.path, saved.raw, saved.records[0], piece.end)
            else:
                self._draft.take(saved.records[0])
        return self._draft.reload(entry.topic, entry.partition, entry.start, dedup_since)

    def restored(self, entries: Sequence[LogEntry]) -> None:
        """The state knows now what was copied."""
        self._number = self._engine.state.number
        for entry in entries:
            partition = self.partition(entry.topic, entry.partition)
            partition.end = partition.confirmed = max(partition.end, entry.end)
            missing = self._lost.pop((entry.topic, entry.partition))
            for start, end in runs_of(missing):
                self._lose((entry.topic, entry.partition), start, end)

    def publish_logs(self, entries: Sequence[LogEntry]) -> None:
        """As far as the checkpoint knows them. Its state is lost, so every message that it knew counts as new."""
        self._number = self._engine.state.number
        for entry in entries:
            place = (entry.topic, entry.partition)
            self._trim(r.Trimmed(self._engine.state.now, *place, entry.start))
            self.fill(place, upto=entry.end)
            self._reach(place, entry.end)

    def _trim(self, record: r.Trimmed) -> None:
        self._go_to(record.topic, record.partition, record.start)
        self._apply(record)
        self._draft.take(record)

    def purge(self, record: r.TopicPurged, partition: int) -> None:
        """Of one partition what it has by now; the others were purged before."""
        place = (record.topic, partition)
        if record.topic in self._engine.state.topics:
            self.fill(place, before=record.at)
            self._trim(r.Trimmed(record.at, *place, self._end(place)))

    def _go_to(self, topic: TopicId, partition: int, end: int) -> None:
        """Offsets before that one are not given again."""
        log = self.make_room(topic, partition, False)
        log.end = log.confirmed = max(log.end, end)

    def _reach(self, place: Place, end: int) -> None:
        """There were messages before that offset, and if they are not here they are lost."""
        start = self._end(place)
        if start < end:
            self._go_to(*place, end)
            self._lose(place, start, end)

    # -- what the write-ahead log has

    def publish(self, record: r.Published, is_secret: bool) -> None:
        place = (record.topic, record.partition)
        self.fill(place, upto=record.base)
        end, after = self._end(place), record.base + record.count
        if after <= end:
            return  # is known already
        record = part_of(record, end, after) if record.base < end else record
        self._append([record], is_secret)
        self._draft.take(record)

    def prepare(self, record: r.Record) -> None:
        """The record builds on messages of before: those of them that only the files have come first."""
        if isinstance(record, r.Trimmed):
            if record.topic in self._engine.state.topics:
                self._go_to(record.topic, record.partition, record.start)
        elif isinstance(record, r.HISTORY_RECORDS):
            self.fill((record.topic, record.partition), upto=max(record.offsets, default=-1) + 1)
        elif isinstance(record, r.TopicPurged | r.GroupCreated | r.GroupSought):
            for place in [place for place in self._logs if place[0] == record.topic]:
                self.fill(place, before=record.at)

    def fill(self, place: Place, upto: int = NEVER, before: int = NEVER) -> None:
        """Goes on with what the files have, up to that offset, as far as it was published before that instant."""
        log = self._logs.get(place)
        while log is not None and log.pieces and place[0] not in self.ended:
            piece, end = log.pieces[0], self._end(place)
            if piece.end <= end:
                log.pieces.popleft()
                continue
            if piece.base >= upto:
                return
            saved = log.read(piece)
            records = list(_within(saved.records, end, upto, before))
            if not records:
                return
            self._append(records, saved.is_secret)
            if saved.raw is not None and sum(record.count for record in records) == piece.end - piece.base:
                self._draft.copy(piece.path, saved.raw, records[0], piece.end)
                continue
            for record in records:
                self._draft.take(record)

    def _append(self, records: list[r.Published], is_secret: bool) -> None:
        """To the state; they come next, and what lies before them and is not there is lost."""
        place, base = (records[0].topic, records[0].partition), records[0].base
        end = self.make_room(*place, is_secret).end
        for record in records:
            self._apply(record)
        self._suspects.pop(place, None)
        if end == 0 and base > 0 and self._manifest is None and not self._repair.state_kept:
            self._starts[place] = base
            self._trim(r.Trimmed(records[0].at, *place, base))
        elif end < base:
            self._lose(place, end, base)

    # -- what is lost

    def suspect(self, topic: TopicId, partition: int) -> None:
        """Some of its messages may have come next, and are lost."""
        self._suspects[topic, partition] = self._end((topic, partition))
        self._doubted.add((topic, partition))

    def _lose(self, place: Place, start: int, end: int) -> None:
        log = self.partition(*place)
        start = max(start, log.start)
        missing = OffsetSet.span(start, end) if end > start else OffsetSet()
        missing.subtract(log.deleted)
        if missing:
            self._lost.setdefault(place, OffsetSet()).update(missing)
            self._engine.apply(r.Deleted(self._engine.state.now, *place, missing))

    def delete(self, record: r.Deleted | r.Superseded) -> None:
        """History tells that they were: then they are not lost, either."""
        place = (record.topic, record.partition)
        if record.topic in self.ended or record.topic not in self._engine.state.topics:
            return
        log = self.make_room(*place, False)
        if place in self._lost:
            self._lost[place].subtract(record.offsets)
        offsets = record.offsets.within(log.start, log.end)
        if offsets:
            self._engine.apply(r.Deleted(self._engine.state.now, *place, offsets))

    def finish(self) -> None:
        """What the files have behind all that the write-ahead log tells."""
        for place, log in self._logs.items():
            if place[0] in self.ended or (place[0] not in self._engine.state.topics and self._is_old(log)):
                continue
            self.make_room(*place, False)
            self.fill(place)
            self._reach(place, log.told_end)
            if log.is_torn and (self._manifest is None or place in self._doubted):
                self._suspects.setdefault(place, self._end(place))

    def _is_old(self, log: SavedLog) -> bool:
        """Whether it belongs to a topic that was deleted before the checkpoint, and was not removed yet."""
        if self._manifest is None:
            return False
        return not log.pieces or log.topic <= self._number or log.read(log.pieces[0]).records[0].at < self._manifest.at

    def losses(self) -> Iterator[Loss]:
        for place, start in self._starts.items():
            yield Loss(self._name(place[0]), *place, 0, start, certain=False)
        for place, lost in self._lost.items():
            if place[0] in self._engine.state.topics:
                for first, end in runs_of(lost.within(self.partition(*place).start, NEVER)):
                    yield Loss(self._name(place[0]), *place, first, end)
        for place, start in self._suspects.items():
            yield Loss(self._name(place[0]), *place, start, None)

    def _name(self, topic: TopicId) -> str:
        found = self._engine.state.topics.get(topic)
        return str(found.name) if found is not None else f"number {topic}"

    # -- the state

    def _apply(self, record: r.Record) -> None:
        self._engine.apply(record)
        self._engine.confirm(record)

    def partition(self, topic: TopicId, partition: int) -> Partition:
        return self._engine.state.topics[topic].partitions[partition]

    def _end(self, place: Place) -> int:
        topic = self._engine.state.topics.get(place[0])
        return topic.partitions[place[1]].end if topic is not None and place[1] < len(topic.partitions) else 0

    def make_room(self, topic: TopicId, partition: int, is_secret: bool) -> Partition:
        """The partition, made if what made it is lost. What was encrypted stays so."""
        found = self._engine.state.topics.get(topic)
        config = TopicConfig(partitions=partition + 1) if found is None else found.config
        config = msgspec.structs.replace(
            config, partitions=max(config.partitions, partition + 1), encrypted=config.encrypted or is_secret
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
        return self.partition(topic, partition)


def _within(records: list[r.Published], start: int, end: int, before: int) -> Iterator[r.Published]:
    """What of them lies between these offsets, and was published before that instant."""
    for record in records:
        first, after = max(start, record.base), min(end, record.base + record.count)
        if first < after and record.at < before:
            yield (
                record if (first, after) == (record.base, record.base + record.count) else part_of(record, first, after)
            )
