"""Which dedup ids were published lately, and where the first message with each lies.

Each topic remembers its own, by its own window and count. Where a namespace shares them, `SharedIds` knows which topic to ask.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet

from ortoo.model.names import MessageRef, TopicId, refs_of

SharedIds = dict[str, TopicId]
Known = tuple[int, int, int]  # when; partition and offset of the message
Seen = dict[str, Known]


class DedupTable:
    """Of one topic; bounded by age and by count.

    `seen` is in the order of age. But to find the oldest in it, all that was taken from its front would have to be passed over,
    so the ids are in line once more. One that was taken from the midst leaves its place in the line `vacant`.

    What was forgotten stays so, though a log still has it: `forgotten` is the instant up to which a log's own ids count for
    nothing, those of that very instant unless they come after `ends`, by partition. What is `outdated` counts for nothing even
    while it is here.
    """

    __slots__ = ("_line", "_topic", "_vacant", "ends", "forgotten", "outdated", "seen")

    def __init__(self, topic: TopicId) -> None:
        self._topic = topic
        self.seen: Seen = {}
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
        if upto > self.forgotten:
            self.forgotten, self.ends = upto, []

    def find(self, dedup_id: str, now: int, window_ms: int) -> MessageRef | None:
        known = self.seen.get(dedup_id)
        if known is None or known[0] <= max(now - window_ms, self.outdated):
            return None
        return MessageRef(self._topic, known[1], known[2])

    def find_many(self, dedup_ids: AbstractSet[str], now: int, window_ms: int) -> dict[str, MessageRef]:
        """Those that are remembered."""
        over, seen = max(now - window_ms, self.outdated), self.seen
        ids = [dedup_id for dedup_id in seen.keys() & dedup_ids if seen[dedup_id][0] > over]
        if not ids:
            return {}
        _, partitions, offsets = zip(*map(seen.__getitem__, ids), strict=True)
        return dict(zip(ids, refs_of(self._topic, partitions, offsets), strict=True))

    def remember(self, dedup_ids: Collection[str], known: Iterable[Known]) -> None:
        """Each id once; none is older than those before."""
        if not self.seen.keys().isdisjoint(dedup_ids):
            for dedup_id in dedup_ids:
                self.drop(dedup_id)
        self.seen.update(zip(dedup_ids, known, strict=True))
        self._line.extend(dedup_ids)

    def drop(self, dedup_id: str) -> None:
        """It counts elsewhere from now on, or came again."""
        if self.seen.pop(dedup_id, None) is not None:
            self._vacant[dedup_id] += 1

    def prune(self, now: int, window_ms: int, count_max: int, limit: int | None = None) -> list[str]:
        """Forgets what is too old or too many, so many ids at most; returns them."""
        gone: list[str] = []
        seen, line = self.seen, self._line
        excess = len(seen) - count_max
        over, newest = max(now - window_ms, self.outdated), 0
        while line:
            if self._vacant and line[0] in self._vacant:
                self._pass_over()
                continue
            at = seen[line[0]][0]
            if (at > over and len(gone) >= excess) or len(gone) == limit:
                break
            newest = at
            del seen[line[0]]
            gone.append(line.popleft())
        oldest = seen[line[0]][0] if line else newest + 1
        self._forget(min(newest, oldest - 1))
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
        if seen:
            self._forget(next(reversed(seen.values()))[0])
            self.ends = ends
        return seen
