"""Lists whose items are made when somebody looks at them.

Many programs settle what they leased as a whole, and never look at where what they published lies. A list that remembers the
answer it came from does both without an object per message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

from ortoo.model.commands import Run
from ortoo.model.message import LateAcks, Received, Settler
from ortoo.model.replies import LeasedRun, Placed, Sent
from ortoo.model.runs import runs_of_messages

T = TypeVar("T")


class LazyList(Sequence[T]):
    """Like a list that cannot be changed."""

    __slots__ = ("_items",)
    __hash__ = None  # type: ignore[assignment]

    _items: list[T] | None

    def _make(self) -> list[T]:
        raise NotImplementedError

    def to_list(self) -> list[T]:
        """A list of their own for each who asks; the items are the same ones."""
        return self._all().copy()

    def _all(self) -> list[T]:
        if self._items is None:
            self._items = self._make()
        return self._items

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._all())

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._all()[index]

    def __add__(self, other: Sequence[T]) -> list[T]:  # and no __radd__: `a_list += this` would make a new list
        return [*self._all(), *other]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazyList):
            return self._all() == other._all()
        return self._all() == other if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return repr(self._all())


class Messages(LazyList[Received]):
    """Messages that were leased together."""

    __slots__ = ("_count", "_late", "_runs", "_settler")

    def __init__(self, runs: list[LeasedRun], settler: Settler, late: LateAcks) -> None:
        self._items = None
        self._runs = runs
        self._settler = settler
        self._late = late
        self._count = sum([len(run.columns.offsets) for run in runs])

    def __len__(self) -> int:
        return self._count

    def _make(self) -> list[Received]:
        if len(self._runs) == 1:
            return self._runs[0].to_messages(self._settler, self._late)
        return [message for run in self._runs for message in run.to_messages(self._settler, self._late)]

    def to_runs(self) -> list[Run]:
        """What settles all of them."""
        return runs_of_messages(self._runs)


class SentMessages(LazyList[Sent]):
    """Where messages that were published together lie, in their order."""

    __slots__ = ("_placed",)

    def __init__(self, placed: Placed) -> None:
        self._items = None
        self._placed = placed

    def __len__(self) -> int:
        return len(self._placed.offsets)

    def _make(self) -> list[Sent]:
        placed, count = self._placed, len(self)
        topics = placed.topics or [placed.topic] * count
        return list(map(Sent, topics, placed.partitions, placed.offsets, placed.duplicates or [False] * count))
