"""Making the best of a damaged data directory: a new one with everything that can be read, and a list of what cannot.

The damaged directory is never changed; it is kept beside the new one under another name. Lost messages leave deleted,
empty ones in their places, so that offsets and ids of the others stay what they were.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from pathlib import Path

import msgspec

from ortoo.engine import Engine
from ortoo.model import records as r
from ortoo.model.batch import Batch
from ortoo.model.errors import ExistsError, NotFoundError, UnavailableError
from ortoo.model.names import TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import TopicConfig
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk, load_keys
from ortoo.stores.disk.checkpoint import Manifest
from ortoo.stores.disk.lock import DirectoryLock
from ortoo.stores.disk.log import IndexBuilder
from ortoo.stores.disk.salvage import Salvage, SavedFrame


class Loss(msgspec.Struct, frozen=True):
    """Messages that are gone."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        what = f"message {self.start}" if self.end - self.start == 1 else f"messages {self.start} to {self.end - 1}"
        return f"{what} of partition {self.partition} of topic {self.topic!r}"


class Repair(msgspec.Struct):
    messages: int = 0
    losses: list[Loss] = []
    skipped_records: int = 0  # of deliveries and settlements that make no sense without what was lost
    complaints: list[str] = []
    damaged: str = ""  # where the damaged directory is kept


def repair_directory(path: Path, keys: str | dict[str, bytes] | None = None) -> Repair:
    """Repairs in place: afterwards `path` is whole, and the damaged directory lies beside it."""
    if not path.is_dir():
        raise NotFoundError(f"there is no directory {path}")
    if not (path / "FORMAT").exists() and not (path / "wal").is_dir():
        raise NotFoundError(f"{path} is not a data directory of Ortoo, so there is nothing to repair")
    lock = DirectoryLock(path)
    lock.acquire()
    try:
        draft, aside = _beside(path, "repairing"), _beside(path, "damaged")
        draft.mkdir()
        ring = KeyRing(load_keys(keys))
        work = _Work(Salvage(RealDisk(path), ring))
        work.read()
        asyncio.run(work.write(DiskStore(RealDisk(draft), ring)))
    finally:
        lock.release()
    path.rename(aside)
    draft.rename(path)
    work.repair.damaged = str(aside)
    return work.repair


def _beside(path: Path, word: str) -> Path:
    for number in range(1, 1000):
        candidate = path.parent / f"{path.name}.{word}-{number}"
        if not candidate.exists():
            return candidate
    raise ExistsError(f"there are too many {word} directories beside {path}; remove some")


class _Work:
    def __init__(self, salvage: Salvage) -> None:
        self.salvage = salvage
        self.repair = Repair(losses=[], complaints=salvage.complaints)
        self.engine = Engine()
        self.frames: dict[tuple[TopicId, int], list[SavedFrame]] = {}
        self.appended: list[r.Published] = []
        self.happenings: dict[tuple[TopicId, int], list[r.Happening]] = {}
        self.first_numbers: dict[tuple[TopicId, int], int] = {}  # of the happenings
        self.left_out: Counter[tuple[TopicId, int]] = Counter()  # happenings that had a number

    # -- reading

    def read(self) -> None:
        checkpoint, manifest = self.salvage.checkpoint()
        self._read_frames(manifest)
        if checkpoint is not None:
            self._restore(checkpoint.snapshot, checkpoint.manifest)
        else:
            self._start_over(manifest)
        for records in self.salvage.commits(checkpoint):
            for record in records:
                self._take(record)
        ends = {(history.topic, history.partition): history.end for history in manifest.histories} if manifest else {}
        for place in self.frames:
            self._read_history(place, ends.get(place, 0))
        if any("encryption key" in complaint for complaint in self.salvage.complaints):
            raise UnavailableError("some topics are encrypted and their keys were not given; repairing would lose them")

    def _read_history(self, place: tuple[TopicId, int], known_end: int) -> None:
        """Where some are lost, the older ones close up: what happens next must not get a number that was told already."""
        saved, end = self.salvage.happenings(*place)
        self.first_numbers[place] = max(end, known_end) - len(saved) + self.left_out[place]
        self.happenings[place] = saved + self.happenings.get(place, [])

    def _read_frames(self, manifest: Manifest | None) -> None:
        if manifest is None:
            for topic, partition in self.salvage.partitions():
                self.frames[topic, partition] = self.salvage.frames(topic, partition, None)
            return
        for entry in manifest.logs:
            sizes = {segment.base: segment.size for segment in entry.segments}
            self.frames[entry.topic, entry.partition] = self.salvage.frames(entry.topic, entry.partition, sizes)

    def _restore(self, snapshot: bytes, manifest: Manifest) -> None:
        indexes, gaps = [], []
        for entry in manifest.logs:
            frames = self.frames[entry.topic, entry.partition]
            first = entry.segments[0].base if entry.segments else entry.end
            indexes.append(_index(entry.topic, entry.partition, first, entry.end, frames))
            gaps.append((entry.topic, entry.partition, _gaps(max(first, entry.start), entry.end, frames)))
        self.engine.apply(r.Restored(manifest.at, snapshot, indexes))
        for topic, partition, missing in gaps:
            for start, end in missing:
                self._lose(topic, partition, start, end)

    def _start_over(self, manifest: Manifest | None) -> None:
        """Without the state, every message counts as new: topics and their messages, but no groups."""
        topics = {TopicId(t.id): (t.namespace, t.name, t.config) for t in manifest.topics} if manifest else {}
        for topic, partition in self.frames:
            if topic not in topics:
                count = 1 + max(p for t, p in self.frames if t == topic)
                topics[topic] = ("default", f"recovered-{topic}", TopicConfig(partitions=count))
            del partition
        for topic, (namespace, name, config) in topics.items():
            self.engine.apply(r.TopicCreated(0, topic, namespace, name, config))
        for (topic, partition), frames in self.frames.items():
            for frame in frames:
                for record in _to_published(topic, partition, frame):
                    self._publish(record, keep=False)

    def _take(self, record: r.Record) -> None:
        if isinstance(record, r.Published):
            self._publish(record, keep=True)
            return
        try:
            self.engine.apply(record)
        except (KeyError, IndexError, AssertionError):
            self.repair.skipped_records += 1
            if isinstance(record, r.HAPPENINGS):
                self.left_out[record.topic, record.partition] += 1
            return
        if isinstance(record, r.HAPPENINGS):
            self.happenings.setdefault((record.topic, record.partition), []).append(record)

    def _publish(self, record: r.Published, keep: bool) -> None:
        topic = self.engine.state.topics.get(record.topic)
        if topic is None:
            self.repair.skipped_records += 1
            return
        end = topic.partitions[record.partition].end
        if record.base < end:
            return  # known already
        if record.base > end:
            filler = r.Published(
                record.at, record.topic, record.partition, end, record.base - end, 0, _blanks(record.base - end)
            )
            self.engine.apply(filler)
            self.appended.append(filler)
            self._lose(record.topic, record.partition, end, record.base)
        self.engine.apply(record)
        self.engine.confirm(record)
        if keep:
            self.appended.append(record)

    def _lose(self, topic_id: TopicId, partition: int, start: int, end: int) -> None:
        topic = self.engine.state.topics.get(topic_id)
        if topic is not None:
            self.engine.apply(r.Deleted(self.engine.state.now, topic_id, partition, OffsetSet.span(start, end)))
            self.repair.losses.append(Loss(str(topic.name), partition, start, end))

    # -- writing

    async def write(self, store: DiskStore) -> None:
        async for _ in store.recover():
            pass
        state = self.engine.state
        for topic in state.topics.values():
            record = r.TopicCreated(topic.created, topic.id, *topic.name, topic.config)
            store.adopt(record)
        for (topic_id, partition), frames in self.frames.items():
            if topic_id in state.topics:
                for frame in frames:
                    for published in _to_published(topic_id, partition, frame):
                        self.repair.messages += published.count
                        store.adopt(published)
        for appended in self.appended:
            if appended.topic in state.topics:
                self.repair.messages += appended.count
                store.adopt(appended)
        for place, happenings in self.happenings.items():
            if place[0] in state.topics:
                store.adopt_history(*place, self.first_numbers.get(place, self.left_out[place]), happenings)
        await store.checkpoint(self.engine.snapshot(), state.now)
        await store.close()


def _blanks(count: int) -> Batch:
    return Batch([b""] * count)


def _gaps(start: int, end: int, frames: list[SavedFrame]) -> list[tuple[int, int]]:
    gaps = []
    for frame in frames:
        if frame.base > start:
            gaps.append((start, frame.base))
        start = max(start, frame.base + frame.head.count)
    if start < end:
        gaps.append((start, end))
    return gaps


def _index(topic: TopicId, partition: int, start: int, end: int, frames: list[SavedFrame]) -> r.LogIndex:
    """As the log would tell it, with the gaps filled by messages without a key."""
    builder = IndexBuilder(topic, partition)
    for frame in frames:
        builder.add(frame.base, frame.head)
        builder.add_private(frame.base, frame.head, frame.body)
    index = builder.build()
    keys = [*index.keys, *((first, last - first, None) for first, last in _gaps(start, end, frames))]
    return msgspec.structs.replace(index, keys=sorted(keys, key=lambda run: run[0]))


def _to_published(topic: TopicId, partition: int, frame: SavedFrame) -> list[r.Published]:
    """A frame as the records it was made of, one per instant."""
    times = array("Q", frame.head.timestamps())
    hashes = frame.head.hashes or frame.body.hashes
    records = []
    at = 0
    while at < len(times):
        upto = at + 1
        while upto < len(times) and times[upto] == times[at]:
            upto += 1
        body, head = frame.body, frame.head
        batch = Batch(
            body.values[at:upto],
            body.keys[at:upto] if body.keys else None,
            body.headers[at:upto] if body.headers else None,
            head.priorities[at:upto] if head.priorities else None,
            head.json[at:upto] if head.json else None,
            dedup_ids=body.dedup_ids[at:upto] if body.dedup_ids else None,
        )
        size = sum(map(len, batch.values))
        keyed = hashes[8 * at : 8 * upto] if hashes else None
        records.append(r.Published(times[at], topic, partition, frame.base + at, upto - at, size, batch, keyed))
        at = upto
    return records
