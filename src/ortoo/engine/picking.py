"""What one lease takes, run by run in the order of delivery; and the same where it may be of a few keys only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ortoo.model import limits
from ortoo.model.replies import Taken

from .feeds import Feeds
from .keys import NO_KEY
from .order import Order
from .partition import Partition
from .picker import Budget, Picker

FOREVER = 1 << 62
Run = tuple[int, Sequence[int]]  # partition, offsets


def pick(order: Order, wanted: int) -> list[Run]:
    """Runs of (partition, offsets) in the order of delivery."""
    runs: list[Run] = []
    used: set[int] = set()
    try:
        order.begin(wanted)
        while wanted > 0 and (head := order.pop()) is not None:
            lane, _, partition = head
            used.add(partition)
            if len(used) > limits.LEASE_PARTITIONS_MAX:  # each costs a read and more; the others are for the next lease
                break
            picker, before = order.pickers[partition], FOREVER
            # Another partition may have this lane, too: then go on only as long as ours comes first.
            if (other := order.first()) is not None and other[0] == lane:
                timeline, (_, then, which) = picker.feed.partition.timeline, other
                before = (timeline.first_after(then) if partition < which else timeline.first_at(then)) or FOREVER
            offsets = picker.take(lane, wanted, before, is_alone=other is None)
            if offsets:
                wanted -= len(offsets)
                _add_run(runs, partition, offsets)
            if len(runs) >= limits.LEASE_RUNS_MAX:  # the same
                break
            if offsets and wanted > 0:
                order.look(partition, wanted)
        return runs
    finally:
        order.close()


def _add_run(runs: list[Run], partition: int, offsets: Sequence[int]) -> None:
    """A run goes on where the same partition does, in its order."""
    if runs and runs[-1][0] == partition and runs[-1][1][-1] < offsets[0]:
        before = runs[-1][1]
        if not isinstance(before, list):
            before = list(before)
            runs[-1] = (partition, before)
        before.extend(offsets)
    else:
        runs.append((partition, offsets))


def pick_by_key(feeds: Feeds, picked: list[Run], wanted: int, keys_max: int, budget: Budget) -> list[Run]:
    """Of what would be taken, the first so many keys: one key after the other, each as far as messages are wanted.

    A message without a key is alone: it counts as a key, and nothing comes with it.
    """
    runs: list[Run] = []
    for (partition, key), offset in _firsts(feeds.partitions, picked, keys_max):
        found: list[Run] = [(partition, [offset])]
        if key != NO_KEY:
            found = pick(Order({partition: Picker(feeds[partition], budget, key)}), wanted)
        for _, offsets in found:
            _add_run(runs, partition, offsets)
            wanted -= len(offsets)
        if wanted <= 0 or len(runs) >= limits.LEASE_RUNS_MAX:
            break
    return runs


def count_keys(partitions: Sequence[Partition], taken: list[Taken]) -> int:
    """How many different keys a lease took."""
    picked = [(run.partition, run.offsets) for run in taken]
    return sum(1 for _ in _firsts(partitions, picked, limits.BATCH_MESSAGES_MAX))


def _firsts(
    partitions: Sequence[Partition], runs: Iterable[Run], keys_max: int
) -> Iterator[tuple[tuple[int, int], int]]:
    """The first so many keys, each with its partition and its first message."""
    seen: set[tuple[int, int]] = set()
    alone = 0
    for partition, offsets in runs:
        keys = partitions[partition].keys
        for offset in offsets:
            place = (partition, keys.at(offset) if keys else NO_KEY)
            if place in seen:
                continue
            if place[1] == NO_KEY:
                alone += 1
            else:
                seen.add(place)
            yield place, offset
            if len(seen) + alone >= keys_max:
                return
