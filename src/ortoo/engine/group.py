"""A group of consumers: its feeds, its leases, its members."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ortoo.model import limits
from ortoo.model.names import GroupId, LeaseId
from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import Ordering

from .feed import Feed
from .members import Members
from .partition import Partition


class LeaseState:
    """Messages delivered together. `held` are not settled yet; `acked` answers a second ack with the same receipt."""

    __slots__ = ("acked", "at", "consumer", "held", "id", "stretches", "until")

    def __init__(self, lease: LeaseId, consumer: str, at: int, until: int) -> None:
        self.id = lease
        self.consumer = consumer
        self.at = at
        self.until = until
        self.held: dict[int, OffsetSet] = {}  # by partition
        self.acked: dict[int, OffsetSet] = {}
        self.stretches: list[tuple[int, int]] = []  # where `Holders` keeps it

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


class Holders:
    """Finds the lease that holds a message without looking at all of them: they are kept by stretches of a partition."""

    __slots__ = ("by_stretch",)

    _BITS = 8

    def __init__(self) -> None:
        self.by_stretch: dict[tuple[int, int], dict[LeaseId, LeaseState]] = {}

    def _stretches(self, offsets: OffsetSet) -> Iterable[int]:
        """Those from the first to the last message, or if they lie far apart, just theirs."""
        first, last = offsets.first() >> self._BITS, offsets.last() >> self._BITS
        if first == last:
            return (first,)
        spanned = range(first, last + 1)
        return spanned if len(spanned) <= len(offsets) + 1 else {offset >> self._BITS for offset in offsets}

    def add(self, lease: LeaseState, partition: int, offsets: OffsetSet) -> None:
        for stretch in self._stretches(offsets):
            place = (partition, stretch)
            lease.stretches.append(place)
            if place in self.by_stretch:
                self.by_stretch[place][lease.id] = lease
            else:
                self.by_stretch[place] = {lease.id: lease}

    def remove(self, lease: LeaseState) -> None:
        for place in lease.stretches:
            same = self.by_stretch[place]
            same.pop(lease.id, None)
            if not same:
                del self.by_stretch[place]
        lease.stretches.clear()

    def find(self, partition: int, offsets: OffsetSet) -> list[LeaseState]:
        """Those that hold some of them, and a few others."""
        places = [(partition, stretch) for stretch in self._stretches(offsets)]
        found = {lease.id: lease for place in places for lease in self.by_stretch.get(place, {}).values()}
        return [found[lease] for lease in sorted(found)]


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
        self.holders.remove(lease)
        if lease.acked:
            self.settled[lease.id] = lease
            if len(self.settled) > limits.SETTLED_LEASES_REMEMBERED:
                del self.settled[next(iter(self.settled))]

    def revoke(self, partition: int, offsets: OffsetSet) -> None:
        """Takes messages out of whatever leases hold them; the receipts go stale."""
        leased = offsets & self.feeds[partition].leased
        for lease in self.holders.find(partition, leased) if leased else ():
            lease.drop(partition, leased)
            self.retire(lease)

    def close(self, partition: int, offsets: OffsetSet) -> None:
        self.revoke(partition, offsets)
        self.feeds[partition].close(offsets)

    def reset(self, cursors: list[int]) -> None:
        """A new start at these cursors: every receipt stale, every attempt forgotten."""
        skipped = [feed.skipped for feed in self.feeds]
        partitions = [feed.partition for feed in self.feeds]
        self.forget_leases()
        self.feeds.clear()
        for partition, cursor, lost in zip(partitions, cursors, skipped, strict=True):
            self.add_feed(partition, cursor)
            self.feeds[-1].skipped = lost

    def hold(self, lease: LeaseState, partition: int, offsets: OffsetSet) -> None:
        lease.held[partition] = offsets
        self.holders.add(lease, partition, offsets)

    def forget_leases(self) -> None:
        self.leases.clear()
        self.settled.clear()
        self.holders = Holders()

    def holding(self, partition: int) -> list[LeaseState]:
        """The leases with messages of that partition."""
        leased = self.feeds[partition].leased
        return self.holders.find(partition, leased) if leased else []

    def held_partitions(self) -> dict[int, str]:
        return {partition: lease.consumer for lease in self.leases.values() for partition in lease.held}

    def leases_of(self, consumers: Collection[str]) -> list[LeaseState]:
        return [lease for lease in self.leases.values() if lease.consumer in consumers]

    def backlog(self) -> int:
        return sum(feed.backlog() for feed in self.feeds)
