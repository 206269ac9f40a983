"""A group of consumers: its feeds, its leases, its members."""

from __future__ import annotations

from collections.abc import Iterator

from ortoo.model import limits
from ortoo.model.names import GroupId, LeaseId
from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import Ordering

from .feed import Feed
from .members import Members
from .partition import Partition


class LeaseState:
    """Messages delivered together. `held` are not settled yet; `acked` answers a second ack with the same receipt."""

    __slots__ = ("acked", "at", "consumer", "held", "id", "until")

    def __init__(self, lease: LeaseId, consumer: str, at: int, until: int) -> None:
        self.id = lease
        self.consumer = consumer
        self.at = at
        self.until = until
        self.held: dict[int, OffsetSet] = {}  # by partition
        self.acked: dict[int, OffsetSet] = {}

    def drop(self, partition: int, offsets: OffsetSet) -> None:
        held = self.held.get(partition)
        if held is not None:
            held.subtract(offsets)
            if not held:
                del self.held[partition]

    def ack(self, partition: int, offsets: OffsetSet) -> None:
        self.drop(partition, offsets)
        if partition in self.acked:
            self.acked[partition].update(offsets)
        else:
            self.acked[partition] = offsets.copy()


class Group:
    __slots__ = ("ephemeral", "feeds", "id", "leases", "members", "name", "ordering", "settled")

    def __init__(self, group: GroupId, name: str, ordering: Ordering, ephemeral: bool = False) -> None:
        self.id = group
        self.name = name
        self.ordering = ordering
        self.ephemeral = ephemeral
        self.feeds: list[Feed] = []
        self.leases: dict[LeaseId, LeaseState] = {}
        self.settled: dict[LeaseId, LeaseState] = {}  # wholly settled, remembered for a while
        self.members = Members()

    def add_feed(self, partition: Partition, cursor: int) -> None:
        self.feeds.append(Feed(partition, self.id, self.ordering, cursor))

    def lease(self, lease: LeaseId) -> LeaseState | None:
        return self.leases.get(lease) or self.settled.get(lease)

    def retire(self, lease: LeaseState) -> None:
        """A lease with nothing held any more is only remembered."""
        if lease.held or lease.id not in self.leases:
            return
        del self.leases[lease.id]
        if lease.acked:
            self.settled[lease.id] = lease
            if len(self.settled) > limits.SETTLED_LEASES_REMEMBERED:
                del self.settled[next(iter(self.settled))]

    def revoke(self, partition: int, offsets: OffsetSet) -> None:
        """Takes messages out of whatever leases hold them; the receipts go stale."""
        if offsets.is_disjoint(self.feeds[partition].leased):
            return
        for lease in list(self.leases.values()):
            lease.drop(partition, offsets)
            self.retire(lease)

    def close(self, partition: int, offsets: OffsetSet) -> None:
        self.revoke(partition, offsets)
        self.feeds[partition].close(offsets)

    def reset(self, cursors: list[int]) -> None:
        """A new start at these cursors: every receipt stale, every attempt forgotten."""
        skipped = [feed.skipped for feed in self.feeds]
        partitions = [feed.partition for feed in self.feeds]
        self.leases.clear()
        self.settled.clear()
        self.feeds.clear()
        for partition, cursor, lost in zip(partitions, cursors, skipped, strict=True):
            self.add_feed(partition, cursor)
            self.feeds[-1].skipped = lost

    def held_partitions(self) -> dict[int, str]:
        return {partition: lease.consumer for lease in self.leases.values() for partition in lease.held}

    def leases_of(self, consumer: str) -> Iterator[LeaseState]:
        return (lease for lease in list(self.leases.values()) if lease.consumer == consumer)

    def backlog(self) -> int:
        return sum(feed.backlog() for feed in self.feeds)
