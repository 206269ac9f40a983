"""Filters that Spark hands down: on topic, partition, offset and timestamp they decide what is read at all."""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import Any

from pyspark.sql import datasource as ds

from .origin import Origin, Range


class Narrowing:
    """What a conjunction of filters leaves. `take` says whether Spark need not look at a filter again."""

    def __init__(self, table: str) -> None:
        self._numbers = "position" if table == "history" else "offset"
        self._sets: dict[str, set[Any]] = {}
        self._low: dict[str, float] = {}  # including
        self._high: dict[str, float] = {}  # including

    def take(self, one: ds.Filter) -> bool:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) != 1:
            return False
        name = attribute[0].lower()
        if isinstance(one, ds.IsNotNull):
            return name in ("topic", "partition", "timestamp", self._numbers)  # they never are
        if name in ("topic", "partition"):
            return self._choose(name, one)
        if name == self._numbers:
            return self._bound(name, one, 1)
        if name == "timestamp" and self._numbers == "offset":
            self._bound(name, one, 0)
        return False

    def _choose(self, name: str, one: ds.Filter) -> bool:
        if isinstance(one, ds.EqualTo):
            chosen = {one.value}
        elif isinstance(one, ds.In):
            chosen = set(one.value)
        else:
            return name == "partition" and self._bound(name, one, 1)
        self._sets[name] = self._sets.get(name, chosen) & chosen
        return True

    def _bound(self, name: str, one: ds.Filter, step: int) -> bool:
        """`step`: how far the next number lies; 0 where strict and not strict make no difference worth having."""
        value = getattr(one, "value", None)
        if isinstance(value, datetime):
            value = value.timestamp()
        if isinstance(one, ds.In):
            numbers = [entry for entry in one.value if isinstance(entry, int)]
            if not numbers or name == "timestamp":
                return False
            self._limit(name, min(numbers), max(numbers))
            return False
        if not isinstance(value, int | float):
            return False
        match one:
            case ds.EqualTo():
                self._limit(name, value, value)
            case ds.GreaterThan():
                self._limit(name, value + step, inf)
            case ds.GreaterThanOrEqual():
                self._limit(name, value, inf)
            case ds.LessThan():
                self._limit(name, -inf, value - step)
            case ds.LessThanOrEqual():
                self._limit(name, -inf, value)
            case _:
                return False
        return True

    def _limit(self, name: str, low: float, high: float) -> None:
        self._low[name] = max(self._low.get(name, -inf), low)
        self._high[name] = min(self._high.get(name, inf), high)

    def wants_topic(self, topic: str) -> bool:
        return "topic" not in self._sets or topic in self._sets["topic"]

    def apply(self, one: Range, origin: Origin) -> Range | None:
        """None when nothing is left of it."""
        chosen = self._sets.get("partition")
        low, high = self._low.get("partition", -inf), self._high.get("partition", inf)
        if (chosen is not None and one.partition not in chosen) or not low <= one.partition <= high:
            return None
        start = max(one.start, self._low.get(self._numbers, -inf))
        end = min(one.end, self._high.get(self._numbers, inf) + 1)
        if self._low.get("timestamp", -inf) > -inf:
            start = max(start, origin.at(one.topic, self._low["timestamp"] - 0.001)[one.partition])
        if self._high.get("timestamp", inf) < inf:
            end = min(end, origin.at(one.topic, self._high["timestamp"] + 0.001)[one.partition])
        return one._replace(start=int(start), end=int(end)) if start < end else None
