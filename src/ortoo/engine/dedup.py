"""Which dedup ids were published lately, and where the first message with each lies.

Each topic remembers its own, by its own window and count. Where a namespace shares them, `SharedIds` knows which topic to ask.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat
from typing import Any

from ortoo.model.names import MessageRef, TopicId, refs_of
from ortoo.model.records import Published

SharedIds = dict[str, TopicId]
Known = tuple[int, int, int]  # when; partition and offset of the message
Seen = dict[str, Known]

_SUFFIX_CHARS = 17


def with_keys(ids: Sequence[Any], hashes: Sequence[int]) -> list[Any]:
    """What ids are called where each key has its own; None stays None."""
    suffixes = {key: f"\x1f{key:016x}" for key in set(hashes)}
    if len(suffixes) == 1:  # as mostly
        [suffix] = suffixes.values()
        return [None if dedup_id is None else dedup_id + suffix for dedup_id in ids]
    rows = zip(ids, hashes, strict=True)
    return [None if dedup_id is None else dedup_id + suffixes[key] for dedup_id, key in rows]


def ids_in(record: Published, *, has_keys: bool) -> tuple[list[str], Iterable[Known]]:
    """What a record has, and where: names with keys where each key has its own."""
    ids: list[Any] = record.batch.dedup_ids or []
    offsets: Sequence[int] = range(record.base, record.base + len(ids))
    names = with_keys(ids, _hashes(record, len(ids))) if has_keys else ids
    if None in ids:
        rows = [row for row, dedup_id in enumerate(ids) if dedup_id is not None]
        names, offsets = [names[row] for row in rows], [offsets[row] for row in rows]
    return names, zip(repeat(record.at), repeat(record.partition), offsets)


def _hashes(record: Published, count: int) -> array[int]:
    return array("Q", record.key_hashes or bytes(8 * count))


def without_key(name: str) -> str:
    return name[:-_SUFFIX_CHARS]


def split(name: str) -> tuple[str, int | None]:
    """An id, and the hash of the key that it is said to be of, if it is."""
    if name[-_SUFFIX_CHARS : 1 - _SUFFIX_CHARS] != "\x1f":
        return name, None
    try:
        return without_key(name), int(name[1 - _SUFFIX_CHARS :], 16)
    except ValueError:
        return name, None


class DedupTable:
    """Of one topic; bounded by age and by count.

    `seen` is in the order of age. But to find the oldest in it, all that was taken from its front would have to be passed over,
    so the ids are in line once more. One that was taken from the midst leaves its place in the line `vacant`.

    Where each key has ids of its own, they are here under their names with the key, and `latest` tells which that is, of the
    last message with an id.

    What was forgotten stays so, though a log still has it: `forgotten` is the instant up to which a log's own ids count for
    nothing, those of that very instant unless they come after `ends`, by partition: in each, they come in the order of
    offsets. What is `outdated` counts for nothing even while it is here.
    """

    __slots__ = ("_latest", "_line", "_topic", "_vacant", "ends", "forgotten", "outdated", "seen")

    def __init__(self, topic: TopicId) -> None:
        self._topic = topic
        self.seen: Seen = {}
        self._latest: dict[str, str] = {}
        self._line: deque[str] = deque()
        self._vacant: Counter[str] = Counter()  # how many places an id has in front of its own
        self.forgotten = 0
        self.ends: list[int] = []
        self.outdated = 0

    def is_forgotten(self, known: Known) -> bool:
        at, partition, offset = known
        is_later = partition < len(self.ends) and offset >= self.ends[partition]
        return at < self.forgotten or (at == self.forgotten and not is_later)

    def _forget(self, upto: int) -> None:
        if upto >= self.forgotten:
            self.forgotten, self.ends = upto, []

    def _forget_some(self, at: int, ends: dict[int, int], partitions: int) -> None:
        """Of that instant, what comes before these ends."""
        if at > self.forgotten:
            self.forgotten, self.ends = at, [0] * partitions
        if at == self.forgotten and self.ends:  # else all of it is forgotten
            self.ends += [0] * (partitions - len(self.ends))
            for partition, end in ends.items():
                self.ends[partition] = max(self.ends[partition], end)

    def find(self, dedup_id: str, now: int, window_ms: int) -> MessageRef | None:
        known = self.seen.get(dedup_id)
        if known is None or known[0] <= max(now - window_ms, self.outdated):
            return None
        return MessageRef(self._topic, known[1], known[2])

    def find_many(self, dedup_ids: AbstractSet[str], now: int, window_ms: int) -> dict[str, MessageRef]:
        """Those that are remembered; of ids that each key has for itself, that of the key it is named with, or the latest."""
        found = self._find_names(dedup_ids, now, window_ms)
        if self._latest and len(found) < len(dedup_ids):
            names = {self._latest[dedup_id]: dedup_id for dedup_id in self._latest.keys() & dedup_ids}
            found |= {names[name]: ref for name, ref in self._find_names(names.keys(), now, window_ms).items()}
        return found

    def _find_names(self, names: AbstractSet[str], now: int, window_ms: int) -> dict[str, MessageRef]:
        over, seen = max(now - window_ms, self.outdated), self.seen
        found = {name: known for name in names if (known := seen.get(name)) is not None and known[0] > over}
        if not found:
            return {}
        _, partitions, offsets = zip(*found.values(), strict=True)
        return dict(zip(found, refs_of(self._topic, partitions, offsets), strict=True))

    def remember(self, dedup_ids: Collection[str], known: Iterable[Known], *, has_keys: bool = False) -> None:
        """Each id once; none is older than those before. `has_keys`: they are names of `with_keys`."""
        if not self.seen.keys().isdisjoint(dedup_ids):
            for dedup_id in dedup_ids:
                self.drop(dedup_id)
        self.seen.update(zip(dedup_ids, known, strict=True))
        self._line.extend(dedup_ids)
        if has_keys:
            self._note_latest(dedup_ids)

    def _note_latest(self, names: Collection[str]) -> None:
        """Of one instant, that which lies last: which was published last is not known any more after a restart."""
        seen, latest = self.seen, self._latest
        ids = list(map(without_key, names))
        if len(set(ids)) == len(ids) and latest.keys().isdisjoint(ids):  # as mostly
            latest.update(zip(ids, names, strict=True))
            return
        for dedup_id, name in zip(ids, names, strict=True):
            known = seen.get(latest.get(dedup_id, ""))
            if known is None or known < seen[name]:
                latest[dedup_id] = name

    def drop(self, dedup_id: str) -> None:
        """It counts elsewhere from now on, or came again."""
        if self.seen.pop(dedup_id, None) is not None:
            self._vacant[dedup_id] += 1

    def prune(
        self, now: int, window_ms: int, count_max: int, limit: int | None = None, *, partitions: int
    ) -> list[str]:
        """Forgets what is too old or too many, so many ids at most; returns them. The topic has so many partitions."""
        gone: list[str] = []
        seen, line = self.seen, self._line
        excess = len(seen) - count_max
        over, newest = max(now - window_ms, self.outdated), 0
        ends: dict[int, int] = {}  # of what is forgotten of the instant `newest`
        while line:
            if self._vacant and line[0] in self._vacant:
                self._pass_over()
                continue
            at, partition, offset = seen[line[0]]
            if (at > over and len(gone) >= excess) or len(gone) == limit:
                break
            if at != newest:
                newest, ends = at, {}
            ends[partition] = offset + 1
            del seen[line[0]]
            if self._latest and self._latest.get(without_key(line[0])) == line[0]:
                del self._latest[without_key(line[0])]
            gone.append(line.popleft())
        if gone and line and seen[line[0]][0] > newest:  # nothing more comes of that instant
            self._forget(newest)
        elif gone:
            self._forget_some(newest, ends, partitions)
        return gone

    def _pass_over(self) -> None:
        """A place in the line that is vacant."""
        dedup_id = self._line.popleft()
        self._vacant[dedup_id] -= 1
        if not self._vacant[dedup_id]:
            del self._vacant[dedup_id]

    def outdate(self, now: int, window_ms: int) -> None:
        """What is too old now stays so, whatever the window becomes."""
        self.outdated = max(self.outdated, now - window_ms)
        self._forget(self.outdated)

    def clear(self, ends: list[int]) -> Seen:
        """Forgets all; returns that. The log ends there, by partition."""
        seen, self.seen = self.seen, {}
        self._line.clear()
        self._vacant.clear()
        self._latest.clear()
        if seen:
            self._forget(next(reversed(seen.values()))[0])
            self.ends = ends
        return seen
