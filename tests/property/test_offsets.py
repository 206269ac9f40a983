"""Sets of offsets behave like sets of numbers, and nothing that is asked of one costs memory for good."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.model.offsets import OffsetSet
from tests.doors.watching import Memory

MB = 1_000_000
EVERY_OTHER = OffsetSet(range(0, 2000, 2))
SPAN = OffsetSet.span(50, 3000)
PACKED = EVERY_OTHER.to_bytes()


@given(st.sets(st.integers(0, 500)), st.integers(0, 510))
def test_the_next_one_is_the_lowest_at_or_above(offsets: set[int], start: int) -> None:
    assert OffsetSet(offsets).next_from(start) == min((offset for offset in offsets if offset >= start), default=-1)


@given(st.sets(st.integers(0, 20), min_size=1))
def test_ascending_offsets_are_the_same_set(offsets: set[int]) -> None:
    assert OffsetSet.ascending(sorted(offsets)) == OffsetSet(offsets)


def _changed() -> None:
    changed = EVERY_OTHER.copy()
    changed.add(1)
    changed.discard(1)
    changed.add_span(5, 80)
    changed.remove_span(7, 90)
    changed.update(SPAN)
    changed.subtract(SPAN)


QUESTIONS: dict[str, Callable[[], object]] = {
    "next_from within": lambda: EVERY_OTHER.next_from(77),
    "next_from beyond": lambda: EVERY_OTHER.next_from(9999),
    "next_from of none": lambda: OffsetSet().next_from(1),
    "walk a part": lambda: next(iter(EVERY_OTHER)),
    "take": lambda: EVERY_OTHER.take(5),
    "within": lambda: EVERY_OTHER.within(5, 50),
    "count_within": lambda: EVERY_OTHER.count_within(5, 50),
    "add, remove": _changed,
    "clear": lambda: EVERY_OTHER.copy().clear(),
    "set operations": lambda: (EVERY_OTHER & SPAN, EVERY_OTHER | SPAN, EVERY_OTHER - SPAN, EVERY_OTHER == SPAN),
    "pack": EVERY_OTHER.to_bytes,
    "unpack": lambda: OffsetSet.from_bytes(PACKED),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_question_keeps_memory(name: str) -> None:
    ask = QUESTIONS[name]
    for _ in range(1000):
        ask()
    gc.collect()
    memory = Memory()
    for _ in range(50_000):
        ask()
    assert memory.kept < 5 * MB, "a hundred bytes or more each time"
