"""The feeds of a group, one for each partition. One that nothing has happened in is only a cursor: there may be very many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortoo.model.names import GroupId
from ortoo.model.topic import Ordering

from .feed import Feed
from .heads import Heads, News
from .partition import Partition


class Feeds:
    __slots__ = ("_feeds", "_group", "_heads", "_ordering", "_touched", "partitions")

    def __init__(self, group: GroupId, ordering: Ordering, partitions: Sequence[Partition]) -> None:
        """`partitions` are those of the topic, and may become more: feeds of new ones begin with the log."""
        self._group = group
        self._ordering = ordering
        self.partitions = partitions
        self._feeds: list[Feed | int] = []
        self._heads: Heads | None = None
        self._touched: set[int] | None = None

    def add(self, cursor: int) -> None:
        self._feeds.append(cursor)

    def __len__(self) -> int:
        return len(self.partitions)

    def _at(self, index: int) -> Feed | int:
        return self._feeds[index] if index < len(self._feeds) else 0

    def _grow(self, index: int) -> None:
        """There may be very many groups, so that new partitions are heeded by each when it first changes something in one."""
        if index >= len(self._feeds):
            self._feeds.extend([0] * (len(self.partitions) - len(self._feeds)))

    def __getitem__(self, index: int) -> Feed:
        """The feed itself, to change it or to look at it often."""
        self._grow(index)
        feed = self._feeds[index]
        if isinstance(feed, int):
            feed = self._feeds[index] = self._make(index, feed)
            if self._touched is None:
                self._touched = set()
            feed.touched = self._touched
        return feed

    def __iter__(self) -> Iterator[Feed]:
        return (self[index] for index in range(len(self)))

    def look(self, index: int) -> Feed:
        """To read only: what would be changed in it might be lost."""
        feed = self._at(index)
        return self._make(index, feed) if isinstance(feed, int) else feed

    def looks(self) -> Iterator[Feed]:
        return map(self.look, range(len(self)))

    def unsettled(self) -> Iterator[Feed]:
        """Those that may have a backlog, to read only. The others are not even made."""
        for index, feed in enumerate(self._feeds):
            if not isinstance(feed, int):
                yield feed
            elif feed < self.partitions[index].settled_end:
                yield self._make(index, feed)

    def is_untouched(self, index: int) -> bool:
        """Whether nothing but its cursor is known, so that it has neither open messages nor anything else to lose."""
        return isinstance(self._at(index), int)

    def start_at(self, index: int, start: int) -> None:
        """The partition begins there now."""
        self._grow(index)
        feed = self._feeds[index]
        if isinstance(feed, int):
            self._feeds[index] = max(feed, start)
        else:
            feed.start_at(start)

    def heads(self, news: News) -> Heads:
        """Where the next messages are. It is known from the first lease on."""
        if self._heads is None:
            if self._touched is None:
                self._touched = set()
            self._heads = Heads(self._touched, news)
            self._touched.update(index for index in range(len(self)) if self.look(index).may_have_some())
        return self._heads

    def _make(self, index: int, cursor: int) -> Feed:
        return Feed(self.partitions[index], self._group, self._ordering, cursor)
