"""Topic filters as a tree of their levels: those that match a topic name are found without looking at the others.

A filter that shares its beginning with no other is one leaf, which holds the rest of it as text; a node is made where two part.
A walk visits only what matches so far, so that others' filters cost nothing. What it visits at most is what filters there are
that begin as the topic does, + included; a long walk can be made in turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar

V = TypeVar("V")

STEPS: Final = 2_000  # of a walk before others may run: about a millisecond


class _Leaf(Generic[V]):
    """`tail` are the levels below the place where it hangs; None where there are none, "" is an empty one."""

    __slots__ = ("tail", "value")

    def __init__(self, tail: str | None, value: V) -> None:
        self.tail = tail
        self.value = value


class _Node(Generic[V]):
    """`here` is the value of the filter that ends here. What is below + and # has these for a key."""

    __slots__ = ("below", "here")

    def __init__(self) -> None:
        self.below: dict[str, _Node[V] | _Leaf[V]] = {}
        self.here: V | None = None


class FilterTree(Generic[V]):
    def __init__(self) -> None:
        self._root: _Node[V] = _Node()

    def get(self, levels: Sequence[str]) -> V | None:
        node = self._root
        for depth, level in enumerate(levels):
            child = node.below.get(level)
            if child is None:
                return None
            if isinstance(child, _Leaf):
                return child.value if child.tail == _tail(levels, depth) else None
            node = child
        return node.here

    def set(self, levels: Sequence[str], value: V) -> None:
        """It has to be there."""
        node = self._root
        for level in levels:
            child = node.below[level]
            if isinstance(child, _Leaf):
                child.value = value
                return
            node = child
        node.here = value

    def setdefault(self, levels: Sequence[str], value: V) -> V:
        """What is there; this one, if nothing was."""
        node = self._root
        for depth, level in enumerate(levels):
            child = node.below.get(level)
            if child is None:
                node.below[level] = _Leaf(_tail(levels, depth), value)
                return value
            if isinstance(child, _Leaf):
                if child.tail == _tail(levels, depth):
                    return child.value
                child = node.below[level] = _parted(child)
            node = child
        if node.here is None:
            node.here = value
        return node.here

    def delete(self, levels: Sequence[str]) -> None:
        """It has to be there. Nodes that nothing hangs on go, too."""
        path: list[tuple[_Node[V], str]] = []
        node = self._root
        for level in levels:
            path.append((node, level))
            child = node.below[level]
            if isinstance(child, _Leaf):
                del node.below[level]
                break
            node = child
        else:
            node.here = None
            path.append((node, ""))
        for (above, level), (below, _) in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            if below.below or below.here is not None:
                break
            del above.below[level]

    def find(self, topic: str) -> Iterator[V | None]:
        """The values of the filters that match; None now and then, where others may run."""
        names = topic.split("/")
        end, is_hidden = len(names), topic.startswith("$")  # such topics are not for wildcards of the first level
        stack: list[tuple[_Node[V] | _Leaf[V], int]] = [(self._root, 0)]
        steps = 0
        while stack:
            steps += 1
            if steps % STEPS == 0:
                yield None
            node, depth = stack.pop()
            if isinstance(node, _Leaf):
                if depth == end if node.tail is None else _tail_matches(node.tail, names, depth):
                    yield node.value
                continue
            below = node.below
            may_be_any = depth > 0 or not is_hidden
            if may_be_any and (rest := below.get("#")) is not None:
                yield rest.value if isinstance(rest, _Leaf) else rest.here
            if depth == end:
                if node.here is not None:
                    yield node.here
                continue
            if (child := below.get(names[depth])) is not None:
                stack.append((child, depth + 1))
            if may_be_any and (child := below.get("+")) is not None:
                stack.append((child, depth + 1))


def _tail(levels: Sequence[str], depth: int) -> str | None:
    return "/".join(levels[depth + 1 :]) if depth + 1 < len(levels) else None


def _parted(leaf: _Leaf[V]) -> _Node[V]:
    """The same with a node at its place, so that another can be hung beside it."""
    node: _Node[V] = _Node()
    if leaf.tail is None:
        node.here = leaf.value
    else:
        level, slash, rest = leaf.tail.partition("/")
        node.below[level] = _Leaf(rest if slash else None, leaf.value)
    return node


def _tail_matches(tail: str, names: list[str], depth: int) -> bool:
    for level in tail.split("/"):
        if level == "#":
            return True
        if depth == len(names) or level not in {"+", names[depth]}:
            return False
        depth += 1
    return depth == len(names)
