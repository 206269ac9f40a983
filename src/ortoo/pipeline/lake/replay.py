"""What was published, from the archive and then from the log: also what retention removed, was purged or deleted since.

Each partition comes in its order, without a gap and without a repeat where the archive ends and the log goes on. What was
archived together comes oldest first over all partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import chain, groupby, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ortoo.client import SyncQueue
from ortoo.model.errors import NotFoundError
from ortoo.model.message import Delivery, Received
from ortoo.model.names import TopicId, TopicName

from .layout import MESSAGES, Lake
from .manifest import Manifest, load

_BATCH = 1000

Tell = Callable[[str], None]


class Replay:
    """`tell` hears of messages that are neither in the archive nor in the log."""

    def __init__(
        self,
        queue: SyncQueue,
        lake: Lake,
        topic: str,
        *,
        from_time: float | None = None,
        to_time: float | None = None,
        partition: int | None = None,
        tell: Tell = lambda _: None,
    ) -> None:
        self._queue = queue
        self._lake = lake
        self._topic = topic
        self._from_time = from_time
        self._to_time = to_time
        self._partition = partition
        self._tell = tell
        self._namespace = ""
        self._at: dict[tuple[int, int], int] = {}  # by incarnation and partition: what lies before was replayed

    def batches(self) -> Iterator[list[Received]]:
        manifest = self._manifest()
        self._namespace = manifest.namespace
        try:
            info = self._queue.topic(self._topic)
        except NotFoundError:
            if self._topic not in manifest.messages:
                raise
            yield from self._archived(manifest)  # deleted; the archive is all there is
            return
        yield from self._archived(manifest)
        partitions = list(range(len(info.partitions))) if self._partition is None else [self._partition]
        for index in partitions:
            yield from self._meet_log(info.id, index)
        yield from self._logged(info.id, partitions)

    def ends(self, topic: TopicId) -> dict[int, int]:
        """Where the replay of the topic, as it is now, got to."""
        return {partition: at for (owner, partition), at in self._at.items() if owner == topic}

    def _manifest(self) -> Manifest:
        found = load(self._lake)
        if found is None:
            raise NotFoundError(f"nothing was archived in {self._lake} yet; `ortoo pipeline archive --to {self._lake}`")
        return found

    # -- the log

    def _meet_log(self, topic: TopicId, index: int) -> Iterator[list[Received]]:
        """The log may begin only after the place where the archive ended when it was looked at: then that has gone on, too."""
        place = (topic, index)
        while (first := self._queue.offsets(self._topic, at="start")[index]) > self._at.get(place, 0):
            manifest = self._manifest()
            if manifest.messages.get(self._topic, {}).get(topic, {}).get(index, 0) <= self._at.get(place, 0):
                at = self._at.get(place, 0)
                self._tell(f"messages {at} to {first - 1} of partition {index} are neither archived nor in the log")
                self._at[place] = first
                return
            yield from self._archived(manifest)

    def _logged(self, topic: TopicId, partitions: list[int]) -> Iterator[list[Received]]:
        readers = [
            self._queue.read_batches(
                self._topic,
                from_offset=self._at.get((topic, index), 0),
                to_time=self._to_time,
                partition=index,
                batch=_BATCH,
            )
            for index in partitions
        ]
        merged = merge(*map(chain.from_iterable, readers), key=lambda message: message.timestamp_ms)
        while batch := list(islice(merged, _BATCH)):
            for message in batch:
                self._at[topic, message.partition] = message.offset + 1
            kept = [message for message in batch if message.timestamp >= (self._from_time or 0)]
            if kept:
                yield kept

    # -- the archive

    def _archived(self, manifest: Manifest) -> Iterator[list[Received]]:
        """What the manifest vouches for, from where the replay stands."""
        upto = {
            (topic, partition): end
            for topic, ends in manifest.messages.get(self._topic, {}).items()
            for partition, end in ends.items()
        }
        while True:
            try:
                yield from self._pass(upto)
                break
            except FileNotFoundError:
                continue  # it was merged with others just now; what was replayed already is known
        for place, end in upto.items():
            if self._partition in (None, place[1]):
                self._at[place] = max(end, self._at.get(place, 0))

    def _pass(self, upto: dict[tuple[int, int], int]) -> Iterator[list[Received]]:
        files = self._lake.files(MESSAGES, self._topic)
        for _, together in groupby(files, key=lambda path: (path.parent, path.name.partition("-")[0])):
            table = pa.concat_tables([self._read(path) for path in together])
            if len(table):
                order = [("timestamp", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
                yield from self._messages(table.sort_by(order), upto)

    def _read(self, path: Path) -> pa.Table:
        table = pq.ParquetFile(path).read()
        if self._partition is not None:
            table = table.filter(pc.equal(table["partition"], self._partition))
        for time, compare in ((self._from_time, pc.greater_equal), (self._to_time, pc.less)):
            if time is not None:
                bound = pa.scalar(round(time * 1000) * 1000, pa.timestamp("us", tz="UTC"))
                table = table.filter(compare(table["timestamp"], bound))
        return table

    def _messages(self, table: pa.Table, upto: dict[tuple[int, int], int]) -> Iterator[list[Received]]:
        deliveries: dict[tuple[int, int], Delivery] = {}
        for batch in table.to_batches(max_chunksize=_BATCH):
            found = []
            for row in batch.to_pylist():
                place = (int(row["id"].partition(".")[0]), row["partition"])
                if not self._at.get(place, 0) <= row["offset"] < upto.get(place, 0):
                    continue
                if place not in deliveries:
                    name = TopicName(self._namespace, self._topic)
                    deliveries[place] = Delivery(name, TopicId(place[0]), place[1])
                found.append(_received(row, deliveries[place]))
                self._at[place] = row["offset"] + 1
            if found:
                yield found


def _received(row: dict[str, object], delivery: Delivery) -> Received:
    key, headers = row["key"], row["headers"]
    return Received(
        row["value"],  # type: ignore[arg-type]
        key.decode() if isinstance(key, bytes) else None,
        {one["key"]: one["value"].decode() for one in headers} if headers else None,  # type: ignore[attr-defined]
        row["priority"],  # type: ignore[arg-type]
        round(row["timestamp"].timestamp() * 1000),  # type: ignore[attr-defined]
        bool(row["json"]),
        1,
        row["offset"],  # type: ignore[arg-type]
        delivery,
    )


def replay(
    queue: SyncQueue,
    topic: str,
    lake: str | Path,
    *,
    from_time: float | None = None,
    to_time: float | None = None,
    partition: int | None = None,
    tell: Tell = lambda _: None,
) -> Iterator[Received]:
    """Every message of the topic since that time, archived or not. Needs pyarrow; no Spark, and no group moves."""
    job = Replay(
        queue, Lake.existing(lake), topic, from_time=from_time, to_time=to_time, partition=partition, tell=tell
    )
    for batch in job.batches():
        yield from batch
