"""What the rows of a log tell the engine when it is opened: instants, sizes, key hashes, dedup ids that may still count."""

from __future__ import annotations

from array import array

from ortoo.model.names import TopicId
from ortoo.model.records import LogIndex

from .rows import Row, Stretch, unpack_instants, unpacked


class IndexBuilder:
    """The columns of many rows are never expanded to one entry a message, where they are not by themselves."""

    def __init__(self, topic: TopicId, partition: int) -> None:
        self._place = topic, partition
        self._offsets: array[int] = array("Q")
        self._times: array[int] = array("Q")
        self._sizes: list[int] = []
        self._keys: list[tuple[int, int, bytes | None]] = []
        self._dedup_ids: list[tuple[str, int, int]] = []

    def add(self, row: Row, hashes: bytes | None) -> None:
        """`hashes`: of its keys, which may have had to be decrypted."""
        offsets = None if row.gaps is None else unpacked(row.gaps)
        for first, at in unpack_instants(row.at, row.times):
            if not self._times or self._times[-1] != at:
                self._offsets.append(row.base + (first if offsets is None else offsets[first]))
                self._times.append(at)
                self._sizes.append(0)
        self._sizes[-1] += row.size  # to the row's last instant: exact enough for retention by bytes
        if offsets is None:
            self._keys.append((row.base, row.messages, hashes))
            return
        start = 0
        for place in range(1, len(offsets) + 1):
            if place == len(offsets) or offsets[place] != offsets[place - 1] + 1:
                some = None if hashes is None else hashes[8 * start : 8 * place]
                self._keys.append((row.base + offsets[start], place - start, some))
                start = place

    def add_ids(self, stretch: Stretch) -> None:
        ids = stretch.columns.get("dedup_ids") or ()
        for offset, time, dedup_id in zip(stretch.offsets, stretch.timestamps(), ids, strict=False):
            if dedup_id is not None:
                self._dedup_ids.append((dedup_id, time, offset))

    def build(self) -> LogIndex:
        times = self._offsets.tobytes(), self._times.tobytes()
        return LogIndex(*self._place, *times, self._sizes, self._keys, self._dedup_ids)
