"""What a repair tells of losses."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from time import process_time

import pytest

from ortoo.app.losses import runs_of
from ortoo.model.offsets import OffsetSet


@pytest.mark.parametrize(
    ("offsets", "runs"),
    [
        ([], []),
        ([0], [(0, 1)]),
        ([7, 8, 9], [(7, 10)]),
        ([0, 1, 5, 7, 8], [(0, 2), (5, 6), (7, 9)]),
        ([1 << 40, (1 << 40) + 1, 1 << 50], [(1 << 40, (1 << 40) + 2), (1 << 50, (1 << 50) + 1)]),
    ],
)
def test_the_stretches_of_a_set(offsets: list[int], runs: list[tuple[int, int]]) -> None:
    assert list(runs_of(OffsetSet(offsets))) == runs


def test_stretches_are_the_set_again() -> None:
    random = Random(3)
    offsets = {
        start + more for start in random.choices(range(200_000), k=300) for more in range(random.randrange(1, 40))
    }
    runs = list(runs_of(OffsetSet(offsets)))
    assert [offset for first, after in runs for offset in range(first, after)] == sorted(offsets)
    assert all(after < first for (_, after), (first, _) in pairwise(runs))


def test_a_long_stretch_costs_no_more_than_a_short_one() -> None:
    began = process_time()
    assert list(runs_of(OffsetSet.span(0, 3_000_000_000))) == [(0, 3_000_000_000)]
    assert process_time() - began < 1.0
