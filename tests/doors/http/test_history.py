"""A partition's history over HTTP: whole, in answers of a bounded size, and written in turns."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ortoo.doors.http import history as door
from ortoo.model import history, limits
from ortoo.model import records as r
from ortoo.model.history import HistoryEvent, expand, split
from ortoo.model.offsets import OffsetSet
from tests.doors.http.home import Home
from tests.turns import counting_turns

MESSAGES, ROUNDS = 500, 6


async def lease_and_release(home: Home) -> list[HistoryEvent]:
    """Twelve records of five hundred messages each; and what is told of them to who is not bounded."""
    await home.queue.create_topic("t", partitions=1)
    await home.queue.publish_many("t", [b"x"] * MESSAGES)
    for _ in range(ROUNDS):
        await home.queue.release(await home.queue.lease("t", max_messages=MESSAGES))
    return [event async for events in home.queue.read_history("t", partition=0) for event in events]


async def page(home: Home, position: int) -> dict[str, Any]:
    asked = {"from_position": position, "limit": 10_000}
    found: dict[str, Any] = (await home.client.get("/v1/topics/t/history", params=asked)).json()
    return found


@pytest.mark.parametrize("most", [1, 1_200, 2_000, 10_000])
async def test_an_answer_has_so_many_events_and_the_next_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """`limit` counts records. One that has more events by itself is told whole: who goes on does so behind it."""
    monkeypatch.setattr(limits, "HISTORY_EVENTS_MAX", most)
    wanted = await lease_and_release(home)
    found, position, end = list[dict[str, Any]](), 0, 1
    while position < end:
        told = await page(home, position)
        assert len(told["events"]) <= max(most, MESSAGES)
        assert told["next"] == told["events"][-1]["position"] + 1
        found += told["events"]
        position, end = told["next"], told["end"]
    assert [(event["position"], event["offset"], event["what"]) for event in found] == [
        (event.position, event.offset, event.what) for event in wanted
    ]
    assert (await page(home, end))["events"] == []


async def test_others_run_while_an_answer_is_written(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_PART_EVENTS", 50)
    await lease_and_release(home)
    written: Counter[int] = Counter()
    to_events = history.to_events
    async with counting_turns() as turns:

        def counted(*args: Any) -> list[HistoryEvent]:
            events = to_events(*args)
            written[turns.count] += len(events)
            return events

        monkeypatch.setattr(door, "to_events", counted)
        assert len((await page(home, 0))["events"]) == 2 * ROUNDS * MESSAGES
    assert sum(written.values()) == 2 * ROUNDS * MESSAGES
    assert max(written.values()) <= 2 * 50


async def test_lists_of_events_are_bounded_too(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HISTORY_EVENTS_MAX", 1_200)
    wanted = await lease_and_release(home)
    lists = [events async for events in home.queue.read_history("t", partition=0)]
    assert [len(events) for events in lists] == [1_000] * ROUNDS
    assert [event for events in lists for event in events] == wanted


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_a_record_in_parts_says_the_same(most: int) -> None:
    offsets = [0, 1, 2, 5, 9, 70_000, 70_001, 1 << 40]
    records: list[r.HistoryRecord] = [
        r.Deleted(1, 1, 0, OffsetSet(offsets)),  # type: ignore[arg-type]
        r.Retried(1, 1, 2, 0, 3, offsets, [5 * offset for offset in offsets], 0, "nack"),  # type: ignore[arg-type]
    ]
    for record in records:
        parts = list(split(record, most))
        assert max(len(part.offsets) for part in parts) <= most
        assert [(e, d) for part in parts for e, d in zip(*rows(part), strict=True)] == list(
            zip(*rows(record), strict=True)
        )


def rows(record: r.HistoryRecord) -> tuple[list[int], list[int | None]]:
    columns = expand([record], 0)
    return columns.offsets, columns.dues
