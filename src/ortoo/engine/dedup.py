"""Which dedup ids were published lately, and where the first message with each lies.

Each topic remembers its own, by its own window and count. Where a namespace shares them, `SharedIds` knows which topic to ask.
"""

from __future__ import annotations

from collections.abc import Iterable

from ortoo.model.names import MessageRef, TopicId

SharedIds = dict[str, TopicId]


class DedupTable:
    """Bounded by age and by count. A dict keeps the order of insertion, which is the order of age.

    What was forgotten stays so: `forgotten` is the instant up to which a log's own ids count for nothing.
    """

    __slots__ = ("forgotten", "seen")

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, MessageRef]] = {}
        self.forgotten = 0

    def find(self, dedup_id: str, now: int, window_ms: int) -> MessageRef | None:
        entry = self.seen.get(dedup_id)
        return entry[1] if entry is not None and now - entry[0] < window_ms else None

    def remember(self, dedup_id: str, at: int, message: MessageRef) -> None:
        self.seen.pop(dedup_id, None)
        self.seen[dedup_id] = (at, message)

    def prune(self, now: int, window_ms: int, count_max: int) -> list[str]:
        """Forgets what is too old or too many; returns that."""
        gone: list[str] = []
        excess = len(self.seen) - count_max
        for dedup_id, (at, _) in self.seen.items():
            if now - at < window_ms and len(gone) >= excess:
                break
            gone.append(dedup_id)
        newest = max((self.seen.pop(dedup_id)[0] for dedup_id in gone), default=0)
        oldest = next(iter(self.seen.values()))[0] if self.seen else newest + 1
        self.forgotten = max(self.forgotten, min(newest, oldest - 1))
        return gone

    def clear(self) -> None:
        self.forgotten = max([self.forgotten, *(at for at, _ in self.seen.values())])
        self.seen.clear()


def unshare(shared: SharedIds, topic: TopicId, dedup_ids: Iterable[str]) -> None:
    """The topic has forgotten these; another may have published one of them since."""
    for dedup_id in dedup_ids:
        if shared.get(dedup_id) == topic:
            del shared[dedup_id]
