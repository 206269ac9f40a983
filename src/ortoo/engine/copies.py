"""How much dead letters may take: they are copies, written twice like all that is published, though nobody publishes them.

The engine holds no values, so their sizes are bounded from what the partition knows: the bytes of each instant together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ortoo.model import limits
from ortoo.model.errors import FullError, StoreFailedError, TooManyError

if TYPE_CHECKING:
    from .partition import Partition
    from .topic import Topic

_HEADER_BYTES = 512  # that a dead letter has besides its error
_CHAR_BYTES = 4
PLENTY = 1 << 62
STORE_SHORT_MS = 1_000  # until what the store has no room for, or cannot take, is tried again
QUOTA_SHORT_MS = 30_000  # until what a quota has no room for is; a tenant may have very much of that
_UNDER_WAY_MS = 20  # until what is under way may be durable


class CopyRoom(NamedTuple):
    """What copies may take now. The broker knows: the store's room, None when it has plenty; and what may be under way."""

    store: int | None = None
    memory: int = limits.COPIED_BYTES_MAX
    is_idle: bool = True  # nothing is under way
    can_encrypt: bool = True  # there is a key
    can_read: bool = True  # what is copied; else there is no room

    def less(self, cost: Cost) -> CopyRoom:
        store = None if self.store is None else self.store - cost.most
        return self._replace(store=store, memory=self.memory - cost.likely, is_idle=False)

    def share(self, count: int) -> CopyRoom:
        return self._replace(store=None if self.store is None else self.store // count, memory=self.memory // count)


# A message to be copied: where it lies, and the error that comes with the copy.
Original = tuple["Partition", int, str | None]


class Cost(NamedTuple):
    """Of copying some messages: what is likely, and what it cannot exceed."""

    likely: int
    most: int


class Fitting(NamedTuple):
    """How many of the first messages may be copied now, what that costs, and in how many ms to try the others."""

    copied: int
    cost: Cost
    again_ms: int | None


def fit(room: CopyRoom, topic: Topic, originals: Iterable[Original], quota: int = PLENTY) -> Fitting:
    """What is larger than all that may be under way goes alone. Offsets ascend within a partition, for each group anew.

    `quota`: so many bytes their namespace may still store.
    """
    store, memory = (PLENTY if room.store is None else room.store), room.memory
    largest = topic.config.max_message_bytes
    likely = most = count = 0
    where, last, end = None, 0, 0
    left = mean = 0  # bytes of the instant that are not counted yet, and of one of its messages
    for partition, offset, error in originals:
        if partition is not where or not last < offset < end:
            where, (start, end, left) = partition, partition.instant_of(offset)
            mean = left // max(1, end - start)
        last = offset
        text = _HEADER_BYTES + (_CHAR_BYTES * len(error) if error else 0)
        one = min(largest, left)
        if likely + mean + text > quota:
            return Fitting(count, Cost(likely, most), QUOTA_SHORT_MS)
        if most + one + text > store:
            return Fitting(count, Cost(likely, most), STORE_SHORT_MS)
        if likely + mean + text > memory and (count > 0 or not room.is_idle):
            return Fitting(count, Cost(likely, most), _UNDER_WAY_MS)
        left -= one
        likely += mean + text
        most += one + text
        count += 1
    return Fitting(count, Cost(likely, most), None)


def cost_of(topic: Topic, originals: Iterable[Original]) -> Cost:
    return fit(CopyRoom(memory=PLENTY), topic, originals).cost


def check_fitting(room: CopyRoom, topic: Topic, originals: Iterable[Original]) -> Cost:
    """For one who asked for all of them."""
    cost = cost_of(topic, originals)
    if cost.most and not room.can_read:
        raise StoreFailedError(
            "what would be dead-lettered cannot be read while its database is away; settle it again when that is back; acks"
            " still work"
        )
    if room.store is not None and cost.most > room.store:
        raise FullError(
            f"the dead letters may take {cost.most >> 10} KiB, and the disk has room for {room.store >> 10} KiB;"
            " make room, or settle fewer at a time; acks still work"
        )
    if cost.likely > limits.COPIED_BYTES_ASKED_MAX:
        raise TooManyError(
            f"the dead letters would take about {cost.likely >> 20} MiB, and one command may make"
            f" {limits.COPIED_BYTES_ASKED_MAX >> 20} MiB of them; settle fewer at a time"
        )
    return cost
