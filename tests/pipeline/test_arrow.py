"""Columns of the queue become columns of Arrow, bit for bit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ortoo.model.names import GroupId, LeaseId, TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Acked, HistoryRecord, Leased
from ortoo.model.replies import Columns
from ortoo.model.topic import DEFAULT_PRIORITY

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from ortoo.pipeline.source.arrow import BYTES, ROWS, history_batches, message_batches  # noqa: E402
from ortoo.pipeline.source.origin import Range, StoredHistory  # noqa: E402
from ortoo.pipeline.source.schema import TABLES, Column  # noqa: E402

WHERE = Range("orders", TopicId(7), 2, 0, 1 << 40)
MESSAGES = (*TABLES["messages"], Column("json", "boolean"))


def rows(*parts: Columns, columns: tuple[Column, ...] = MESSAGES) -> list[dict[str, Any]]:
    return [row for batch in message_batches(parts, WHERE, columns) for row in batch.to_pylist()]


def test_everything_a_message_has() -> None:
    part = Columns(
        [41, 43],
        [b"\xff\x00", b""],
        [1_767_225_600_123, 1_767_225_600_124],
        ["käse", None],
        [{"a": "1", "b": "ü"}, None],
        [0, 9],
        [True, False],
        ["billing", None],
    )
    assert rows(part) == [
        {
            "key": "käse".encode(),
            "value": b"\xff\x00",
            "topic": "orders",
            "partition": 2,
            "offset": 41,
            "timestamp": datetime(2026, 1, 1, 0, 0, 0, 123000, UTC),
            "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": "ü".encode()}],
            "priority": 0,
            "id": "7.2.41",
            "publisher": "billing",
            "json": True,
        },
        {
            "key": None,
            "value": b"",
            "topic": "orders",
            "partition": 2,
            "offset": 43,
            "timestamp": datetime(2026, 1, 1, 0, 0, 0, 124000, UTC),
            "headers": None,
            "priority": 9,
            "id": "7.2.43",
            "publisher": None,
            "json": False,
        },
    ]


def test_a_publisher_that_all_share_is_in_each_row() -> None:
    found = rows(Columns([0, 1], [b"x", b"y"], [0, 0], publishers="billing"), Columns([2], [b"z"], [0]))
    assert [row["publisher"] for row in found] == ["billing", "billing", None]


def test_what_no_message_uses_has_its_default() -> None:
    (row,) = rows(Columns([0], [b"x"], [0]))
    assert (row["key"], row["headers"], row["priority"], row["json"]) == (None, None, DEFAULT_PRIORITY, False)


def test_headers_of_some_and_not_of_others() -> None:
    headers: list[dict[str, str] | None] = [None, {"a": "1"}, {}, {"b": "2", "c": ""}, None]
    found = [row["headers"] for row in rows(Columns(list(range(5)), [b""] * 5, [0] * 5, headers=headers))]
    assert [one and {pair["key"]: pair["value"].decode() for pair in one} for one in found] == [
        None,
        {"a": "1"},
        None,
        {"b": "2", "c": ""},
        None,
    ]


def test_parts_with_and_without_a_column_are_put_together() -> None:
    one, other = Columns([0], [b"a"], [0]), Columns([1], [b"b"], [0], ["k"], [{"h": "1"}], [1], [True])
    assert [row["key"] for row in rows(one, other, one)] == [None, b"k", None]
    assert [row["priority"] for row in rows(one, other, one)] == [DEFAULT_PRIORITY, 1, DEFAULT_PRIORITY]


def test_small_parts_make_one_batch_and_many_messages_several() -> None:
    parts = [Columns(list(range(at, at + 100)), [b"x"] * 100, [0] * 100) for at in range(0, 2 * ROWS + 100, 100)]
    batches = list(message_batches(parts, WHERE, MESSAGES))
    assert [batch.num_rows for batch in batches] == [ROWS, ROWS, 100]


def test_large_messages_make_more_batches() -> None:
    """Ten thousand of a mebibyte each would not fit into any memory."""
    value = bytes(1 << 20)
    parts = (Columns([at], [value], [0]) for at in range(40))
    sizes = [batch.num_rows for batch in message_batches(parts, WHERE, TABLES["messages"])]
    assert sum(sizes) == 40
    assert max(sizes) <= BYTES >> 20


def test_no_message_is_no_batch() -> None:
    assert list(message_batches([Columns([], [], [])], WHERE, MESSAGES)) == []


def _leased(at: int, count: int) -> HistoryRecord:
    return Leased(at, TopicId(7), GroupId(3), 2, LeaseId(99), "me", at + 1, OffsetSet.span(0, count))


def test_a_history_names_its_groups_also_those_that_are_gone() -> None:
    records = [_leased(1, 2), Acked(5, TopicId(7), GroupId(4), 2, LeaseId(99), OffsetSet([1]))]
    (batch,) = history_batches([StoredHistory(10, records, {3: "readers"})], WHERE, TABLES["history"])
    found = [(row["position"], row["offset"], row["event"], row["group"]) for row in batch.to_pylist()]
    assert found == [
        (10, 0, "delivered", "readers"),
        (10, 1, "delivered", "readers"),
        (11, 1, "acknowledged", "(deleted group 4)"),
    ]
    first = batch.to_pylist()[0]
    assert (first["consumer"], first["lease"], first["id"]) == ("me", 99, "7.2.0")
    assert (first["timestamp"], first["due"]) == (
        datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
        datetime(1970, 1, 1, 0, 0, 0, 2000, UTC),
    )


def test_records_of_many_messages_make_several_batches() -> None:
    records = [_leased(at, 4_000) for at in range(10)]
    batches = list(
        history_batches([StoredHistory(5, records, {}), StoredHistory(15, [], {})], WHERE, TABLES["history"])
    )
    assert [batch.num_rows for batch in batches] == [12_000, 12_000, 12_000, 4_000]
    assert pa.Table.from_batches(batches)["position"].to_pylist() == [5 + at // 4_000 for at in range(40_000)]
