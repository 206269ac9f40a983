"""Which dedup ids were published lately, and where the first message with each lies.

Each topic remembers its own, by its own window and count. Where a namespace shares them, `SharedIds` knows which topic to ask.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from itertools import repeat

from ortoo.model.names import MessageRef, TopicId

SharedIds = dict[str, TopicId]
Seen = dict[str, tuple[int, MessageRef]]  # when, and where


class DedupTable:
    """Bounded by age and by count. `seen` is in the order of age, but what is gone from its front would have to be passed over
    whenever somebody looks for its oldest; so the ids are in line once more, as they came together.

    What was forgotten stays so, though a log still has it: `forgotten` is the instant up to which a log's own ids count for
    nothing, those of that very instant unless they come after `ends`, by partition. What is `outdated` counts for nothing even
    while it is here.
    """

    __slots__ = ("_line", "ends", "forgotten", "outdated", "seen")

    def __init__(self) -> None:
        self.seen: Seen = {}
        self._line: deque[tuple[int, list[str]]] = deque()  # when, and the ids of that batch, the oldest last
        self.forgotten = 0
        self.ends: list[int] = []
        self.outdated = 0

    def is_forgotten(self, at: int, message: MessageRef) -> bool:
        is_later = message.partition < len(self.ends) and message.offset >= self.ends[message.partition]
        return at < self.forgotten or (at == self.forgotten and not is_later)

    def _forget(self, upto: int) -> None:
        if upto > self.forgotten:
            self.forgotten, self.ends = upto, []

    def find(self, dedup_id: str, now: int, window_ms: int) -> MessageRef | None:
        entry = self.seen.get(dedup_id)
        return entry[1] if entry is not None and entry[0] > max(now - window_ms, self.outdated) else None

    def find_many(self, dedup_ids: AbstractSet[str], now: int, window_ms: int) -> dict[str, MessageRef]:
        """Those that are remembered."""
        over, seen = max(now - window_ms, self.outdated), self.seen
        return {known: seen[known][1] for known in seen.keys() & dedup_ids if seen[known][0] > over}

    def remember(self, dedup_ids: Collection[str], at: int, messages: Iterable[MessageRef]) -> None:
        """Of one instant; each id once."""
        if not dedup_ids:
            return
        seen = self.seen
        if not seen.keys().isdisjoint(dedup_ids):
            for known in dedup_ids:
                seen.pop(known, None)
        seen.update(zip(dedup_ids, zip(repeat(at), messages), strict=True))
        self._line.append((at, list(dedup_ids)[::-1]))

    def prune(self, now: int, window_ms: int, count_max: int, limit: int | None = None) -> list[str]:
        """Forgets what is too old or too many, so many ids at most; returns them."""
        gone: list[str] = []
        seen, line = self.seen, self._line
        excess = len(seen) - count_max
        over, newest = max(now - window_ms, self.outdated), 0
        left = len(seen) if limit is None else limit
        while line:
            at, ids = line[0]
            entry = seen.get(ids[-1])
            if entry is not None and entry[0] == at:  # else it is gone, or came again since
                if left <= 0 or (at > over and len(gone) >= excess):
                    break
                del seen[ids[-1]]
                gone.append(ids[-1])
                newest = at
            left -= 1
            ids.pop()
            if not ids:
                line.popleft()
        oldest = line[0][0] if line else newest + 1
        self._forget(min(newest, oldest - 1))
        return gone

    def outdate(self, now: int, window_ms: int) -> None:
        """What is too old now stays so, whatever the window becomes."""
        self.outdated = max(self.outdated, now - window_ms)
        self._forget(self.outdated)

    def clear(self, ends: list[int]) -> Seen:
        """Forgets all; returns that. The log ends there, by partition."""
        seen, self.seen = self.seen, {}
        self._line.clear()
        if seen:
            self._forget(next(reversed(seen.values()))[0])
            self.ends = ends
        return seen
