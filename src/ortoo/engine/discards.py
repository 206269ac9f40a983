"""Messages that are gone for good, one by one: which of them the store need not keep any longer."""

from __future__ import annotations

from ortoo.model.names import TopicId
from ortoo.model.offsets import OffsetSet

from .topic import Topic


class Discards:
    """Who holds a message that was superseded may still reject it, and then it is copied. So as long as it is held it stays."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[tuple[TopicId, int], tuple[Topic, OffsetSet]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, topic: Topic | None, partition: int, offsets: OffsetSet) -> None:
        """That they are gone is durable."""
        if topic is None:
            return
        known = self._waiting.get((topic.id, partition))
        if known is None:
            self._waiting[topic.id, partition] = (topic, offsets.copy())
        else:
            known[1].update(offsets)

    def take(self) -> list[tuple[TopicId, int, OffsetSet]]:
        """Those that nobody holds, by topic and partition."""
        found: list[tuple[TopicId, int, OffsetSet]] = []
        for place, (topic, offsets) in list(self._waiting.items()):
            held = OffsetSet()
            for group in topic.groups.values():
                if group.leases and not group.feeds.is_untouched(place[1]):
                    held.update(group.feeds[place[1]].leased & offsets)
            offsets.subtract(held)
            if offsets:
                found.append((*place, offsets))
            if held:
                self._waiting[place] = (topic, held)
            else:
                del self._waiting[place]
        return found
