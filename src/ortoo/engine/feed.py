"""One group's delivery state in one partition.

    fresh ──admit──▶ ready ──take──▶ leased ──settle──▶ (done: no longer in `open`)
                      ▲ ▲              │
      delayed ──due───┘ └──give back── retrying (waits for its backoff)
      blocked ──key or partition free──┘

Everything below `cursor` that is not in `open` is done. Everything from `cursor` on is fresh: the feed has not looked at it
yet. Looking (`admit`) sorts fresh messages into ready lanes, or behind an earlier message of their key; it changes nothing
that could be observed, so it happens lazily, on the way of a lease, and replay need not repeat it at the same moments.
With one lane in use only as many messages are admitted as are needed; with several, all are, to find the most urgent.
"""

from __future__ import annotations

from typing import NamedTuple

from ortoo.model.names import GroupId
from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import ANY_PRIORITY, Ordering

from .keys import NO_KEY, KeyOrder, KeyState
from .partition import Partition
from .wheel import Pair, Wheel

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
        "early",
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
    )

    def __init__(self, partition: Partition, group: GroupId, ordering: Ordering, cursor: int) -> None:
        self.partition = partition
        self.group = group
        self.fifo = ordering in ("partition", "strict")
        self.keys = KeyOrder() if ordering == "key" else None
        self.cursor = cursor
        self.ahead = OffsetSet()  # from the cursor on, but asked for by name: looked at before their turn
        self.open = OffsetSet()  # admitted and not settled, in whatever state
        self.ready: dict[int, OffsetSet] = {}  # by lane; a partition in FIFO order has one, whatever the priorities
        self.leased = OffsetSet()
        self.retrying = OffsetSet()
        self.retries = Wheel()
        self.failures: dict[int, Failure] = {}
        self.dead = OffsetSet()
        self.early = OffsetSet()  # delayed for the others, but this group asked for them at once
        self.skipped = 0

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
        self.open.update(fresh)
        if partition.delayed:
            fresh.subtract(partition.delayed)
        if self.ahead:  # later ones of their keys may be ready already
            self.ahead.remove_span(0, upto)
            for offset in fresh:
                self.offer(offset)
            return upto - start
        if self.keys is not None and partition.keys:
            fresh = self._first_of_keys(fresh, self.keys.states)
        self._make_ready(fresh)
        return upto - start

    def admit_some(self, offsets: OffsetSet) -> None:
        """Looks at just these of the messages that cannot be leased yet, and at all that can be."""
        self.admit(min(offsets.last() + 1, self.partition.visible))
        self.ahead.update(offsets.within(self.cursor, offsets.last() + 1))

    def _first_of_keys(self, fresh: OffsetSet, states: dict[int, KeyState]) -> OffsetSet:
        """Sets aside messages behind an earlier one of their key. The hot loop of key order: KeyOrder.offer, inlined."""
        offsets = fresh.to_array()
        ready: list[int] = []
        for offset, key in zip(offsets, self.partition.keys.of(offsets), strict=True):
            if key != NO_KEY:
                state = states.get(key)
                if state is not None:
                    state.wait(offset)
                    continue
                state = states[key] = KeyState()
                state.head = offset
            ready.append(offset)
        return fresh if len(ready) == len(offsets) else OffsetSet(ready)

    def _make_ready(self, offsets: OffsetSet) -> None:
        if self.partition.lanes and not self.fifo:
            for lane, members in self.partition.lanes.items():
                inside = offsets & members
                if inside:
                    self._lane(lane).update(inside)
                    offsets = offsets - inside
        if offsets:
            self._lane(ANY_PRIORITY).update(offsets)

    def _lane(self, lane: int) -> OffsetSet:
        ready = self.ready.get(lane)
        if ready is None:
            ready = self.ready[lane] = OffsetSet()
        return ready

    def _make_ready_one(self, offset: int) -> None:
        lane = ANY_PRIORITY if self.fifo else self.partition.lane_of(offset)
        self._lane(lane).add(offset)

    def offer(self, offset: int) -> None:
        """An open message that is in no other state becomes ready, or waits for its key."""
        key = self._key(offset)
        if self.keys is None or key == NO_KEY:
            self._make_ready_one(offset)
            return
        ready, behind = self.keys.offer(key, offset)
        if behind >= 0:
            self._unready(OffsetSet([behind]))
        if ready >= 0:
            self._make_ready_one(ready)

    def came_due(self, offsets: OffsetSet) -> None:
        mine = (offsets & self.open) - self.early
        self.early.subtract(offsets)
        if self.keys is None or not self.partition.keys:
            self._make_ready(mine)
            return
        for offset in mine:
            self.offer(offset)

    def reopen(self, offsets: OffsetSet) -> None:
        """Done messages become deliverable once more, with their attempts forgotten."""
        self.dead.subtract(offsets)
        self.open.update(offsets)
        for offset in offsets:
            self.failures.pop(offset, None)
            if offset not in self.partition.delayed or offset in self.early:
                self.offer(offset)

    # -- being delivered

    def take(self, offsets: OffsetSet) -> None:
        self.admit(min(offsets.last() + 1, self.partition.visible))
        self._unready(offsets)
        self.leased.update(offsets)
        if self.keys is not None and self.partition.keys:
            array = offsets.to_array()
            hold = self.keys.hold
            for offset, key in zip(array, self.partition.keys.of(array), strict=True):
                if key != NO_KEY:
                    hold(key, offset)

    def give_back(self, offsets: OffsetSet) -> None:
        """Leased messages return to their place, to be delivered again."""
        self.leased.subtract(offsets)
        if self.keys is None or not self.partition.keys:
            self._make_ready(offsets)
            return
        for offset in offsets:
            self._back_in_line(offset)

    def retry(self, offset: int, due: int, first: int, now: int) -> None:
        """A delivery failed; the message comes back at `due`, and holds its key until then."""
        past = self.failures.get(offset)
        count = past.attempts + 1 if past else 1
        self.failures[offset] = Failure(count, past.first if past else first, due)
        self.leased.discard(offset)
        if due <= now:
            self._back_in_line(offset)
        else:
            self.retrying.add(offset)
            self.retries.add(due, offset)
            if len(self.retries) > 2 * len(self.retrying) + _FEW:
                self.retries.sweep(64, self._is_due_then)

    def _is_due_then(self, when: int, offset: int) -> bool:
        failure = self.failures.get(offset)
        return offset in self.retrying and failure is not None and failure.due == when

    def retries_due(self, now: int, upto: Pair | None = None) -> None:
        for when, offset in self.retries.pop(now, upto):
            failure = self.failures.get(offset)
            if offset in self.retrying and failure is not None and failure.due == when:
                self.retrying.discard(offset)
                self._back_in_line(offset)

    def hasten(self, offset: int) -> None:
        """A message that waits for its retry, or is leased, goes back in line at once."""
        if offset in self.retrying or offset in self.leased:
            self.retrying.discard(offset)
            self.leased.discard(offset)
            self._back_in_line(offset)

    def _back_in_line(self, offset: int) -> None:
        key = self._key(offset)
        if self.keys is None or key == NO_KEY:
            self._make_ready_one(offset)
        elif (ready := self.keys.give_back(key, offset)) >= 0:
            self._make_ready_one(ready)

    # -- being done

    def settle(self, offsets: OffsetSet) -> None:
        """Leased messages are done."""
        self.leased.subtract(offsets)
        self.open.subtract(offsets)
        if self.failures:
            for offset in offsets:
                self.failures.pop(offset, None)
        if self.keys is not None and self.partition.keys:
            array = offsets.to_array()
            let_go = self.keys.let_go
            for key in self.partition.keys.of(array):
                if key != NO_KEY and (ready := let_go(key)) >= 0:
                    self._make_ready_one(ready)

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
        for offset in rest:
            self.failures.pop(offset, None)
            key = self._key(offset)
            if self.keys is not None and key != NO_KEY and (ready := self.keys.forget(key, offset)) >= 0:
                self._make_ready_one(ready)
        self._unready(rest)  # last: one that goes too may have taken the place of another of its key

    def bury(self, offsets: OffsetSet) -> None:
        self.close(offsets)
        self.dead.update(offsets)

    def start_at(self, start: int) -> None:
        """The log begins at `start` now."""
        self.close(self.open.within(0, start))
        self.dead.remove_span(0, start)
        self.early.remove_span(0, start)
        self.ahead.remove_span(0, start)
        self.cursor = max(self.cursor, start)

    # -- asking

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

    def _key(self, offset: int) -> int:
        return self.partition.keys.at(offset)

    def _unready(self, offsets: OffsetSet) -> None:
        for lane, ready in list(self.ready.items()):
            ready.subtract(offsets)
            if not ready:
                del self.ready[lane]
