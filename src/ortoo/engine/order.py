"""In which order one lease takes from several feeds: the most urgent lane first, and within a lane the oldest message."""

from __future__ import annotations

from heapq import heappop, heappush

from ortoo.model import limits

from .feeds import Feeds
from .heads import Bound, News
from .picker import Budget, Picker


class Order:
    """Looks at all feeds first. `pickers` are by partition. Begin first, and close in any case."""

    __slots__ = ("_exact", "pickers")

    def __init__(self, pickers: dict[int, Picker]) -> None:
        self.pickers = pickers
        self._exact: list[Bound] = []

    def begin(self, wanted: int) -> None:
        share = _share(wanted, len(self.pickers))
        for partition in self.pickers:
            self.look(partition, share)

    def look(self, partition: int, wanted: int) -> Bound | None:
        """Where its next message is now. It has a place in the order from now on, if there is one."""
        picker = self.pickers[partition]
        head = picker.head(wanted)
        if head is None:
            return None
        exact = (head[0], picker.feed.partition.timeline.time_of(head[1]), partition)
        heappush(self._exact, exact)
        return exact

    def first(self) -> Bound | None:
        return self._exact[0] if self._exact else None

    def pop(self) -> Bound | None:
        return heappop(self._exact) if self.first() is not None else None

    def close(self) -> None:
        pass


class OrderByHeads(Order):
    """Looks at a feed when its turn may have come."""

    __slots__ = ("_budget", "_feeds", "_heads", "_news", "_opened", "_wanted")

    def __init__(self, feeds: Feeds, news: News, budget: Budget) -> None:
        super().__init__({})
        self._feeds, self._news, self._budget = feeds, news, budget
        self._heads = feeds.heads(news)
        self._opened: dict[int, Bound] = {}  # where their next messages were before anything was taken
        self._wanted = 1

    def begin(self, wanted: int) -> None:
        self._wanted = wanted
        touched = self._heads.touched(self._news, self._comes_last)
        share = _share(wanted, len(touched))
        for partition in touched:
            self._open(partition, share)

    def _comes_last(self, partition: int) -> bool:
        """Whether what becomes visible there lies behind what was next so far: unless it may be more urgent."""
        return not self._feeds.partitions[partition].lanes

    def _open(self, partition: int, wanted: int) -> None:
        feed = self._feeds[partition]
        self.pickers[partition] = Picker(feed, self._budget)
        exact = self.look(partition, wanted) if feed.may_have_some() else None
        self._heads.untouch(partition)  # to look is to admit, which touches
        if exact is not None:
            self._opened[partition] = exact
            return
        self._opened.pop(partition, None)
        if feed.may_have_some():  # the budget is used up
            self._heads.touch(partition)

    def first(self) -> Bound | None:
        """Feeds whose bounds come before all that is known exactly are looked at first."""
        while (bound := self._heads.first()) is not None and (not self._exact or bound < self._exact[0]):
            self._heads.pop()
            partition = bound[2]
            self._opened[partition] = bound  # whatever goes wrong now
            self._open(partition, self._wanted)
        return super().first()

    def close(self) -> None:
        """The bounds as they were: what is taken is only taken once the records are applied."""
        for bound in self._opened.values():
            self._heads.put(bound)


def _share(wanted: int, feeds: int) -> int:
    """How much of each feed to look at for a start."""
    return max(1, min(wanted, limits.SCAN_MESSAGES_MAX // max(1, feeds)))
