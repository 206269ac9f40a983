"""When messages come due and expire: the engine's wheels know, in no order. Going through them takes turns.

A wheel is gone through from its next slot on, so that what moves to narrower slots meanwhile, because its time is near, was seen.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import AsyncIterator, Collection
from itertools import compress

import msgspec

from ortoo.engine.partition import MAX_WAIT, TTL, Partition
from ortoo.engine.topic import Topic
from ortoo.engine.wheel import Wheel
from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.inspection import DelayedCounts
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Page

from .turns import Turns

_AT_ONCE = 5_000  # pairs of a wheel
_PAIRS = 50  # that take as long as a unit of work
_WEEK_MS = 7 * 86_400_000
_TIME_MAX = 1e11  # seconds since 1970


async def _pairs(wheel: Wheel, turns: Turns) -> AsyncIterator[tuple[array[int], array[int]]]:
    """Instants and items, a few at a time, those of one slot after those of another that begins earlier."""
    for place in sorted(wheel.slots):
        slot = wheel.slots.get(place)
        if slot is None:
            continue
        slot = slot[:]
        for at in range(0, len(slot), 2 * _AT_ONCE):
            some = slot[at : at + 2 * _AT_ONCE]
            yield some[0::2], some[1::2]
            await turns.worked(len(some) / (2 * _PAIRS))


async def find_times(wheel: Wheel, items: Collection[int], turns: Turns) -> dict[int, int]:
    """When each of these is due, as far as the wheel has it."""
    wanted, found = frozenset(items), dict[int, int]()
    async for whens, some in _pairs(wheel, turns):
        if not wanted.isdisjoint(some):
            found.update(compress(zip(some, whens, strict=True), map(wanted.__contains__, some)))
            if len(found) == len(wanted):
                break
    return found


async def due_times(log: Partition, offsets: OffsetSet, turns: Turns) -> dict[int, int]:
    """When those of them that are delayed come due."""
    delayed = log.delayed & offsets
    return await find_times(log.delays, delayed.to_array(), turns) if delayed else {}


async def expiry_times(log: Partition, offsets: OffsetSet, turns: Turns) -> dict[int, int]:
    """When they outlive their time to live, or before that their longest wait, which counts until the first delivery."""
    if not log.expiries:
        return {}
    items = [offset << 1 | kind for offset in offsets for kind in (TTL, MAX_WAIT)]
    found = dict[int, int]()
    for item, when in (await find_times(log.expiries, items, turns)).items():
        found[item >> 1] = min(when, found.get(item >> 1, when))
    return found


async def with_times(page: Page, log: Partition, turns: Turns, most: int | None = limits.TIMES_LOOKED_UP_MAX) -> Page:
    """The page, and when its messages come due and expire; without that where to find it out would take too long."""
    offsets = OffsetSet.of(page.columns.offsets)
    dues = await due_times(log, offsets, turns) if most is None or len(log.delays) <= most else {}
    expiries = await expiry_times(log, offsets, turns) if most is None or len(log.expiries) <= most else {}
    return msgspec.structs.replace(page, dues=dues, expiries=expiries) if dues or expiries else page


async def count_delayed(
    topic: Topic, start: float | None, until: float | None, buckets: int, now: int
) -> DelayedCounts:
    """Of the topic itself: what single groups wait to retry does not count."""
    first = now if start is None else _to_ms(start)
    end = first + _WEEK_MS if until is None else _to_ms(until)
    if not first < end:
        raise InvalidError("the range must end after it begins; give a later `to`")
    if not 1 <= buckets <= limits.DELAYED_BUCKETS_MAX:
        raise InvalidError(f"buckets must be 1 to {limits.DELAYED_BUCKETS_MAX}, not {buckets}")
    width = -(-(end - first) // buckets)  # whole milliseconds, so that no message lies between two buckets
    end = first + buckets * width
    found: Counter[int] = Counter()
    turns = Turns()
    for log in topic.partitions:
        async for whens, offsets in _pairs(log.delays, turns):
            live = compress(whens, map(log.delayed.__contains__, offsets))
            found.update(max(-1, min((when - first) // width, buckets)) for when in live)
        await turns.worked(1)
    earlier, later = found.pop(-1, 0), found.pop(buckets, 0)
    counts = [found[bucket] for bucket in range(buckets)]
    return DelayedCounts(first / 1000, end / 1000, width / 1000, counts, earlier + later + sum(counts), later, earlier)


def _to_ms(seconds: float) -> int:
    if not abs(seconds) < _TIME_MAX:
        raise InvalidError(f"a time is seconds since 1970, not {seconds}")
    return round(seconds * 1000)
