"""What a log tells the engine of itself when it is opened: instants, sizes, key hashes, dedup ids that may still count."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

from ortoo.model.names import TopicId
from ortoo.model.records import LogIndex

from .codec import MessageHead
from .logged import LoggedPublish


class IndexBuilder:
    """Collects what the heads of a log's frames tell, and then its blocks."""

    def __init__(self, topic: TopicId, partition: int, dedup_since: int = 0) -> None:
        self._topic = topic
        self._partition = partition
        self._dedup_since = dedup_since
        self._offsets: array[int] = array("Q")
        self._times: array[int] = array("Q")
        self._sizes: list[int] = []
        self._keys: list[tuple[int, int, bytes | None]] = []
        self._dedup_ids: list[tuple[str, int, int]] = []
        self.blocks = 0  # how many were added
        self.end = 0  # of the last one

    def add(self, base: int, head: MessageHead) -> None:
        if isinstance(head.times, int):
            self._add_time(base, head.times)
        else:  # they ascend, and few of them differ
            times, at = array("Q", head.times), 0
            while at < len(times):
                self._add_time(base + at, times[at])
                at = bisect_right(times, times[at], at)
        self._sizes[-1] += head.size  # to the frame's last instant: exact enough for retention by bytes
        if not (head.sealed and head.has_keys):
            self._keys.append((base, head.count, head.hashes))

    def _add_time(self, offset: int, time: int) -> None:
        if not self._times or self._times[-1] != time:
            self._offsets.append(offset)
            self._times.append(time)
            self._sizes.append(0)

    def add_private(self, base: int, head: MessageHead, body: object) -> None:
        hashes, ids = getattr(body, "hashes", None), getattr(body, "dedup_ids", None)
        if head.sealed and head.has_keys:
            self._keys.append((base, head.count, hashes))
        self._add_ids(base, zip(ids or (), head.timestamps(), strict=False))

    def _add_ids(self, base: int, ids: Iterable[tuple[str | None, int]]) -> None:
        for offset, (dedup_id, time) in enumerate(ids, base):
            if dedup_id is not None:
                self._dedup_ids.append((dedup_id, time, offset))

    def add_block(self, record: LoggedPublish) -> None:
        self._add_time(record.base, record.at)
        self._sizes[-1] += record.size
        self._keys.append((record.base, record.count, record.key_hashes))
        if record.batch.dedup_ids and record.at >= self._dedup_since:
            self._add_ids(record.base, ((dedup_id, record.at) for dedup_id in record.dedup_ids()))
        self.blocks, self.end = self.blocks + 1, record.end

    def build(self) -> LogIndex:
        return LogIndex(
            self._topic,
            self._partition,
            self._offsets.tobytes(),
            self._times.tobytes(),
            self._sizes,
            self._keys,
            self._dedup_ids,
        )
