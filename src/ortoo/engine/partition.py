"""What the engine knows of one partition's log. Shared by all groups; message values are not here, the store has them."""

from __future__ import annotations

from array import array
from typing import Any

from ortoo.model.batch import Batch
from ortoo.model.names import GroupId
from ortoo.model.offsets import NOTHING, OffsetSet
from ortoo.model.records import Published
from ortoo.model.topic import DEFAULT_PRIORITY, TopicConfig

from .due_dates import NO_DATES, DueDates
from .heads import News
from .keys import NO_KEYS, KeyColumn
from .timeline import NO_TIMELINE, Timeline
from .wheel import NO_WHEEL, Pair, Wheel

_NONE: dict[int, Any] = {}  # never changed
_FEW = 1_024  # pairs that are not worth sweeping
TTL, MAX_WAIT = 0, 1  # kinds of expiry, in the lowest bit of an expiry wheel's item


class Partition:
    """
    start              first offset the log still has
    trimmed_at         when the newest message was published that the log no longer has
    archived           messages below are kept elsewhere, so that retention need not wait for them
    end                offset the next message gets
    confirmed          messages below are on disk (soft: the broker moves it)
    held               where what a transaction has published so far begins, until all of it is: from here on nobody sees anything
    durable            messages below are on disk and may be seen and leased
    windowed           with a window buffer, messages from here on wait for the window to close
    delayed            not due yet; `delays` knows when
    expired            outlived their time to live; evicted: waited longer than max_wait before their first delivery
    deleted            removed one by one, or superseded; private: seen by one group only
    bytes_gone         about what those had that were superseded, or deleted beside such
    bytes_cut          the part of it that was trimmed, but was published at one instant with the first message that is there
    empties            messages without a value, which delete their keys, where the topic keeps the latest only
    lanes              offsets by priority, for priorities other than the usual one
    keys               key hashes, kept only where the order asks for them
    quarantine_reason  why the store cannot vouch for it; then it is neither read nor written
    unsized            where drafted copies begin, whose values are on their way to the store, and their likely bytes (soft)
    news               of the topic: told when `visible` may have moved on (soft)
    delayed_then_due   when messages that were delayed came due

    Most partitions use little of this, and there may be very many: what is empty is shared until it is used.
    """

    __slots__ = (
        "archived",
        "bytes_cut",
        "bytes_gone",
        "bytes_total",
        "confirmed",
        "delayed",
        "delayed_then_due",
        "delays",
        "deleted",
        "empties",
        "end",
        "evicted",
        "expired",
        "expiries",
        "held",
        "index",
        "keys",
        "lanes",
        "news",
        "private",
        "quarantine_reason",
        "start",
        "timeline",
        "trimmed_at",
        "unsized",
        "windowed",
    )

    def __init__(self, index: int, news: News) -> None:
        self.index = index
        self.news = news
        self.start = 0
        self.archived = 0
        self.end = 0
        self.confirmed = 0
        self.held: int | None = None
        self.windowed: int | None = None
        self.bytes_total = 0  # of all messages ever appended
        self.bytes_gone = 0
        self.bytes_cut = 0
        self.delayed: OffsetSet = NOTHING
        self.delays: Wheel = NO_WHEEL
        self.expired: OffsetSet = NOTHING
        self.evicted: OffsetSet = NOTHING
        self.expiries: Wheel = NO_WHEEL
        self.deleted: OffsetSet = NOTHING
        self.empties: OffsetSet = NOTHING
        self.private: dict[int, GroupId] = _NONE
        self.lanes: dict[int, OffsetSet] = _NONE
        self.keys: KeyColumn = NO_KEYS
        self.delayed_then_due: DueDates = NO_DATES
        self.timeline: Timeline = NO_TIMELINE
        self.trimmed_at = 0
        self.quarantine_reason: str | None = None
        self.unsized: dict[int, int] = _NONE

    def tell(self) -> None:
        """More may be visible now."""
        self.news.tell(self.index)

    @property
    def durable(self) -> int:
        return self.confirmed if self.held is None else min(self.confirmed, self.held)

    @property
    def settled_end(self) -> int:
        """The end, as far as no transaction is under way: a position at the end means this."""
        return self.end if self.held is None else self.held

    @property
    def visible(self) -> int:
        """Messages below may be leased, as far as the log is concerned."""
        return self.durable if self.windowed is None else min(self.durable, self.windowed)

    @property
    def bytes_held(self) -> int:
        if self.start == 0:
            return max(0, self.bytes_total - self.bytes_gone)
        if self.start == self.end:  # the timeline keeps the last instant, whose messages are gone
            return 0
        return max(0, self.bytes_total - self.timeline.bytes_at(self.start) - self.bytes_gone)

    def instant_of(self, offset: int) -> tuple[int, int, int]:
        """(first offset, offset behind the last, bytes) of what was published at the same instant."""
        return self.timeline.instant_of(offset, self.end, self.bytes_total)

    def mean_of(self, offset: int) -> tuple[int, int, int]:
        """(first offset, offset behind the last, bytes of one of them) of what was published at the same instant."""
        first, end, size = self.instant_of(offset)
        return first, end, -(-size // max(1, end - first))

    def bytes_before(self, offset: int) -> int:
        """How many were published before it; about, where others were published at the same instant."""
        if offset >= self.end:
            return self.bytes_total
        first, end, size = self.instant_of(offset)
        return self.timeline.bytes_at(offset) + size * (offset - first) // max(1, end - first)

    def lane_of(self, offset: int) -> int:
        for lane, offsets in self.lanes.items():
            if offset in offsets:
                return lane
        return DEFAULT_PRIORITY

    def has_gone(self) -> bool:
        """Whether some messages are not there for everybody."""
        return bool(self.deleted or self.expired or self.evicted or self.private)

    def gone_for(self, group: GroupId) -> OffsetSet:
        gone = self.deleted | self.expired
        gone.update(self.evicted)
        for offset, owner in self.private.items():
            if owner != group:
                gone.add(offset)
        return gone

    def append(self, record: Published, config: TopicConfig, likely: int = 0) -> None:
        """`likely`: how large copies may be, until that is known."""
        base, end, batch = record.base, record.base + record.count, record.batch
        if self.timeline is NO_TIMELINE:
            self.timeline = Timeline()
        self.timeline.append(base, record.at, self.bytes_total)
        self.bytes_total += record.size
        if record.origins and not record.size:
            self.unsized = {**self.unsized, base: likely}
        self.end = end
        if config.ordering == "key" or config.keep == "latest":
            self.append_keys(base, record.count, record.key_hashes)
        if config.keep == "latest" and b"" in batch.values and not record.origins:
            self.empties |= OffsetSet([offset for offset, value in enumerate(batch.values, base) if not value])
        if record.only_group is not None:
            if not self.private:
                self.private = {}
            self.private.update(dict.fromkeys(range(base, end), record.only_group))
        if batch.priorities and not record.origins:
            self._append_lanes(base, batch.priorities)
        if batch.dues:
            self._append_delays(base, batch.dues, record.at)
            if len(self.delays) > 2 * len(self.delayed) + _FEW:  # the larger part is not there any more
                self.delays.sweep(4 * record.count + 64, lambda _, offset: offset in self.delayed)
        if batch.expires or config.max_wait is not None:
            self._append_expiries(base, record, config)

    def confirm(self, record: Published) -> None:
        """The record is durable: what it published may be leased, and how large copies are is known."""
        self.confirmed = max(self.confirmed, record.base + record.count)
        self.tell()
        if record.base in self.unsized:
            self.unsized = {base: likely for base, likely in self.unsized.items() if base != record.base}
            self.bytes_total += record.size
            self.timeline.add_bytes(record.base, record.size)

    def append_keys(self, base: int, count: int, hashes: bytes | None) -> None:
        if self.keys is NO_KEYS and hashes:
            self.keys = KeyColumn()
        if self.keys is not NO_KEYS:
            self.keys.append(base, count, array("Q", hashes) if hashes else None)

    def _append_lanes(self, base: int, priorities: list[int]) -> None:
        found: dict[int, list[int]] = {}
        for offset, priority in enumerate(priorities, base):
            if priority in found:
                found[priority].append(offset)
            else:
                found[priority] = [offset]
        found.pop(DEFAULT_PRIORITY, None)
        for priority, offsets in found.items():
            if priority in self.lanes:
                self.lanes[priority].update(OffsetSet(offsets))
            else:
                self.lanes = {**self.lanes, priority: OffsetSet(offsets)}

    def _append_delays(self, base: int, dues: list[int], at: int) -> None:
        if self.delays is NO_WHEEL:
            self.delays = Wheel()
        if dues.count(dues[0]) == len(dues):
            if dues[0] > at:
                self.delayed |= OffsetSet.span(base, base + len(dues))
                self.delays.add_all(dues[0], range(base, base + len(dues)))
            return
        late = [(due, offset) for offset, due in enumerate(dues, base) if due > at]
        self.delayed |= OffsetSet([offset for _, offset in late])
        self.delays.add_pairs(late)

    def _append_expiries(self, base: int, record: Published, config: TopicConfig) -> None:
        batch: Batch = record.batch
        if self.expiries is NO_WHEEL:
            self.expiries = Wheel()
        count, since = record.count, record.at
        if batch.expires and batch.expires[0] and batch.expires.count(batch.expires[0]) == count:  # that of the topic
            self.expiries.add_all(batch.expires[0], range(base << 1 | TTL, (base + count) << 1 | TTL, 2))
        elif batch.expires:
            pairs = ((expires, offset << 1 | TTL) for offset, expires in enumerate(batch.expires, base) if expires)
            self.expiries.add_pairs(pairs)
        if config.max_wait is not None:
            wait = round(config.max_wait * 1000)
            dues = batch.dues or [since] * count
            pairs = ((max(due, since) + wait, offset << 1 | MAX_WAIT) for offset, due in enumerate(dues, base))
            self.expiries.add_pairs(pairs)
        if len(self.expiries) > 4 * (self.end - self.start) + _FEW:  # two a message at most: the others were trimmed
            self.expiries.sweep(4 * count + 64, lambda _, item: item >> 1 >= self.start)

    def come_due(self, now: int, upto: Pair | None = None) -> OffsetSet:
        """Takes out the delayed messages that are due."""
        due = [(when, offset) for when, offset in self.delays.pop(now, upto) if offset in self.delayed]
        if self.delayed_then_due is NO_DATES:
            self.delayed_then_due = DueDates()
        self.delayed_then_due.add(due)
        offsets = OffsetSet([offset for _, offset in due])
        self.delayed.subtract(offsets)
        return offsets

    def expiring(self, due: list[Pair]) -> tuple[OffsetSet, OffsetSet]:
        """What of these pairs of the wheel expires, and what is evicted."""
        live = [item for _, item in due if item >> 1 >= self.start and item >> 1 not in self.deleted]
        return (
            OffsetSet([item >> 1 for item in live if item & 1 == TTL]),
            OffsetSet([item >> 1 for item in live if item & 1 == MAX_WAIT]),
        )

    def expire(self, now: int, upto: Pair | None = None) -> None:
        expired, evicted = self.expiring(self.expiries.pop(now, upto))
        self.expired |= expired
        self.evicted |= evicted
        self.delayed.subtract(expired)

    def bytes_of(self, offsets: OffsetSet) -> int:
        """About how many bytes they have."""
        left, size = offsets.copy(), 0
        while left:
            _, end, mean = self.mean_of(left.first())
            size += mean * left.count_within(0, end)
            left.remove_span(0, end)
        return size

    def remove(self, offsets: OffsetSet, size: int) -> None:
        """They are gone for everybody; and about how many bytes they had, where that is counted."""
        self.deleted |= offsets
        self.empties.subtract(offsets)
        self.bytes_gone += size

    def _trim_gone(self, start: int) -> None:
        """`bytes_held` knows where instants begin, so what went of the first one counts as gone until all of it has."""
        if not self.bytes_gone:
            return
        first = self.instant_of(start)[0] if start < self.end else start
        if first > self.start:
            self.bytes_gone -= self.bytes_cut + self.bytes_of(self.deleted.within(self.start, first))
            self.bytes_cut = 0
        self.bytes_cut += self.bytes_of(self.deleted.within(max(first, self.start), start))

    def unripe_before(self, cutoff: int) -> int:
        """No offset from here on may be trimmed by an age limit: not due yet, or due only after `cutoff`."""
        bound = self.delayed_then_due.first_since(cutoff)
        bound = self.end if bound is None else bound
        return min(bound, self.delayed.first()) if self.delayed else bound

    def trim(self, start: int) -> None:
        if start > self.start:
            self.trimmed_at = max(self.trimmed_at, self.timeline.time_of(start - 1))
        self._trim_gone(start)
        self.start = start
        self.timeline.trim(start)
        if self.keys:
            self.keys.trim(start)
        for offsets in (self.delayed, self.expired, self.evicted, self.deleted, self.empties, *self.lanes.values()):
            offsets.remove_span(0, start)
        if not self.deleted:
            self.bytes_gone = self.bytes_cut
        if self.lanes:
            self.lanes = {lane: offsets for lane, offsets in self.lanes.items() if offsets}
        if self.private:
            self.private = {offset: group for offset, group in self.private.items() if offset >= start}
        if self.delayed_then_due is not NO_DATES:
            self.delayed_then_due.trim(start)
        if not self.delayed and self.delays:
            self.delays, now = Wheel(), self.delays.now
            self.delays.now = now
