"""What all owners keep in one bounded place: who takes more than an equal share of it pays with what is its own.

So one that floods it pushes out its own entries, never those of others. While the place is not full nobody pays, and one that
has it to itself may take all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Shares(dict[K, V]):
    """A dict that knows whose its entries are. What an owner has is in the same order as the whole."""

    def __init__(self, owner_of: Callable[[K], str]) -> None:
        super().__init__()
        self.owner_of = owner_of
        self._owned: dict[str, dict[K, None]] = {}

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self._owned.setdefault(self.owner_of(key), {})[key] = None

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        owner = self.owner_of(key)
        owned = self._owned[owner]
        del owned[key]
        if not owned:
            del self._owned[owner]

    def pop(self, key: K, *default: Any) -> Any:
        if key not in self:
            return super().pop(key, *default)
        value = self[key]
        del self[key]
        return value

    def touch(self, key: K) -> None:
        """To the end, as if it had come just now."""
        super().__setitem__(key, super().pop(key))
        owned = self._owned[self.owner_of(key)]
        owned[key] = owned.pop(key)

    def owners(self) -> Collection[str]:
        return self._owned.keys()

    def count(self, owner: str) -> int:
        return len(self._owned.get(owner, ()))

    def oldest(self, owner: str) -> K:
        return next(iter(self._owned[owner]))

    def drop_excess(self, owner: str, most: int) -> None:
        """After an entry of that owner has come: the oldest of those who have too many go."""
        while len(self) > most:
            del self[self.oldest(payer(owner, self.owners(), self.count, most))]


def payer(owner: str, owners: Collection[str], size_of: Callable[[str], int], most: int) -> str:
    """Who gives something up, as all together have more than `most`: the owner that has just taken something, if it has more
    than its share, else who has most. Nobody within its share does."""
    if size_of(owner) > max(1, most // len(owners)):
        return owner
    return max(owners, key=lambda one: (size_of(one), one != owner, one))  # the name: replay must choose the same
