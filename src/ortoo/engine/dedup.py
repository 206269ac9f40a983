"""Which dedup ids were published lately, and where the first message with each lies.

Each topic remembers its own, by its own window and count. Where a namespace shares them, `SharedIds` knows which topic to ask.
"""

from __future__ import annotations

from itertools import islice

from ortoo.model.names import MessageRef, TopicId

SharedIds = dict[str, TopicId]
Seen = dict[str, tuple[int, MessageRef]]  # when, and where


class DedupTable:
    """Bounded by age and by count. A dict keeps the order of insertion, which is the order of age.

    What was forgotten stays so, though a log still has it: `forgotten` is the instant up to which a log's own ids count for
    nothing, those of that very instant unless they come after `ends`, by partition. What is `outdated` counts for nothing even
    while it is here.
    """

    __slots__ = ("ends", "forgotten", "outdated", "seen")

    def __init__(self) -> None:
        self.seen: Seen = {}
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

    def remember(self, dedup_id: str, at: int, message: MessageRef) -> None:
        self.seen.pop(dedup_id, None)
        self.seen[dedup_id] = (at, message)

    def prune(self, now: int, window_ms: int, count_max: int, limit: int | None = None) -> list[str]:
        """Forgets what is too old or too many, so many ids at most; returns them."""
        gone: list[str] = []
        excess = len(self.seen) - count_max
        over = max(now - window_ms, self.outdated)
        for dedup_id, (at, _) in islice(self.seen.items(), limit):
            if at > over and len(gone) >= excess:
                break
            gone.append(dedup_id)
        newest = max((self.seen.pop(dedup_id)[0] for dedup_id in gone), default=0)
        oldest = next(iter(self.seen.values()))[0] if self.seen else newest + 1
        self._forget(min(newest, oldest - 1))
        return gone

    def outdate(self, now: int, window_ms: int) -> None:
        """What is too old now stays so, whatever the window becomes."""
        self.outdated = max(self.outdated, now - window_ms)
        self._forget(self.outdated)

    def clear(self, ends: list[int]) -> Seen:
        """Forgets all; returns that. The log ends there, by partition."""
        seen, self.seen = self.seen, {}
        if seen:
            self._forget(next(reversed(seen.values()))[0])
            self.ends = ends
        return seen
