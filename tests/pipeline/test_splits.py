"""Who reads what: everything is read once, by tasks of about the same size, and always by the same ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ortoo.model.names import TopicId

pytest.importorskip("pyspark")

from ortoo.pipeline.source.origin import Range
from ortoo.pipeline.source.splits import FEW, LARGE, SMALL, split


def ranges(*sizes: int, start: int = 0) -> list[Range]:
    return [Range("orders", TopicId(1), index, start, start + size) for index, size in enumerate(sizes)]


def sizes(found: list[Range], at_least: int | None = None) -> list[int]:
    return [sum(one.end - one.start for one in piece.ranges) for piece in split(found, at_least)]


SOME = some.lists(some.integers(0, 3 * LARGE), max_size=6).map(lambda found: ranges(*found, start=7))


@given(SOME, some.none() | some.integers(1, 50))
def test_splits_cover_exactly_what_is_wanted_in_order(wanted: list[Range], at_least: int | None) -> None:
    pieces = [one for piece in split(wanted, at_least) for one in piece.ranges]
    assert all(one.start < one.end for one in pieces)
    joined: list[Range] = []
    for one in pieces:
        if joined and joined[-1].partition == one.partition:
            assert joined[-1].end == one.start
            joined[-1] = joined[-1]._replace(end=one.end)
        else:
            joined.append(one)
    assert joined == [one for one in wanted if one.end > one.start]


@given(SOME, some.none() | some.integers(1, 50))
def test_the_same_ranges_give_the_same_splits_of_about_the_same_size(wanted: list[Range], at_least: int | None) -> None:
    found = sizes(wanted, at_least)
    assert [piece.ranges for piece in split(wanted, at_least)] == [piece.ranges for piece in split(wanted, at_least)]
    assert not found or max(found) - min(found) <= 1
    assert max(found, default=0) <= LARGE


@given(SOME, some.integers(1, 50))
def test_there_are_as_many_as_asked_for_unless_there_are_fewer_messages(wanted: list[Range], at_least: int) -> None:
    total = sum(one.end - one.start for one in wanted)
    assert len(split(wanted, at_least)) >= min(at_least, total)


def test_a_large_partition_is_cut() -> None:
    pieces = split(ranges(5 * LARGE))
    assert len(pieces) == max(5, FEW)
    assert all(len(piece.ranges) == 1 for piece in pieces)


def test_small_partitions_are_read_by_one_task() -> None:
    assert [len(piece.ranges) for piece in split(ranges(*[SMALL // 20] * 16))] == [16]


def test_nothing_wanted_is_no_task() -> None:
    assert split(ranges(0, 0)) == split([], 4) == []
