"""What the store keeps in memory of messages, so that most are never read from the disk: those published last, and the frames
read last. Both are bounded, whatever the number of partitions."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from ortoo.model.records import Published
from ortoo.model.replies import Columns
from ortoo.stores.stretch import Stretch

RECENT_BYTES = 48 << 20
FRAMES_BYTES = 32 << 20
_MESSAGE_BYTES = 64  # what a message takes beside its content
_HEADERS_BYTES, _HEADER_BYTES = 250, 100  # and its headers, and each of them
_SAMPLE = [at * 0.6180339887 % 1 for at in range(32)]  # messages that are looked at for that: spread, in no rhythm
_STRETCH_BYTES = 2_000  # and a stretch, with the log that it belongs to, which may be gone
_SMALL, _FULL = 256, 4_096  # messages: fewer are put together, so many at most


def memory_of(count: int, content: int, headers: Sequence[Mapping[str, str] | None] | None) -> int:
    """About what so many messages take, with so many bytes of values, keys and headers. Objects take much more than what is in
    them, and those for headers are many; how many, a few messages tell."""
    taken = content + _MESSAGE_BYTES * count
    if headers:
        some = headers if len(headers) <= len(_SAMPLE) else [headers[int(part * len(headers))] for part in _SAMPLE]
        taken += sum([_HEADERS_BYTES + _HEADER_BYTES * len(one) for one in some if one]) * count // len(some)
    return taken


class RecentStretch(Stretch):
    """Messages that follow each other, of one publish or of several small ones."""

    __slots__ = ("is_full", "memory")

    def __init__(self, base: int) -> None:
        super().__init__(base)
        self.is_full = False
        self.memory = _STRETCH_BYTES

    def take(self, record: Published) -> int:
        """Returns the bytes that it takes."""
        if record.count >= _SMALL:
            self._borrow(record)
        else:
            self.append(record)
        self.is_full = self.is_full or len(self.values) >= _FULL
        taken = memory_of(record.count, record.size, record.batch.headers)
        self.memory += taken
        return taken

    def _borrow(self, record: Published) -> None:
        """A large publish is columns already; they are never changed, so they need no copy."""
        batch = record.batch
        self.values, self.timestamps = batch.values, [record.at] * record.count
        self.keys, self.headers, self.priorities, self.json = batch.keys, batch.headers, batch.priorities, batch.json
        self.dedup_ids, self.publishers = batch.dedup_ids, record.publishers
        self.is_full = True


class Owner(Protocol):
    """A log."""

    recent: list[RecentStretch]


class Recent:
    """What was published last, the oldest goes first."""

    def __init__(self, bytes_max: int | None = None) -> None:
        self._bytes_max = RECENT_BYTES if bytes_max is None else bytes_max
        self._bytes = 0
        self._order: deque[tuple[Owner, RecentStretch]] = deque()

    def add(self, log: Owner, record: Published) -> None:
        stretch = log.recent[-1] if log.recent else None
        if stretch is None or stretch.is_full or stretch.end != record.base or record.count >= _SMALL:
            stretch = RecentStretch(record.base)
            log.recent.append(stretch)
            self._order.append((log, stretch))
            self._bytes += stretch.memory
        self._bytes += stretch.take(record)
        while self._bytes > self._bytes_max:
            owner, oldest = self._order.popleft()
            self._bytes -= oldest.memory
            oldest.is_full, oldest.memory = True, 0
            if owner.recent and owner.recent[0] is oldest:  # else it was trimmed
                del owner.recent[0]


class FrameCache:
    """The frame that was read last, by log; those of the logs that were read last."""

    def __init__(self) -> None:
        self._bytes_max = FRAMES_BYTES
        self._bytes = 0
        self._found: OrderedDict[object, tuple[Columns, int]] = OrderedDict()

    def get(self, log: object, offset: int) -> Columns | None:
        found = self._found.get(log)
        if found is None or not found[0].offsets[0] <= offset <= found[0].offsets[-1]:
            return None
        self._found.move_to_end(log)
        return found[0]

    def put(self, log: object, frame: Columns, content: int) -> None:
        """`content`: bytes of its values, keys and headers."""
        self.drop(log)
        size = memory_of(len(frame), content, frame.headers)
        self._found[log] = (frame, size)
        self._bytes += size
        while self._bytes > self._bytes_max and len(self._found) > 1:
            self._bytes -= self._found.popitem(last=False)[1][1]

    def drop(self, log: object) -> None:
        found = self._found.pop(log, None)
        if found is not None:
            self._bytes -= found[1]
