"""Merging: segments of which most is discarded are written anew, with what is left; several that follow each other become one.

    A.seg  B.seg  C.seg          of each, most is gone
    A.seg.tmp                    what is left of all three; synced
    A.seg                        in one step, in the place of A: from now on it counts for all three
                                 B and C go

It may end anywhere. A draft is removed at the next opening. Once it has its name, the new file ends where C ended: whoever opens
A, as a checkpoint names it, finds that it has what the checkpoint says of B and C, too, whether they are still there or not.

A frame has messages without a gap, so each run of messages that are left becomes one of its own. The last message always stays,
if only its place: the segment must end where it did. What frames tell of bytes stays the sum that it was: the engine counts what
it superseded by itself. Dedup ids outlive their messages: as long as one may count its message stays, too, without its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortoo.model.offsets import OffsetSet

from . import log as logs
from .codec import MessageBody, MessageHead, encode_rows
from .crypto import KeyRing
from .files import File
from .log import DiskLog
from .segment import Segment

MERGE_BYTES = 256 << 20  # of segments that are read for it after one checkpoint; the others follow
SMALL = 8  # a segment that is so much smaller than others is merged with its neighbours, whatever it holds
FEW = 64  # messages that are not worth it
MANY = 16  # small segments that are


def to_merge(log: DiskLog, few: int | None = None) -> Iterator[list[Segment]]:
    """Segments that are complete, and follow each other, most of which is discarded."""
    together: list[Segment] = []
    left, few = 0, FEW if few is None else few
    for segment in log.segments[:-1]:
        kept = _bytes_left(log, segment)
        fits = (
            segment.is_sealed
            and not segment.is_damaged
            and (SMALL * segment.size <= logs.SEGMENT_BYTES or _is_worth_it(log, segment, few))
        )
        if together and (not fits or left + kept > logs.SEGMENT_BYTES):
            yield from _worth(log, together, few)
            together, left = [], 0
        if fits:
            together.append(segment)
            left += kept
    yield from _worth(log, together, few)


def _worth(log: DiskLog, together: list[Segment], few: int) -> Iterator[list[Segment]]:
    """Small ones at the ends that have nothing to gain stay as they are, but where there are many of them."""
    if len(together) >= MANY or any(_is_worth_it(log, segment, few) for segment in together):
        yield together


def _live(log: DiskLog, segment: Segment) -> int:
    return segment.end - segment.base - log.discarded.count_within(segment.base, segment.end)


def _is_worth_it(log: DiskLog, segment: Segment, few: int) -> bool:
    gone = segment.count - _live(log, segment) - segment.kept
    return gone > few and 2 * gone > segment.count


def _bytes_left(log: DiskLog, segment: Segment) -> int:
    return segment.size * min(_live(log, segment), segment.count) // max(1, segment.count)


class Merge:
    """Of some segments of one log. `gone` and `dedup_since` are as of the moment when it begins."""

    def __init__(self, log: DiskLog, segments: Sequence[Segment], ring: KeyRing, dedup_since: int) -> None:
        self.log = log
        self.segments = list(segments)
        self._ring = ring
        self._dedup_since = dedup_since
        self._gone = log.discarded.within(segments[0].base, segments[-1].end)
        self.bytes = sum(segment.size for segment in segments)

    @property
    def has_key(self) -> bool:
        """Whether what is encrypted can be encrypted again."""
        return self._ring.current is not None or not any(segment.keys for segment in self.segments)

    def write(self) -> Segment:
        """The new one: whole and synced, but without a name. Runs in a thread."""
        log, first = self.log, self.segments[0]
        twin = Segment(log.disk, log.folder, first.base, True, log.files)
        log.disk.remove(twin.draft)
        target = log.disk.open(twin.draft)
        try:
            self._fill(twin, target)
            target.sync()
        except BaseException:
            target.close()
            log.disk.remove(twin.draft)
            raise
        target.close()
        return twin

    def _fill(self, twin: Segment, target: File) -> None:
        log, last = self.log, self.segments[-1].end - 1
        salt = log.disk.salt.within(log.folder).value
        owed = 0  # bytes that were told of what is gone
        for segment in self.segments:
            for which in range(len(segment.bases)):
                base, head, body = segment.read(which, log.topic, log.partition, self._ring)
                owed += head.size
                for rows in self._runs(base, head, body, last):
                    at = (log.topic, log.partition, base + rows.start)
                    blank = {row for row in rows if base + row in self._gone}
                    frame, sealed = encode_rows(at, head, body, rows, blank, owed, self._ring, salt)
                    owed = 0
                    target.append(frame)
                    twin.note(base + rows.start, len(rows), len(frame), sealed)
                    twin.kept += len(blank)
                    if twin.since is None:
                        twin.since = head.timestamps()[rows.start]

    def _runs(self, base: int, head: MessageHead, body: MessageBody, last: int) -> Iterator[range]:
        """Rows that stay, without a gap."""
        stay = OffsetSet.span(base, base + head.count) - self._gone
        if base <= last < base + head.count:
            stay.add(last)
        times = head.timestamps()
        for row, dedup_id in enumerate(body.dedup_ids or ()):
            if dedup_id is not None and times[row] >= self._dedup_since:
                stay.add(base + row)
        while stay:
            first = stay.first()
            after = _gap(stay, first, base + head.count)
            yield range(first - base, after - base)
            stay.remove_span(0, after)


def _gap(offsets: OffsetSet, first: int, end: int) -> int:
    """The first one from there on that is not in the set."""
    low, high = first + 1, end
    while low < high:
        middle = (low + high + 1) // 2
        if offsets.count_within(first, middle) == middle - first:
            low = middle
        else:
            high = middle - 1
    return low
