"""Filters handed down: whatever is left out, Spark would have left out, too; and what they allow is all that is read."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ortoo.model.names import TopicId
from ortoo.model.replies import Columns

pytest.importorskip("pyspark")

from pyspark.sql import datasource as ds

from ortoo.pipeline.source.filters import Narrowing
from ortoo.pipeline.source.origin import Happened, Known, Origin, Range

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS, PARTITIONS, COUNT = ("a", "b"), 3, 12


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: datetime


def milliseconds(offset: int) -> int:
    """Several messages share an instant, and some milliseconds have none."""
    return offset // 3 * 2


ROWS = [
    Row(topic, partition, offset, EPOCH + timedelta(milliseconds=milliseconds(offset)))
    for topic in TOPICS
    for partition in range(PARTITIONS)
    for offset in range(COUNT)
]


class Fake(Origin):
    def topics(self) -> dict[str, Known]:
        return {topic: Known(TopicId(1), "") for topic in TOPICS}

    def topic(self, name: str) -> Known:
        return self.topics()[name]

    def first(self, topic: str) -> list[int]:
        return [0] * PARTITIONS

    def end(self, topic: str) -> list[int]:
        return [COUNT] * PARTITIONS

    whole_end = end

    def at(self, topic: str, time: float) -> list[int]:
        wanted = round(time * 1000) - round(EPOCH.timestamp() * 1000)
        return [next((at for at in range(COUNT) if milliseconds(at) >= wanted), COUNT)] * PARTITIONS

    def messages(self, wanted: Range) -> Iterator[Columns]:
        return iter(())

    def history(self, wanted: Range) -> Iterator[Happened]:
        return iter(())


COMPARISONS: dict[type[ds.Filter], Callable[[Any, Any], bool]] = {
    ds.EqualTo: operator.eq,
    ds.GreaterThan: operator.gt,
    ds.GreaterThanOrEqual: operator.ge,
    ds.LessThan: operator.lt,
    ds.LessThanOrEqual: operator.le,
    ds.In: lambda value, among: value in among,
    ds.EqualNullSafe: operator.eq,
    ds.StringStartsWith: lambda value, prefix: value.startswith(prefix),
}


def holds(one: ds.Filter, row: Row) -> bool:
    if isinstance(one, ds.Not):
        return not holds(one.child, row)
    value = getattr(row, one.attribute[0].lower())  # type: ignore[attr-defined]
    return isinstance(one, ds.IsNotNull) or COMPARISONS[type(one)](value, one.value)  # type: ignore[attr-defined]


VALUES: dict[str, some.SearchStrategy[Any]] = {
    "topic": some.sampled_from([*TOPICS, "c", ""]),
    "partition": some.integers(-1, PARTITIONS + 1),
    "offset": some.integers(-2, COUNT + 2),
    "timestamp": some.integers(-2000, 14_000).map(lambda micros: EPOCH + timedelta(microseconds=micros)),
}


@some.composite
def _filters(draw: some.DrawFn) -> ds.Filter:
    name = draw(some.sampled_from(sorted(VALUES)))
    kind: Any = draw(some.sampled_from([*COMPARISONS, ds.Not, ds.IsNotNull]))
    attribute = (draw(some.sampled_from([name, name.upper()])),)
    if kind is ds.IsNotNull:
        return ds.IsNotNull(attribute)
    if kind is ds.StringStartsWith:
        return ds.StringStartsWith(("topic",), draw(VALUES["topic"]))
    if kind is ds.In:
        return ds.In(attribute, tuple(draw(some.lists(VALUES[name], max_size=3))))
    if kind is ds.Not:
        return ds.Not(ds.EqualTo(attribute, draw(VALUES[name])))
    made: ds.Filter = kind(attribute, draw(VALUES[name]))
    return made


def planned(*filters: ds.Filter) -> tuple[list[Range], list[ds.Filter]]:
    """What is read, and what Spark has to look at again."""
    narrowing = Narrowing("messages")
    left = [one for one in filters if not narrowing.take(one)]
    everything = [Range(topic, TopicId(1), index, 0, COUNT) for topic in TOPICS for index in range(PARTITIONS)]
    wanted = [one for one in everything if narrowing.wants_topic(one.topic)]
    return [found for one in wanted if (found := narrowing.apply(one, Fake())) is not None], left


def within(ranges: list[Range], row: Row) -> bool:
    return any(
        (one.topic, one.partition) == (row.topic, row.partition) and one.start <= row.offset < one.end for one in ranges
    )


@given(some.lists(_filters(), max_size=4))
def test_filtering_early_and_late_is_filtering(filters: list[ds.Filter]) -> None:
    ranges, left = planned(*filters)
    found = [row for row in ROWS if within(ranges, row) and all(holds(one, row) for one in left)]
    assert found == [row for row in ROWS if all(holds(one, row) for one in filters)]


def read(*filters: ds.Filter) -> int:
    return sum(one.end - one.start for one in planned(*filters)[0])


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ([], 72),
        ([ds.EqualTo(("topic",), "a")], 36),
        ([ds.In(("topic",), ("a", "x"))], 36),
        ([ds.EqualTo(("partition",), 1)], 24),
        ([ds.GreaterThan(("partition",), 1)], 24),
        ([ds.GreaterThanOrEqual(("offset",), 10)], 12),
        ([ds.GreaterThan(("offset",), 10), ds.LessThanOrEqual(("offset",), 11)], 6),
        ([ds.In(("offset",), (3, 5))], 18),
        ([ds.EqualTo(("offset",), 5), ds.EqualTo(("partition",), 0), ds.EqualTo(("topic",), "b")], 1),
        ([ds.LessThan(("timestamp",), EPOCH)], 18),
        ([ds.GreaterThan(("timestamp",), EPOCH + timedelta(seconds=1))], 0),
        ([ds.EqualTo(("topic",), "a"), ds.EqualTo(("topic",), "b")], 0),
    ],
)
def test_less_is_read(filters: list[ds.Filter], count: int) -> None:
    assert read(*filters) == count


def test_the_history_is_narrowed_by_position() -> None:
    narrowing = Narrowing("history")
    assert narrowing.take(ds.GreaterThan(("position",), 4))
    assert not narrowing.take(ds.GreaterThan(("offset",), 4))
    assert not narrowing.take(ds.GreaterThan(("timestamp",), EPOCH))
    assert narrowing.apply(Range("a", TopicId(1), 0, 0, 9), Fake()) == Range("a", TopicId(1), 0, 5, 9)
