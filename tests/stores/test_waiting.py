"""What waits in front of the database is forgotten in bounded pieces, and is not told of any more at once."""

from __future__ import annotations

from typing import Any

import pytest

from ortoo.model.names import TopicId
from ortoo.stores.postgres import waiting
from ortoo.stores.postgres.commit_log import GoneError
from ortoo.stores.postgres.waiting import Waiting
from ortoo.stores.postgres.writing import Commit, HistoryRow

PLACES = 20_000


class Row:
    def __init__(self, topic: int, base: int) -> None:
        self.topic, self.partition, self.base = topic, 0, base


def commit(number: int, topics: range) -> Commit:
    rows: list[Any] = [Row(topic, number) for topic in topics]
    histories = [HistoryRow(topic, 0, number, 1, number, number, None, None, b"") for topic in topics]
    return Commit(number, (), rows, histories, 0)


async def test_one_turn_forgets_no_more_than_its_share_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    log: Any = None
    found = Waiting(log)
    for number in range(1, 9):
        found.note(commit(number, range(PLACES)))
    looked = 0
    real = Waiting._run

    def counted(self: Waiting, *arguments: Any) -> Any:
        nonlocal looked
        looked += 1
        return real(self, *arguments)

    monkeypatch.setattr(Waiting, "_run", counted)
    for upto in (1, 2, 5, 8):
        found.moved(upto)
        for topic in (0, PLACES - 1):
            place = (TopicId(topic), 0)
            left = list(range(upto + 1, 9))
            assert found.begin_of(place) == (left[0] if left else None)
            assert [one.number for one in found.happened(place, 0)] == left
            assert not found.has(upto)
        turns, is_more = 0, True
        while is_more:
            looked = 0
            is_more = found.forget()
            assert looked <= waiting.FORGOTTEN_TOGETHER
            turns += 1
        assert turns >= 2 * PLACES // waiting.FORGOTTEN_TOGETHER
    assert (found._logs, found._histories, found._places) == ({}, {}, [])
    with pytest.raises(GoneError):
        await found.rows((TopicId(5), 0), [1])
    found.note(commit(20, range(1)))  # those in between went to the database at once
    assert not found.has(15)
    assert found.has(20)


def test_a_place_that_comes_again_is_told_from_there_on() -> None:
    log: Any = None
    found = Waiting(log)
    found.note(commit(1, range(2)))
    found.note(commit(2, range(1)))
    found.moved(1)
    assert found.begin_of((TopicId(1), 0)) is None
    found.note(commit(3, range(2)))
    assert [found.begin_of((TopicId(topic), 0)) for topic in (0, 1)] == [2, 3]
