"""What was published, from the archive and then from the log: also what retention removed, was purged or deleted since.

Each partition comes in its order, without a gap and without a repeat where the archive ends and the log goes on. Over all
partitions it is oldest first, as far as the archive's messages fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import chain, islice
from pathlib import Path

from ortoo.client import SyncQueue
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.message import Received
from ortoo.model.names import TopicName
from ortoo.model.replies import TopicInfo

from .archived import Archived, Span
from .layout import Lake
from .manifest import Manifest, Place, load

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
        self._span = Span(from_time, to_time, partition)
        self._tell = tell
        self._archived = Archived(lake, TopicName(self._manifest().namespace, topic), self._span)

    def batches(self) -> Iterator[list[Received]]:
        """All that is there."""
        manifest = self._manifest()
        info = self._info()
        upto = _ends(manifest, self._topic)
        if info is None and not upto:
            self._queue.topic(self._topic)  # raises
        wanted = self._span.partition
        known = {partition for _, partition in upto} | set(range(0 if info is None else len(info.partitions)))
        if wanted is not None and wanted not in known:
            raise InvalidError(f"topic {self._topic!r} has partitions 0 to {max(known, default=0)}, not {wanted}")
        yield from self._archived.batches({place: end for place, end in upto.items() if wanted in (None, place[1])})
        yield from self.more()

    def more(self) -> Iterator[list[Received]]:
        """What has come since."""
        info = self._info()
        if info is None:
            return  # deleted; the archive is all there is
        indexes = [part.partition for part in info.partitions if self._span.partition in (None, part.partition)]
        readers = [self._partition((info.id, index)) for index in indexes]
        merged = merge(*readers, key=lambda message: message.timestamp_ms)
        while batch := list(islice(merged, _BATCH)):
            yield batch

    def _info(self) -> TopicInfo | None:
        try:
            return self._queue.topic(self._topic)
        except NotFoundError:
            return None

    def _manifest(self) -> Manifest:
        found = load(self._lake)
        if found is None:
            raise NotFoundError(f"nothing was archived in {self._lake} yet; `ortoo pipeline archive --to {self._lake}`")
        return found

    # -- the log, and where it begins

    def _partition(self, place: Place) -> Iterator[Received]:
        """From where the replay stands, wherever that is by now: retention may be at work meanwhile, and the archive, too."""
        at = self._archived.at
        at[place] = max(at.get(place, 0), self._since(place))
        is_trimmed = True
        while is_trimmed:
            for batch in self._read(place):
                if batch[0].delivery.topic_id != place[0]:
                    return  # deleted, and made again since
                if batch[0].offset > at[place]:
                    yield from self._missing(place, batch[0].offset)
                for message in batch:
                    if message.offset >= at[place]:
                        at[place] = message.offset + 1
                        yield message
            first = self._first(place)
            is_trimmed = first > at[place]
            if is_trimmed:
                yield from self._missing(place, first)

    def _read(self, place: Place) -> Iterator[list[Received]]:
        return self._queue.read_batches(
            self._topic,
            from_offset=self._archived.at[place],
            to_time=self._span.to_time,
            partition=place[1],
            batch=_BATCH,
        )

    def _since(self, place: Place) -> int:
        """The first that is asked for, if the log knows it: then what may be missing before it is of no interest."""
        if self._span.from_time is None:
            return 0
        since = self._queue.offsets(self._topic, time=self._span.from_time)[place[1]]
        return since if since > self._first(place) else 0

    def _first(self, place: Place) -> int:
        return self._queue.offsets(self._topic, at="start")[place[1]]

    def _missing(self, place: Place, until: int) -> Iterator[Received]:
        """The log has nothing before `until`: removed, and archived meanwhile; or deleted one by one; or gone."""
        at = self._archived.at
        end = min(until, _ends(self._manifest(), self._topic).get(place, 0))
        if end > at[place]:
            yield from chain.from_iterable(self._archived.batches({place: end}))
        first = min(until, self._first(place))
        if at[place] < first:
            self._tell(
                f"messages {at[place]} to {first - 1} of partition {place[1]} are neither archived nor in the log"
            )
        at[place] = max(at[place], until)


def _ends(manifest: Manifest, topic: str) -> dict[Place, int]:
    return {
        (incarnation, partition): end
        for incarnation, ends in manifest.messages.get(topic, {}).items()
        for partition, end in ends.items()
    }


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
    return chain.from_iterable(job.batches())
