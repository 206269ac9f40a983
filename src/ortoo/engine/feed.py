"""One group's delivery state in one partition.

    fresh ──admit──▶ ready ──take──▶ leased ──settle──▶ (done: no longer in `open`)
                      ▲ ▲              │
      delayed ──due───┘ └──give back── retrying (waits for its backoff)
      blocked ──key or partition free──┘

Everything below `cursor` that is not in `open` is done. Everything from `cursor` on is fresh: the feed has not looked at it
yet. Looking (`admit`) sorts fresh messages into ready lanes, or behind an earlier message of their key; it changes nothing
that could be observed, so it happens lazily, on the way of a lease, and replay need not repeat it at the same moments.
With one lane in use only as many messages are admitted as are needed; with several, all are, to find the most urgent.

A seek may make a million messages deliverable at once. In key order they are `unsorted` then: open, but in no lane and behind no
key, until a lease comes to them. None behind the first of them is delivered before they are sorted, so nobody can tell.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from ortoo.model import limits
from ortoo.model.names import GroupId
from ortoo.model.offsets import NOTHING, OffsetSet
from ortoo.model.topic import DEFAULT_PRIORITY, Ordering

from .keys import KeyOrder
from .partition import Partition
from .wheel import NO_WHEEL, Pair, Wheel

_FEW = 1_024  # pairs of a wheel that are not worth sweeping


class Failure(NamedTuple):
    """A message that failed at least once: how often, when it was first delivered, when its retry is due."""

    attempts: int
    first: int
    due: int


class Feed:
    __slots__ = (
        "ahead",
        "cursor",
        "dead",
        "due_early",
        "failures",
        "fifo",
        "group",
        "keys",
        "leased",
        "open",
        "partition",
        "ready",
        "retries",
        "retrying",
        "skipped",
        "touched",
        "unsorted",
    )

    def __init__(self, partition: Partition, group: GroupId, ordering: Ordering, cursor: int) -> None:
        self.partition = partition
        self.group = group
        self.fifo = ordering in ("partition", "strict")
        self.keys = KeyOrder() if ordering == "key" else None
        self.cursor = cursor
        self.ahead: OffsetSet = NOTHING  # from the cursor on, but asked for by name: looked at before their turn
        self.open: OffsetSet = NOTHING  # admitted and not settled, in whatever state
        self.ready: dict[int, OffsetSet] = {}  # by lane; a partition in FIFO order has one, whatever the priorities
        self.leased: OffsetSet = NOTHING
        self.retrying: OffsetSet = NOTHING
        self.retries: Wheel = NO_WHEEL
        self.failures: dict[int, Failure] = {}
        self.dead: OffsetSet = NOTHING
        self.due_early: OffsetSet = NOTHING  # delayed for the others, but this group asked for them at once
        self.skipped = 0
        self.unsorted: OffsetSet = NOTHING  # soft: below the cursor, open and deliverable, but not offered yet
        self.touched: set[int] | None = None  # soft: which feeds of the group have to be looked at anew, see heads.py

    # -- becoming ready

    def admit(self, upto: int) -> int:
        """Looks at the fresh messages before `upto`; returns how many there were."""
        start, partition = self.cursor, self.partition
        if upto <= start:
            return 0
        self.cursor = upto
        start = max(start, partition.start)
        if upto <= start:
            return 0
        fresh = OffsetSet.span(start, upto)
        if self.dead or self.ahead or partition.has_gone():
            fresh.subtract(self._gone())
        self.open |= fresh
        if partition.delayed:
            fresh.subtract(partition.delayed)
        if self.ahead:
            self.ahead.remove_span(0, upto)
        self.offer(fresh)
        return upto - start

    def admit_some(self, offsets: OffsetSet) -> None:
        """Looks at just these of the messages that cannot be leased yet, and at all that can be."""
        self.admit(min(offsets.last() + 1, self.partition.visible))
        self.ahead |= offsets.within(self.cursor, offsets.last() + 1)

    def _touch(self) -> None:
        """Something may come before what was next so far."""
        if self.touched is not None:
            self.touched.add(self.partition.index)

    def _make_ready(self, offsets: OffsetSet) -> None:
        self._touch()
        if self.partition.lanes and not self.fifo:
            for lane, members in self.partition.lanes.items():
                inside = offsets & members
                if inside:
                    self._lane(lane).update(inside)
                    offsets = offsets - inside
        if offsets:
            self._lane(DEFAULT_PRIORITY).update(offsets)

    def _lane(self, lane: int) -> OffsetSet:
        ready = self.ready.get(lane)
        if ready is None:
            ready = self.ready[lane] = OffsetSet()
        return ready

    def offer(self, offsets: OffsetSet) -> None:
        """Open messages that are in no other state become ready, or wait for their keys."""
        if self.keys is not None and self.partition.keys:
            array = offsets.to_array()
            aside, behind = self.keys.offer(array, self.partition.keys.of(array))
            if behind:
                self._unready(OffsetSet(behind))
            if aside:
                offsets = offsets - OffsetSet(aside)
        self._make_ready(offsets)

    def came_due(self, offsets: OffsetSet) -> None:
        mine = (offsets & self.open) - self.due_early
        self.due_early.subtract(offsets)
        self.offer(mine)

    def reopen(self, offsets: OffsetSet) -> None:
        """Done messages become deliverable once more, with their attempts forgotten."""
        self.dead.subtract(offsets)
        self.open |= offsets
        self._forgive(offsets)
        self.offer(offsets - (self.partition.delayed - self.due_early) if self.partition.delayed else offsets)

    def begin_again(self, start: int, end: int) -> None:
        """A seek: what is delivered returns, and all of [start, end) is deliverable as if it never had been. Expired messages,
        and superseded ones, do not return: only who held them might have finished them."""
        partition = self.partition
        windowed = self._leave_window()
        self.close(self.leased & partition.expired)
        self.close(self.leased & partition.deleted)  # superseded
        back = self.leased | self.retrying.within(start, end)
        self.leased = NOTHING
        self.retrying.subtract(back)
        self.failures = {offset: past for offset, past in self.failures.items() if not start <= offset < end}
        again = OffsetSet.span(start, end) if start < end else OffsetSet()
        again.subtract(self.open)
        again.subtract(partition.gone_for(self.group))
        self.dead.subtract(again)
        self.ahead.subtract(again.within(windowed, end))
        self.due_early.subtract(again.within(windowed, end))
        again = again.within(0, self.cursor) | (again & self.ahead)
        self.open |= again
        self._return(back)
        self._offer_in_time(again - (partition.delayed - self.due_early))

    def _leave_window(self) -> int:
        """Where what waits for its window begins. A group may have gone past that, and come back: then all of it counts as
        looked at by name, so that what is sought becomes fresh, and waits with the rest."""
        windowed = self.partition.windowed
        if windowed is None:
            return self.partition.end
        if self.cursor > windowed:
            self.ahead |= OffsetSet.span(windowed, self.cursor)
            self.cursor = windowed
        return windowed

    def begin_with(self, kept: OffsetSet) -> None:
        """Of a feed that begins: those from the cursor on that are deliverable, too, although they count as evicted."""
        partition, start = self.partition, max(self.cursor, self.partition.start)
        kept = kept.within(start, partition.end) - partition.expired - partition.deleted
        if not kept:
            return
        end = kept.last() + 1
        if partition.windowed is not None:  # they were delivered before, and the window holds back only the others
            end = min(end, max(start, partition.windowed))
            self.ahead |= kept.within(end, partition.end)
        self.cursor = end
        again = OffsetSet.span(start, end) if start < end else OffsetSet()
        again.subtract(partition.gone_for(self.group))
        again.update(kept)
        self.open |= again
        self._offer_in_time(again - partition.delayed)

    def _return(self, back: OffsetSet) -> None:
        """Many messages that held their keys go back in line. Where few others hold theirs, it is quicker to begin anew."""
        if not self._is_keyed or len(back) <= max(limits.SORTED_AT_ONCE, len(self.retrying)):
            self._back_in_line(back)
            return
        self.ready, self.keys = {}, KeyOrder()
        self.keys.hold_all(self.partition.keys.of(self.retrying.to_array()))
        self.unsorted = NOTHING
        self._offer_in_time(self.open - self.retrying - (self.partition.delayed - self.due_early))

    def _offer_in_time(self, offsets: OffsetSet) -> None:
        """At once where they are few, or no keys are in the way; else when a lease comes to them."""
        if self._is_keyed and len(offsets) > limits.SORTED_AT_ONCE:
            self.unsorted |= offsets.within(0, self.cursor)
            self._touch()
            offsets = offsets.within(self.cursor, offsets.last() + 1)
        self.offer(offsets - self.unsorted)

    def sort(self, upto: int, most: int) -> int:
        """Offers the first of the unsorted messages before `upto`; returns how many there were."""
        some = self.unsorted.within(0, upto).take(most)
        self.unsorted.subtract(some)
        self.offer(some)
        return len(some)

    @property
    def _is_keyed(self) -> bool:
        return self.keys is not None and bool(self.partition.keys)

    def _forgive(self, offsets: OffsetSet) -> None:
        if self.failures:
            for offset in offsets:
                self.failures.pop(offset, None)

    # -- being delivered

    def take(self, offsets: OffsetSet) -> None:
        self.admit(min(offsets.last() + 1, self.partition.visible))
        if self.unsorted:
            self.sort(offsets.last() + 1, len(self.unsorted))
        self._unready(offsets)
        self.leased |= offsets
        if self.keys is not None and self.partition.keys:
            array = offsets.to_array()
            self.keys.hold(array, self.partition.keys.of(array))

    def give_back(self, offsets: OffsetSet) -> None:
        """Leased messages return to their place, to be delivered again."""
        self.leased.subtract(offsets)
        self._back_in_line(offsets)

    def retry(self, offsets: list[int], dues: list[int], first: int, now: int) -> None:
        """Deliveries failed; the messages come back when they are due, and hold their keys until then."""
        failures = self.failures
        later: dict[int, list[int]] = {}
        for offset, due in zip(offsets, dues, strict=True):
            past = failures.get(offset)
            failures[offset] = Failure(past.attempts + 1, past.first, due) if past else Failure(1, first, due)
            if due > now:
                later.setdefault(due, []).append(offset)
        for due, some in later.items():
            self.retry_at(due, some)
        failed, waiting = OffsetSet(offsets), OffsetSet(chain.from_iterable(later.values()))
        self.leased.subtract(failed)
        self.retrying |= waiting
        self._back_in_line(failed - waiting)
        if len(self.retries) > 2 * len(self.retrying) + _FEW:
            self.retries.sweep(64 * len(offsets), self._is_due_then)

    def retry_at(self, due: int, offsets: list[int]) -> None:
        if self.retries is NO_WHEEL:
            self.retries = Wheel()
        self.retries.add_all(due, offsets)

    def _is_due_then(self, when: int, offset: int) -> bool:
        failure = self.failures.get(offset)
        return offset in self.retrying and failure is not None and failure.due == when

    def retries_due(self, now: int, upto: Pair | None = None) -> None:
        due = [pair for pair in self.retries.pop(now, upto) if self._is_due_then(*pair)]
        offsets = OffsetSet([offset for _, offset in due])
        self.retrying.subtract(offsets)
        self._back_in_line(offsets)

    def hasten(self, offset: int) -> None:
        """A message that waits for its retry, or is leased, goes back in line at once."""
        if offset in self.retrying or offset in self.leased:
            self.retrying.discard(offset)
            self.leased.discard(offset)
            self._back_in_line(OffsetSet([offset]))

    def _back_in_line(self, offsets: OffsetSet) -> None:
        if self.keys is not None and self.partition.keys:
            array = offsets.to_array()
            offsets = OffsetSet(self.keys.give_back(array, self.partition.keys.of(array)))
        self._make_ready(offsets)

    # -- being done

    def settle(self, offsets: OffsetSet) -> None:
        """Leased messages are done."""
        self.leased.subtract(offsets)
        self.open.subtract(offsets)
        self._forgive(offsets)
        if self.keys is not None and self.partition.keys:
            ready = self.keys.release(self.partition.keys.of(offsets.to_array()))
            if ready:
                self._make_ready(OffsetSet(ready))

    def close(self, offsets: OffsetSet) -> None:
        """Messages are done, in whatever state they were: deleted, expired, trimmed, buried."""
        held = offsets & self.leased
        waiting = offsets & self.retrying
        self.retrying.subtract(waiting)
        held.update(waiting)
        if held:
            self.settle(held)
        rest = (offsets - held) & self.open
        if not rest:
            return
        self.open.subtract(rest)
        self.unsorted.subtract(rest)
        self._forgive(rest)
        if self.keys is not None and self.partition.keys:
            array = rest.to_array()
            ready = self.keys.forget(array, self.partition.keys.of(array))
            if ready:
                self._make_ready(OffsetSet(ready))
        self._unready(rest)  # last: one that goes too may have taken the place of another of its key

    def bury(self, offsets: OffsetSet) -> None:
        self.close(offsets)
        self.dead |= offsets

    def start_at(self, start: int) -> None:
        """The log begins at `start` now."""
        self.close(self.open.within(0, start))
        self.dead.remove_span(0, start)
        self.due_early.remove_span(0, start)
        self.ahead.remove_span(0, start)
        self.cursor = max(self.cursor, start)

    # -- asking

    def may_have_some(self) -> bool:
        """Whether it is worth asking for messages to deliver."""
        partition = self.partition
        has_some = bool(self.ready) or self.cursor < partition.durable or bool(self.unsorted)
        return has_some and not partition.quarantine_reason

    @property
    def is_held(self) -> bool:
        """In FIFO order: whether a delivered message blocks the partition."""
        return bool(self.leased) or bool(self.retrying)

    @property
    def floor(self) -> int:
        """Everything below is done."""
        return min(self.open.first(), self.cursor) if self.open else self.cursor

    def backlog(self) -> int:
        return len(self.open) + self._fresh_count()

    def _fresh_count(self) -> int:
        start, end = max(self.cursor, self.partition.start), self.partition.settled_end
        if start >= end:
            return 0
        is_whole = not (self.dead or self.ahead or self.partition.has_gone())
        gone = 0 if is_whole else self._gone().count_within(start, end)
        return end - start - gone

    def _gone(self) -> OffsetSet:
        """What lies from the cursor on and is not fresh: not to be delivered, or looked at already."""
        gone = self.partition.gone_for(self.group)
        gone.update(self.dead)
        gone.update(self.ahead)
        return gone

    def unsettled(self, offsets: OffsetSet) -> OffsetSet:
        """Those of them that the group has not settled, fresh ones included."""
        found = offsets & self.open
        fresh = offsets.within(self.cursor, self.partition.end)
        if fresh:
            fresh.subtract(self._gone())
            found.update(fresh)
        return found

    def _unready(self, offsets: OffsetSet) -> None:
        for lane, ready in list(self.ready.items()):
            ready.subtract(offsets)
            if not ready:
                del self.ready[lane]
