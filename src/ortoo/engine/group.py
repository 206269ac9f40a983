"""A group of consumers: its feeds, its leases, its members."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from ortoo.model.latency import HISTOGRAM_WIDTH, Recent
from ortoo.model.metrics import GROUP_COUNTERS
from ortoo.model.names import GroupId, LeaseId
from ortoo.model.offsets import OffsetSet
from ortoo.model.pausing import Pause
from ortoo.model.topic import Ordering

from .feeds import Feeds
from .leases import Holders, LeaseState, SettledLeases
from .members import NOBODY, Members
from .partition import Partition

DELIVERED, ACKED, RETRIED, DEAD_LETTERED = range(len(GROUP_COUNTERS))
_NEVER = (0,) * HISTOGRAM_WIDTH
TALLY_WIDTH = len(GROUP_COUNTERS) + 2 * HISTOGRAM_WIDTH

Tally = list[int]  # GROUP_COUNTERS, then how long deliveries and acks took: what only grows while the queue is open


def add_tallies(one: Tally | None, other: Tally | None) -> Tally | None:
    if one is None or other is None:
        return one or other
    return list(map(add, one, other))


def _ever(times: Recent | None) -> Sequence[int]:
    return _NEVER if times is None else times.ever


class Group:
    __slots__ = (
        "_members",
        "ack_times",
        "counts",
        "delivery_times",
        "ephemeral",
        "feeds",
        "holders",
        "id",
        "leases",
        "name",
        "ordering",
        "paused",
        "settled",
    )

    def __init__(
        self,
        group: GroupId,
        name: str,
        ordering: Ordering,
        partitions: Sequence[Partition],
        cursors: Sequence[int],
        ephemeral: bool = False,
    ) -> None:
        """`partitions` are those of the topic, and may become more. Where no cursor is given, the feed begins with the log."""
        self.id = group
        self.name = name
        self.ordering = ordering
        self.ephemeral = ephemeral
        self.feeds = self._begin(partitions, cursors)
        self.leases: dict[LeaseId, LeaseState] = {}
        self.holders = Holders()
        self.settled = SettledLeases()
        self._members: Members | None = None
        self.paused: Pause | None = None
        self.delivery_times: Recent | None = None  # soft, and there once something was delivered
        self.ack_times: Recent | None = None  # the same
        self.counts: list[int] | None = None  # the same: messages, see GROUP_COUNTERS

    def _begin(self, partitions: Sequence[Partition], cursors: Sequence[int]) -> Feeds:
        feeds = Feeds(self.id, self.ordering, partitions)
        for index in range(len(partitions)):
            feeds.add(cursors[index] if index < len(cursors) else 0)
        return feeds

    @property
    def members(self) -> Members:
        if self._members is None:
            self._members = Members()
        return self._members

    @members.setter
    def members(self, members: Members) -> None:
        self._members = members

    def look_at_members(self) -> Members:
        """To read only: a group that nobody consumes shares them with others."""
        return NOBODY if self._members is None else self._members

    def delivered(self, took_ms: int, now: int) -> None:
        """A message came to it for the first time, so long after it was published."""
        if self.delivery_times is None:
            self.delivery_times = Recent()
        self.delivery_times.observe(took_ms, now)

    def acked(self, took_ms: int, now: int) -> None:
        """Messages were acked so long after they were delivered."""
        if self.ack_times is None:
            self.ack_times = Recent()
        self.ack_times.observe(took_ms, now)

    def count(self, what: int, messages: int) -> None:
        if self.counts is None:
            self.counts = [0] * len(GROUP_COUNTERS)
        self.counts[what] += messages

    def tally(self) -> Tally | None:
        """Everything that was counted of it; None when nothing was."""
        if self.counts is None:
            return None
        return [*self.counts, *_ever(self.delivery_times), *_ever(self.ack_times)]

    def lease(self, lease: LeaseId) -> LeaseState | None:
        return self.leases.get(lease) or self.settled.find(lease)

    def retire(self, lease: LeaseState) -> None:
        """A lease with nothing held any more is only remembered."""
        if lease.held or lease.id not in self.leases:
            return
        del self.leases[lease.id]
        self.holders.remove(lease)
        if lease.acked:
            self.settled.remember(lease)

    def revoke(self, partition: int, offsets: OffsetSet) -> list[LeaseId]:
        """Takes messages out of whatever leases hold them; the receipts go stale. Returns the leases that ended."""
        if self.feeds.is_untouched(partition):
            return []
        leased = offsets & self.feeds[partition].leased
        ended = []
        for lease in self.holders.find(partition, leased) if leased else ():
            lease.drop(partition, leased)
            self.retire(lease)
            if not lease.held:
                ended.append(lease.id)
        return ended

    def close(self, partition: int, offsets: OffsetSet) -> list[LeaseId]:
        if self.feeds.is_untouched(partition):
            return []
        ended = self.revoke(partition, offsets)
        self.feeds[partition].close(offsets)
        return ended

    def reset(self, cursors: list[int]) -> None:
        """A new start at these cursors: every receipt stale, every attempt forgotten. What is not settled, and was delivered
        before its longest wait was over, can be delivered again."""
        self.forget_leases()
        before = self.feeds  # a snapshot may hold on to them
        self.feeds = self._begin(before.partitions, cursors)
        for index, feed in enumerate(before.looks()):
            if feed.skipped:
                self.feeds[index].skipped = feed.skipped
            if feed.partition.evicted:
                self.feeds[index].begin_with(feed.open & feed.partition.evicted)

    def hold(self, lease: LeaseState, partition: int, offsets: OffsetSet) -> None:
        lease.held[partition] = offsets
        self.holders.add(lease, partition, offsets)

    def forget_leases(self) -> None:
        self.leases.clear()
        self.settled = SettledLeases()
        self.holders = Holders()

    def holding(self, partition: int, offsets: OffsetSet | None = None) -> list[LeaseState]:
        """The leases with messages of that partition: with any, or with some of these, and perhaps a few others."""
        leased = self.feeds.look(partition).leased
        if offsets is not None:
            leased = leased & offsets
        return self.holders.find(partition, leased) if leased else []

    def held_partitions(self) -> dict[int, str]:
        return {partition: lease.consumer for lease in self.leases.values() for partition in lease.held}

    def backlog(self) -> int:
        return sum(feed.backlog() for feed in self.feeds.looks())
