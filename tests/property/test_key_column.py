"""The key hashes of a partition, in memory and outside of it, are those that were appended, whatever was trimmed."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortoo.engine import keys
from ortoo.engine.keys import KeyColumn
from ortoo.model.offsets import OffsetSet


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_CHUNK_BITS", 3)
    monkeypatch.setattr(keys, "_CHUNK", 8)


def _elsewhere(chunk: array[int]) -> memoryview:
    return memoryview(chunk.tobytes()).cast("Q")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["append", "skip", "trim", "thin", "page out", "refuse"]), max_size=40), st.data())
def test_it_has_what_was_appended(steps: list[str], data: st.DataObject) -> None:
    """But for what is gone, of which it may have forgotten some."""
    column, model, start, gone = KeyColumn(), list[int](), 0, OffsetSet()
    for step in steps:
        if step == "append":
            hashes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=20))
            column.append(len(model), len(hashes), array("Q", hashes))
            model += hashes
        elif step == "skip" and model:
            skipped = data.draw(st.integers(1, 40))
            column.append(len(model) + skipped, 1, array("Q", [3]))
            model += [0] * skipped + [3]
        elif step == "thin" and model:
            first = data.draw(st.integers(0, len(model)))
            gone |= OffsetSet.span(first, len(model) - data.draw(st.integers(0, 3)))
            column.thin(gone, data.draw(st.integers(1, 3)))
        elif step == "trim" and model:
            start = data.draw(st.integers(start, len(model)))
            column.trim(start)
        elif step == "page out":
            column.page_out(_elsewhere)
        elif step == "refuse":
            assert not column.page_out(lambda _: None)
    end = len(model)
    model = [0 if offset in gone and not column.at(offset) else key for offset, key in enumerate(model)]
    assert [column.at(offset) for offset in range(start, end)] == model[start:]
    assert list(column.span(start, end)) == model[start:]
    assert list(column.of(array("Q", range(start, end, 3)))) == model[start::3]
    assert column.find(3, start, end) == [offset for offset in range(start, end) if model[offset] == 3]


def test_of_what_is_gone_nothing_stays_in_memory() -> None:
    column, gone = KeyColumn(), OffsetSet.span(0, 60)
    column.append(0, 64, array("Q", range(1, 65)))
    gone.discard(17)
    assert column.thin(gone, 100) == 7
    assert sum(len(chunk) for chunk in column.chunks[:-1]) == 1
    assert [offset for offset in range(64) if column.at(offset)] == [17, *range(56, 64)]


def test_offsets_that_the_log_does_not_have_take_no_room() -> None:
    column = KeyColumn()
    column.append(0, 1, array("Q", [1]))
    column.append(8_000_001, 1, array("Q", [2]))
    assert sum(len(chunk) for chunk in column.chunks) < 20
    assert (column.at(0), column.at(5_000_000), column.at(8_000_001)) == (1, 0, 2)


def test_all_but_the_newest_chunk_leaves_memory() -> None:
    column = KeyColumn()
    column.append(0, 30, array("Q", range(1, 31)))
    assert list(_page_out(column)) == [True, True, True, False]
    assert [type(chunk) for chunk in column.chunks] == [memoryview] * 3 + [array]
    column.append(30, 10, array("Q", range(31, 41)))
    assert list(_page_out(column)) == [True, False]
    assert list(column.span(0, 40)) == list(range(1, 41))


def _page_out(column: KeyColumn) -> Iterator[bool]:
    while True:
        yield (taken := column.page_out(_elsewhere))
        if not taken:
            return
