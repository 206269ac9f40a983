"""A group of consumers: its feeds, its leases, its members."""

from __future__ import annotations

from collections.abc import Collection

from ortoo.model.names import GroupId, LeaseId
from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import Ordering

from .feed import Feed
from .leases import Holders, LeaseState, SettledLeases
from .members import Members
from .partition import Partition


class Group:
    __slots__ = ("ephemeral", "feeds", "holders", "id", "leases", "members", "name", "ordering", "settled")

    def __init__(self, group: GroupId, name: str, ordering: Ordering, ephemeral: bool = False) -> None:
        self.id = group
        self.name = name
        self.ordering = ordering
        self.ephemeral = ephemeral
        self.feeds: list[Feed] = []
        self.leases: dict[LeaseId, LeaseState] = {}
        self.holders = Holders()
        self.settled = SettledLeases()
        self.members = Members()

    def add_feed(self, partition: Partition, cursor: int) -> None:
        self.feeds.append(Feed(partition, self.id, self.ordering, cursor))

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
        leased = offsets & self.feeds[partition].leased
        ended = []
        for lease in self.holders.find(partition, leased) if leased else ():
            lease.drop(partition, leased)
            self.retire(lease)
            if not lease.held:
                ended.append(lease.id)
        return ended

    def close(self, partition: int, offsets: OffsetSet) -> list[LeaseId]:
        ended = self.revoke(partition, offsets)
        self.feeds[partition].close(offsets)
        return ended

    def reset(self, cursors: list[int]) -> None:
        """A new start at these cursors: every receipt stale, every attempt forgotten. What is not settled, and was delivered
        before its longest wait was over, can be delivered again."""
        self.forget_leases()
        feeds, self.feeds = self.feeds, []  # a snapshot may hold on to the old ones
        for feed, cursor in zip(feeds, cursors, strict=True):
            self.add_feed(feed.partition, cursor)
            self.feeds[-1].skipped = feed.skipped
            if feed.partition.evicted:
                self.feeds[-1].begin_with(feed.open & feed.partition.evicted)

    def hold(self, lease: LeaseState, partition: int, offsets: OffsetSet) -> None:
        lease.held[partition] = offsets
        self.holders.add(lease, partition, offsets)

    def forget_leases(self) -> None:
        self.leases.clear()
        self.settled = SettledLeases()
        self.holders = Holders()

    def holding(self, partition: int, offsets: OffsetSet | None = None) -> list[LeaseState]:
        """The leases with messages of that partition: with any, or with some of these, and perhaps a few others."""
        leased = self.feeds[partition].leased
        if offsets is not None:
            leased = leased & offsets
        return self.holders.find(partition, leased) if leased else []

    def held_partitions(self) -> dict[int, str]:
        return {partition: lease.consumer for lease in self.leases.values() for partition in lease.held}

    def leases_of(self, consumers: Collection[str]) -> list[LeaseState]:
        return [lease for lease in self.leases.values() if lease.consumer in consumers]

    def backlog(self) -> int:
        return sum(feed.backlog() for feed in self.feeds)
