"""Which dedup ids were published lately, and where the first message with each lies."""

from ortoo.model.names import MessageRef


class DedupTable:
    """Bounded by age and by count. A dict keeps the order of insertion, which is the order of age."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, MessageRef]] = {}

    def find(self, dedup_id: str, now: int, window_ms: int) -> MessageRef | None:
        entry = self.seen.get(dedup_id)
        return entry[1] if entry is not None and now - entry[0] < window_ms else None

    def remember(self, dedup_id: str, at: int, message: MessageRef) -> None:
        self.seen.pop(dedup_id, None)
        self.seen[dedup_id] = (at, message)

    def prune(self, now: int, window_ms: int, count_max: int) -> None:
        gone: list[str] = []
        excess = len(self.seen) - count_max
        for dedup_id, (at, _) in self.seen.items():
            if now - at < window_ms and len(gone) >= excess:
                break
            gone.append(dedup_id)
        for dedup_id in gone:
            del self.seen[dedup_id]

    def forget_topic(self, topic: int) -> None:
        """A deleted topic's ids go with it, where a namespace shares one table."""
        self.seen = {dedup_id: entry for dedup_id, entry in self.seen.items() if entry[1].topic != topic}
