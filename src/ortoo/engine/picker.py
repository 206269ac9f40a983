"""Looks at one feed on behalf of one lease: what would be delivered next, and what to take. Only looks; replay takes."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import compress

from ortoo.model.offsets import OffsetSet
from ortoo.model.topic import DEFAULT_PRIORITY

from .feed import Feed


class Budget:
    """How many messages one lease may still look at before it lets others run."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class Picker:
    """
    A lane's ready messages are taken from the front, so `floors` (first offset not taken, per lane) is all that must be
    remembered. In key order, taking a message makes the next one of its key eligible for this same lease: `freed`, by lane.
    """

    __slots__ = ("budget", "feed", "freed", "freed_count", "key", "reach", "ready", "seen", "taken_upto", "taken_whole")

    def __init__(self, feed: Feed, budget: Budget, key: int | None = None) -> None:
        self.feed = feed
        self.budget = budget
        self.taken_upto: dict[int, int] = {}
        self.freed: dict[int, list[int]] = {}
        self.freed_count: dict[int, int] = {}  # per key
        self.taken_whole: list[int] = []  # keys with nothing left that has been seen, some of them twice
        self.key = key  # the only one wanted
        self.ready = feed.ready if key is None else self._only(key)
        self.reach = 1  # how many times what is wanted to look at next; doubles while nothing is found
        self.seen = (-1, DEFAULT_PRIORITY)  # in FIFO order: the offset whose priority was looked up last, and that

    def _only(self, key: int) -> dict[int, OffsetSet]:
        """A key has at most one ready message."""
        assert self.feed.keys is not None
        head = self.feed.keys.head(key)
        return {} if head is None else {self.feed.partition.lane_of(head): OffsetSet([head])}

    def _is_held(self) -> bool:
        """Whether everything that is wanted waits for something delivered."""
        if self.feed.fifo:
            return self.feed.is_held
        if self.key is None or self.feed.keys is None:
            return False
        return self.feed.keys.held(self.key) > 0

    def head(self, wanted: int) -> tuple[int, int] | None:
        """(lane, offset) of the next message, or None."""
        feed = self.feed
        if self._is_held():
            return None
        while (head := self._ready_head()) is None or self._must_see_all() or self._must_look_before(head[1]):
            if not self._look_further(wanted):
                break
        if self._must_see_all() or (head is not None and self._must_look_before(head[1])):  # in another turn
            return None
        return head if head is None or not feed.fifo else (self._priority(head[1]), head[1])

    def _ready_head(self) -> tuple[int, int] | None:
        best: tuple[int, int] | None = None
        for lane, ready in self.ready.items():
            if best is None or lane < best[0]:
                offset = ready.next_from(self.taken_upto.get(lane, 0))
                if offset >= 0:
                    best = (lane, offset)
        for lane, heap in self.freed.items():
            if heap and (best is None or (lane, heap[0]) < best):
                best = (lane, heap[0])
        return best

    def _must_see_all(self) -> bool:
        """With several lanes the most urgent message may be the newest."""
        feed = self.feed
        if not feed.partition.lanes or feed.fifo or self.key is not None:
            return False
        return feed.cursor < feed.partition.visible or bool(feed.unsorted)

    def _must_look_before(self, offset: int) -> bool:
        """Whether something that was not looked at yet comes before it: one that is retried at once may be ready before its
        turn."""
        return self.feed.cursor < min(offset, self.feed.partition.visible) or self._must_sort(offset)

    def _must_sort(self, offset: int) -> bool:
        """Whether what a seek made deliverable may come before it."""
        unsorted = self.feed.unsorted
        return bool(unsorted) and unsorted.first() < offset

    def _look_further(self, wanted: int) -> bool:
        feed = self.feed
        visible = feed.partition.visible
        if feed.unsorted:
            return self._sort_further(wanted)
        if feed.cursor >= visible or self.budget.left <= 0:
            return False
        upto = visible if self._must_see_all() else min(visible, feed.cursor + wanted * self.reach)
        is_keyed = feed.keys is not None and bool(feed.partition.keys)
        if is_keyed:  # else it takes no longer for more
            upto = min(upto, feed.cursor + self.budget.left)
        self.reach *= 2
        seen = feed.admit(upto)
        self.budget.left -= max(1, seen) if is_keyed else 1
        if self.key is not None:
            self.ready = self._only(self.key)
        self._free_seen()
        return True

    def _sort_further(self, wanted: int) -> bool:
        if self.budget.left <= 0:
            return False
        most = self.budget.left if self._must_see_all() else min(self.budget.left, wanted * self.reach)
        self.reach *= 2
        self.budget.left -= self.feed.sort(self.feed.cursor, most)
        if self.key is not None:
            self.ready = self._only(self.key)
        self._free_seen()
        return True

    def _free_seen(self) -> None:
        """Among what was just seen may be the next message of a key that this lease has taken all of so far."""
        if self.taken_whole:
            keys, self.taken_whole = set(self.taken_whole), []
            for key in keys:
                self._free_next(key, DEFAULT_PRIORITY)

    def take(self, lane: int, count: int, before: int, *, is_alone: bool = False) -> Sequence[int]:
        """Up to `count` offsets of the lane, ascending, all below `before`. In FIFO order what comes first goes first, so
        one that is alone, because no other partition has anything, is taken from whatever the lanes are."""
        feed = self.feed
        urgency = lane
        if feed.fifo:
            lane = DEFAULT_PRIORITY
        floor = self.taken_upto.get(lane, 0)
        ready = self.ready.get(lane)
        have = ready.count_within(floor, before) if ready is not None else 0
        if have < count and (feed.cursor < before or feed.unsorted) and not self._must_see_all():
            self._look_further(count - have)
            ready = self.ready.get(lane)
        if feed.unsorted:
            before = min(before, feed.unsorted.first())
        if feed.cursor < feed.partition.visible:
            before = min(before, feed.cursor)
        chosen = ready.within(floor, before).take(count) if ready is not None else OffsetSet()
        if feed.keys is not None and feed.partition.keys:
            return self._with_followers(lane, chosen.to_array(), count, before)
        if feed.fifo and feed.partition.lanes and not is_alone and chosen:
            chosen = self._before_another(urgency, chosen)
        if chosen:
            self.taken_upto[lane] = chosen.last() + 1
        return chosen.to_sequence()

    def _before_another(self, urgency: int, chosen: OffsetSet) -> OffsetSet:
        """Those of a FIFO partition's next messages, of which the first has that priority, that come before the first with
        another one. Where priorities alternate that is just one, so the second is looked at before all of them are."""
        first = chosen.first()
        second = chosen.next_from(first + 1)
        if second >= 0 and self._priority(second) != urgency:
            return OffsetSet([first])
        lanes = self.feed.partition.lanes
        if urgency in lanes:
            others = chosen - lanes[urgency]
            return chosen.within(first, others.first()) if others else chosen
        ends = [end for members in lanes.values() if (end := members.next_from(first)) >= 0]
        return chosen.within(first, min(ends)) if ends else chosen

    def _priority(self, offset: int) -> int:
        if self.seen[0] != offset:
            self.seen = (offset, self.feed.partition.lane_of(offset))
        return self.seen[1]

    def _with_followers(self, lane: int, chosen: array[int], count: int, before: int) -> list[int]:
        """Merges in the messages that follow, in their key, one already taken by this lease. Stops when one of a more
        urgent lane does."""
        assert self.feed.keys is not None
        keys, waiting = self.feed.partition.keys.of(chosen), self.feed.keys.waiting
        freed = self.freed.setdefault(lane, [])
        taken: list[int] = []
        followed = compress(range(len(keys)), map(waiting.__contains__, keys)) if waiting else ()
        row = 0
        for turn in (*followed, len(chosen)):  # up to there nobody follows; those rows are taken many at a time
            while (room := count - len(taken)) > 0:
                if freed and row < len(chosen) and freed[0] < chosen[row]:
                    if self._take_freed(freed, taken, lane):
                        return taken
                    continue
                end = min(turn, row + room)
                end = bisect_left(chosen, freed[0], row, end) if freed else end
                if end == row:
                    break
                taken.extend(chosen[row:end])
                self.taken_whole.extend(keys[row:end])
                self.taken_upto[lane] = chosen[end - 1] + 1
                row = end
            if room <= 0 or turn == len(chosen):
                break
            taken.append(chosen[row])
            self.taken_upto[lane] = chosen[row] + 1
            row += 1
            if self._free_next(keys[turn], lane):
                return taken
        while freed and freed[0] < before and len(taken) < count:
            if len(freed) == 1 and not self.feed.partition.lanes and not self.feed.unsorted:
                self._take_line(freed, taken, count, before)
            elif self._take_freed(freed, taken, lane):
                break
        return taken

    def _take_line(self, freed: list[int], taken: list[int], count: int, before: int) -> None:
        """Only one key is left, and nothing is more urgent: as many of it as there is room for."""
        assert self.feed.keys is not None
        key = self.feed.partition.keys.at(freed[0])
        taken.append(freed.pop())
        line, done = self.feed.keys.waiting.get(key), self.freed_count.get(key, 0)
        if line is not None and (more := line.next(done, count - len(taken), before)):
            taken.extend(more)
            self.freed_count[key] = done + len(more)
        self._free_next(key, 0)

    def _take_freed(self, freed: list[int], taken: list[int], lane: int) -> bool:
        offset = heappop(freed)
        taken.append(offset)
        return self._free_next(self.feed.partition.keys.at(offset), lane)

    def _free_next(self, key: int, than: int) -> bool:
        """Whether the next message of the key lies in a more urgent lane than that."""
        assert self.feed.keys is not None
        waiting = self.feed.keys.waiting.get(key)
        done = self.freed_count.get(key, 0)
        if waiting is None or done >= len(waiting) or (self.feed.unsorted and self._must_sort(waiting[done])):
            self.taken_whole.append(key)
            return False
        offset = waiting[done]
        self.freed_count[key] = done + 1
        lane = self.feed.partition.lane_of(offset)
        heappush(self.freed.setdefault(lane, []), offset)
        return lane < than
