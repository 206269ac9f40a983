"""How a log lies before a group: its offsets in buckets, and how many of each are in which state.

Each state is a set of offsets, and a bucket is a range: nothing is walked message by message. Which of many fresh messages stand
behind a held key is looked at up to a bound; beyond it they count as ready, as they do in a group's info.
"""

from __future__ import annotations

from ortoo.model import limits
from ortoo.model.inspection import PartitionStrip
from ortoo.model.offsets import OffsetSet

from .feed import Feed
from .partition import Partition
from .view import blocked_in, delayed_in, fresh_blocked

_Counts = list[int]


class Buckets:
    """[start, end) in at most so many ranges, all of the same width but the last."""

    __slots__ = ("bounds", "end", "start", "width")

    def __init__(self, start: int, end: int, most: int) -> None:
        self.start, self.end = start, max(start, end)
        self.width = max(1, -(-(self.end - start) // most))
        self.bounds = [*range(start, self.end, self.width), self.end]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def sizes(self) -> _Counts:
        return [after - bound for bound, after in zip(self.bounds, self.bounds[1:], strict=False)]

    def count(self, offsets: OffsetSet) -> _Counts:
        if not offsets:
            return [0] * len(self)
        return [offsets.count_within(*bounds) for bounds in zip(self.bounds, self.bounds[1:], strict=False)]


def strip_log(partition: Partition, most: int) -> PartitionStrip:
    """Without a group: what is stored is ready, unless it is not due yet."""
    buckets = Buckets(partition.start, partition.settled_end, most)
    lost = partition.deleted | partition.expired | partition.evicted
    gone, delayed = buckets.count(lost), buckets.count(partition.delayed - lost)
    none = [0] * len(buckets)
    ready = _less(buckets.sizes(), gone, delayed)
    return PartitionStrip(
        partition.index, buckets.start, buckets.end, buckets.width, ready, none, delayed, none, none, none, gone
    )


def strip_feed(feed: Feed, most: int, blocked: OffsetSet | None = None) -> PartitionStrip:
    """`blocked`: those behind held keys, where somebody has looked for them already, in turns."""
    partition = feed.partition
    buckets = Buckets(partition.start, partition.settled_end, most)
    pending = pending_in(feed)
    late = delayed_in(feed)
    late.update(unseen_in(feed))
    # Those that the log has lost, but the group holds, are pending.
    gone = buckets.count(partition.gone_for(feed.group) - pending - feed.dead)
    dead = buckets.count(feed.dead - pending)
    delayed, leased, waiting = buckets.count(late), buckets.count(feed.leased), buckets.count(pending)
    held_up = buckets.count(blocked_of(feed, pending - feed.leased - late, blocked))
    ready = _less(waiting, delayed, leased, held_up)
    done = _less(buckets.sizes(), waiting, dead, gone)
    return PartitionStrip(
        partition.index,
        buckets.start,
        buckets.end,
        buckets.width,
        ready,
        leased,
        delayed,
        held_up,
        done,
        dead,
        gone,
    )


def _less(counts: _Counts, *others: _Counts) -> _Counts:
    """What is left of each count."""
    return [count - sum(rest) for count, *rest in zip(counts, *others, strict=True)]


def pending_in(feed: Feed) -> OffsetSet:
    """What the group has not settled, looked at or not."""
    partition = feed.partition
    start, end = max(feed.cursor, partition.start), partition.settled_end
    pending = feed.unsettled(OffsetSet.span(start, end)) if start < end else OffsetSet()
    pending.update(feed.open)
    return pending


def unseen_in(feed: Feed) -> OffsetSet:
    """Fresh messages that nobody may see yet: not durable, or waiting for the window to close."""
    partition = feed.partition
    start, end = max(feed.cursor, partition.visible), partition.settled_end
    return feed.unsettled(OffsetSet.span(start, end)) - feed.open if start < end else OffsetSet()


def blocked_of(feed: Feed, pending: OffsetSet, waiting: OffsetSet | None) -> OffsetSet:
    """Which of these stand behind something delivered."""
    if feed.fifo:
        return pending if feed.is_held else OffsetSet()
    if feed.keys is None or not feed.is_held or not feed.partition.keys:
        return OffsetSet()
    blocked = (blocked_in(feed) if waiting is None else waiting) | fresh_blocked(feed, limits.SCAN_MESSAGES_MAX)
    return blocked & pending
