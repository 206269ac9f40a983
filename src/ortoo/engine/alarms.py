"""Which part of the state has something due, and when. Setting an alarm earlier wins.

What was set and is overtaken stays in the heap as a stale entry, and is skipped. An alarm may be overtaken again and again
long before its old time comes, so the heap is built anew when most of it is stale.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import msgspec

from ortoo.model.names import GroupId, TopicId


class LeasesRunOut(msgspec.Struct, frozen=True, gc=False):
    pass


class TransactionsTimeOut(msgspec.Struct, frozen=True, gc=False):
    pass


class SharedIdsOutdated(msgspec.Struct, frozen=True, gc=False):
    """Dedup ids that are shared no longer are forgotten."""


class ConsumersUnparked(msgspec.Struct, frozen=True, gc=False):
    """Consumers that waited for many topics wait no longer."""


class _OfPartition(msgspec.Struct, frozen=True, gc=False):
    topic: TopicId
    partition: int


class DelaysDue(_OfPartition, frozen=True, gc=False):
    """Delayed messages come due."""


class RetriesDue(_OfPartition, frozen=True, gc=False):
    """Failed messages come back."""

    group: GroupId


class ExpiriesDue(_OfPartition, frozen=True, gc=False):
    """Times to live and longest waits run out."""


class LatestDue(_OfPartition, frozen=True, gc=False):
    """Messages became durable that may supersede earlier ones of their keys."""


class MembersDue(msgspec.Struct, frozen=True, gc=False):
    """Consumers fall silent; partitions that move are handed over."""

    topic: TopicId
    group: GroupId


class PauseEnds(msgspec.Struct, frozen=True, gc=False):
    """A group was paused for a time."""

    topic: TopicId
    group: GroupId


class WindowCloses(msgspec.Struct, frozen=True, gc=False):
    topic: TopicId


class RetentionDue(msgspec.Struct, frozen=True, gc=False):
    """The logs are trimmed, from that partition on, and old dedup ids forgotten."""

    topic: TopicId
    partition: int = 0


GlobalAlarm = LeasesRunOut | TransactionsTimeOut | SharedIdsOutdated | ConsumersUnparked
TopicAlarm = DelaysDue | RetriesDue | ExpiriesDue | LatestDue | MembersDue | PauseEnds | WindowCloses | RetentionDue
Alarm = GlobalAlarm | TopicAlarm
Entry = tuple[int, int, tuple[int, ...], Alarm]  # when, the order of its kind, its fields

# Of those that are due together. Leases come before members: one that runs out is no sign of its consumer's life.
_ORDER: dict[type, int] = {
    kind: order
    for order, kind in enumerate(
        (
            SharedIdsOutdated,
            LatestDue,
            DelaysDue,
            ExpiriesDue,
            LeasesRunOut,
            MembersDue,
            RetentionDue,
            RetriesDue,
            TransactionsTimeOut,
            ConsumersUnparked,
            WindowCloses,
            PauseEnds,
        )
    )
}
_FEW = 64  # entries that are not worth building anew


class Alarms:
    __slots__ = ("_count", "_when", "heap")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self._when: dict[TopicId | None, dict[Alarm, int]] = {}  # by topic; None: those of no topic
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def set(self, alarm: Alarm, when: int | None) -> None:
        if when is None:
            return
        of_topic = self._when.setdefault(_owner(alarm), {})
        before = of_topic.get(alarm)
        if before is None or when < before:
            self._count += before is None
            of_topic[alarm] = when
            heappush(self.heap, _entry(when, alarm))
            if len(self.heap) > 2 * self._count + _FEW:
                alarms = [pair for of_topic in self._when.values() for pair in of_topic.items()]
                self.heap = [_entry(when, alarm) for alarm, when in alarms]
                heapify(self.heap)

    def forget(self, alarm: Alarm) -> None:
        of_topic = self._when.get(_owner(alarm), {})
        if of_topic.pop(alarm, None) is not None:
            self._count -= 1
            if not of_topic:
                del self._when[_owner(alarm)]

    def forget_topic(self, topic: TopicId) -> None:
        self._count -= len(self._when.pop(topic, ()))

    def next(self) -> int | None:
        self._skip_stale()
        return self.heap[0][0] if self.heap else None

    def pop(self, now: int) -> Alarm | None:
        self._skip_stale()
        if not self.heap or self.heap[0][0] > now:
            return None
        alarm = heappop(self.heap)[3]
        self.forget(alarm)
        return alarm

    def _skip_stale(self) -> None:
        while self.heap and not self._is_set(self.heap[0]):
            heappop(self.heap)

    def _is_set(self, entry: Entry) -> bool:
        """Whether it was neither set earlier since, nor forgotten."""
        when, _, _, alarm = entry
        of_topic = self._when.get(_owner(alarm))
        return of_topic is not None and of_topic.get(alarm) == when


def _entry(when: int, alarm: Alarm) -> Entry:
    return when, _ORDER[type(alarm)], msgspec.structs.astuple(alarm), alarm


def _owner(alarm: Alarm) -> TopicId | None:
    return getattr(alarm, "topic", None)  # quicker than to ask for its type: it is looked at before every command
