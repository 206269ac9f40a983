"""Leases: those that hold messages, how to find them, and those that are settled and only remembered.

A group remembers thousands of settled leases, so that acking twice with one receipt is fine. As bytes they cost nothing but
their room: the garbage collector does not visit them, and a snapshot takes them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ortoo.model import limits
from ortoo.model.names import LeaseId
from ortoo.model.offsets import OffsetSet

_FEW = 32


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


class LeaseDump(msgspec.Struct, array_like=True):
    id: int
    consumer: str
    at: int
    until: int
    held: dict[int, bytes | list[int]]
    acked: dict[int, bytes | list[int]]


def dump_lease(lease: LeaseState) -> LeaseDump:
    held = {partition: _dump_few(offsets) for partition, offsets in lease.held.items()}
    acked = {partition: _dump_few(offsets) for partition, offsets in lease.acked.items()}
    return LeaseDump(lease.id, lease.consumer, lease.at, lease.until, held, acked)


def _dump_few(offsets: OffsetSet) -> bytes | list[int]:
    """Most leases are small, and a list of a few offsets costs a tenth of a bitmap."""
    return offsets.to_array().tolist() if len(offsets) <= _FEW else offsets.to_bytes()


def load_lease(dumped: LeaseDump) -> LeaseState:
    lease = LeaseState(LeaseId(dumped.id), dumped.consumer, dumped.at, dumped.until)
    lease.held = {partition: _load_few(offsets) for partition, offsets in dumped.held.items()}
    lease.acked = {partition: _load_few(offsets) for partition, offsets in dumped.acked.items()}
    return lease


def _load_few(dumped: bytes | list[int]) -> OffsetSet:
    return OffsetSet(dumped) if isinstance(dumped, list) else OffsetSet.from_bytes(dumped)


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(LeaseDump)


class SettledLeases:
    __slots__ = ("leases",)

    def __init__(self) -> None:
        self.leases: dict[LeaseId, bytes] = {}  # a LeaseDump each, in the order they were settled

    def remember(self, lease: LeaseState) -> None:
        acked = {partition: _dump_few(offsets) for partition, offsets in lease.acked.items()}
        self.leases[lease.id] = _encode((lease.id, lease.consumer, lease.at, lease.until, {}, acked))
        if len(self.leases) > limits.SETTLED_LEASES_REMEMBERED:
            del self.leases[next(iter(self.leases))]

    def find(self, lease: LeaseId) -> LeaseState | None:
        dumped = self.leases.get(lease)
        return None if dumped is None else load_lease(_decoder.decode(dumped))

    def __iter__(self) -> Iterator[LeaseState]:
        return (load_lease(_decoder.decode(dumped)) for dumped in self.leases.values())

    def encoded(self) -> list[bytes]:
        """A LeaseDump each."""
        return list(self.leases.values())

    def load(self, dumped: list[msgspec.Raw]) -> None:
        for raw in dumped:
            self.leases[LeaseId(_decoder.decode(raw).id)] = bytes(raw)
