"""Retained messages by topic: those that a filter matches come one by one, in turns if they are many.

The topics are a tree of their levels. A topic that shares its beginning with no other hangs in it as one text; a node is made
where two part. The index may change while somebody walks through it: what is there all the time is found once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from ortoo.doors.mqtt.wire.topics import matches

V = TypeVar("V")

STEPS: Final = 1_000  # of a walk before others may run: about a millisecond


class _Node:
    """`here` is the topic that ends at this level. `below` are nodes, and topics that are alone with their beginning."""

    __slots__ = ("below", "here")

    def __init__(self) -> None:
        self.below: dict[str, _Node | str] = {}
        self.here: str | None = None


class RetainedIndex(Generic[V]):
    def __init__(self) -> None:
        self._values: dict[str, V] = {}
        self._root = _Node()

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> Iterable[tuple[str, V]]:
        return self._values.items()

    def get(self, topic: str) -> V | None:
        return self._values.get(topic)

    def set(self, topic: str, value: V) -> None:
        if topic not in self._values:
            self._insert(topic)
        self._values[topic] = value

    def delete(self, topic: str) -> V | None:
        """What was there."""
        value = self._values.pop(topic, None)
        if value is not None:
            self._remove(topic)
        return value

    def matching(self, levels: Sequence[str]) -> Iterator[tuple[str, V] | None]:
        """Topics that a filter matches, with their values; None now and then, where others may run."""
        levels = tuple(levels)
        if levels[-1] != "#" and "+" not in levels:
            topic = "/".join(levels)
            if (value := self._values.get(topic)) is not None:
                yield topic, value
            return
        for topic_or_none in self._walk(levels):
            if topic_or_none is None:
                yield None
            elif (value := self._values.get(topic_or_none)) is not None:
                yield topic_or_none, value

    def _walk(self, levels: tuple[str, ...]) -> Iterator[str | None]:
        steps, last = 0, len(levels) - 1
        stack: list[tuple[Iterator[_Node | str], int]] = [(iter(_below(self._root, levels[0], is_root=True)), 1)]
        while stack:
            places, depth = stack[-1]
            for place in places:
                steps += 1
                if steps % STEPS == 0:
                    yield None
                if isinstance(place, str):
                    if matches(levels, place):
                        yield place
                    continue
                if place.here is not None and (depth > last or (depth >= last and levels[last] == "#")):
                    yield place.here
                if depth <= last or levels[last] == "#":
                    stack.append((iter(_below(place, levels[min(depth, last)])), depth + 1))
                    break
            else:
                stack.pop()

    def _insert(self, topic: str) -> None:
        node = self._root
        names = topic.split("/")
        for depth, name in enumerate(names, 1):
            child = node.below.get(name)
            if child is None:
                node.below[name] = topic
                return
            if isinstance(child, str):
                child = node.below[name] = _parted(child, depth)
            node = child
        node.here = topic

    def _remove(self, topic: str) -> None:
        path: list[tuple[_Node, str]] = []
        node = self._root
        for name in topic.split("/"):
            path.append((node, name))
            child = node.below[name]
            if isinstance(child, str):
                del node.below[name]
                path.pop()
                break
            node = child
        else:
            node.here = None
        while path and not node.below and node.here is None:
            node, name = path.pop()
            del node.below[name]


def _below(node: _Node, level: str, *, is_root: bool = False) -> list[_Node | str]:
    """Those below a node that may match. A list, because the node may change before all were looked at."""
    if level in {"#", "+"}:
        if is_root:
            return [child for name, child in node.below.items() if not name.startswith("$")]
        return list(node.below.values())
    child = node.below.get(level)
    return [] if child is None else [child]


def _parted(topic: str, depth: int) -> _Node:
    """A node at the place of a topic that had that place alone."""
    node = _Node()
    names = topic.split("/", depth + 1)
    if len(names) == depth:
        node.here = topic
    else:
        node.below[names[depth]] = topic
    return node
