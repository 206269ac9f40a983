"""Which lease or retry holds a message, and with it perhaps a key or a partition; and what a key's name is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ortoo.engine.group import Group
from ortoo.engine.leases import LeaseState
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model.errors import CorruptionError
from ortoo.model.inspection import Holder
from ortoo.model.names import MessageRef
from ortoo.model.offsets import OffsetSet
from ortoo.ports import Store

from .turns import Turns

_READ_BYTES = 4 * 1024 * 1024  # of messages, about, that are read at a time for their keys

Place = tuple[int, int]  # partition, offset


class Shell(Protocol):
    """What looking into deliveries needs of the broker."""

    @property
    def store(self) -> Store: ...

    @property
    def state(self) -> State: ...

    def now(self) -> int: ...

    async def flush(self) -> None: ...


def lease_of(group: Group, partition: int, offset: int) -> LeaseState | None:
    """The lease that holds a message."""
    for lease in group.holding(partition, OffsetSet([offset])):
        if offset in lease.held.get(partition, ()):
            return lease
    return None


def holder_of(topic: Topic, group: Group, partition: int, offset: int) -> Holder | None:
    """Who has a message that holds others up; None when it holds them no longer."""
    ref = str(MessageRef(topic.id, partition, offset))
    feed = group.feeds.look(partition)
    if (lease := lease_of(group, partition, offset)) is not None:
        return Holder(ref, lease.consumer, lease.until / 1000)
    failure = feed.failures.get(offset)
    if offset not in feed.retrying or failure is None:
        return None
    return Holder(ref, None, failure.due / 1000)


async def read_keys(broker: Shell, topic: Topic, places: Iterable[Place], turns: Turns) -> dict[Place, str]:
    """The keys of messages. Values come with them, so that few are read at a time."""
    offsets: dict[int, list[int]] = {}
    for partition, offset in places:
        offsets.setdefault(partition, []).append(offset)
    found: dict[Place, str] = {}
    for partition, wanted in offsets.items():
        log = topic.partitions[partition]
        if log.quarantine_reason is not None:
            continue
        step = max(1, _READ_BYTES * max(1, log.end - log.start) // max(1, log.bytes_held))
        wanted.sort()
        for at in range(0, len(wanted), step):
            try:
                columns = await broker.store.read(topic.id, partition, wanted[at : at + step])
            except CorruptionError:
                continue
            for offset, key in zip(columns.offsets, columns.keys or (), strict=False):
                if key is not None:
                    found[partition, offset] = key
            await turns.worked(len(columns))
    return found
