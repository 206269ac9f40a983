"""Lakes made up for tests: rows as the archive writes them, from a queue that is simulated in a few lines."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.pipeline.batches import INSTANT
from tests.pipeline.batches import SCHEMA as MESSAGES

Row = dict[str, Any]

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z
HISTORY = pa.schema(
    [
        ("position", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("id", pa.string()),
        ("timestamp", INSTANT),
        ("event", pa.string()),
        ("group", pa.string()),
        ("consumer", pa.string()),
        ("lease", pa.int64()),
        ("reason", pa.string()),
        ("error", pa.string()),
        ("due", INSTANT),
    ]
)


def message(topic: str, identity: str, at: float, **more: Any) -> Row:
    _, partition, offset = map(int, identity.split("."))
    fields: Row = {"key": None, "value": b"", "headers": [], "priority": 4, "json": False}
    return {**fields, "topic": topic, "id": identity, "partition": partition, "offset": offset, "at": at, **more}


def history_row(topic: str, identity: str, at: float, event: str, group: str | None = "g", **more: Any) -> Row:
    _, partition, offset = map(int, identity.split("."))
    nothing = dict.fromkeys(("consumer", "lease", "reason", "error", "due"))
    place = {"topic": topic, "id": identity, "partition": partition, "offset": offset}
    return {**nothing, **place, "at": at, "event": event, "group": group, "position": round(at * 1000), **more}


def write_lake(lake: Path, messages: list[Row], history: list[Row]) -> Path:
    """As many files as there are topics and days, each in the order of the rows given."""
    for table, schema, rows in (("messages", MESSAGES, messages), ("history", HISTORY, history)):
        (lake / table).mkdir(parents=True, exist_ok=True)
        folders: dict[Path, list[Row]] = defaultdict(list)
        for row in rows:
            day = datetime.fromtimestamp(row["at"], UTC).date()
            folders[lake / table / f"topic={quote(row['topic'], safe='')}" / f"date={day}"].append(row)
        for folder, found in folders.items():
            folder.mkdir(parents=True)
            columns = [[_cell(row, name) for row in found] for name in schema.names]
            arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
            pq.write_table(pa.Table.from_arrays(arrays, schema=schema), folder / "part-0.parquet")
    return lake


def _cell(row: Row, name: str) -> Any:
    return round(row["at"] * 1_000_000) if name == "timestamp" else row.get(name)


class Simulated:
    """Days of a few topics: groups that begin late, errors, expired leases, redrives, deletions, what retention removed."""

    def __init__(self, seed: int, count: int = 400, hours: int = 30) -> None:
        self._random = random.Random(seed)
        self.messages: list[Row] = []
        self.history: list[Row] = []
        self._lease = 0
        for number, topic in enumerate(("orders", "007", "mails / new")):
            for incarnation in (number + 1, number + 11) if topic == "orders" else (number + 1,):
                self._topic(topic, incarnation, count, hours)
        self._random.shuffle(self.messages)
        self._random.shuffle(self.history)

    def _topic(self, topic: str, incarnation: int, count: int, hours: int) -> None:
        chance = self._random
        begin = START + (hours * 3600 if incarnation > 10 else 0)
        times = sorted(round(begin + chance.random() ** 2 * hours * 3600, 3) for _ in range(count))
        offsets: dict[int, int] = defaultdict(int)
        late = begin + hours * 1200
        for at in times:
            partition = chance.randrange(3)
            identity = f"{incarnation}.{partition}.{offsets[partition]}"
            offsets[partition] += 1
            made = self._message(topic, identity, at)
            if chance.random() > 0.03 and topic != "unread":
                self.messages.append(made)
            self._consumed(topic, identity, at, "billing")
            if at > late and partition != 1:
                self._consumed(topic, identity, at, "audit")
            if chance.random() < 0.02:
                self._tell(topic, identity, at + chance.random() * 9000, "deleted", None)

    def _message(self, topic: str, identity: str, at: float) -> Row:
        chance = self._random
        headers = [{"key": "trace", "value": b"x"}]
        if chance.random() < 0.7:
            headers.append({"key": "producer", "value": chance.choice([b"web", b"batch", b"\xff", b""])})
        key = chance.choice([None, b"ann", b"bob", b"\xff\xfe", "zoë".encode()])
        return message(topic, identity, at, key=key, value=b"v" * chance.randrange(300), headers=headers)

    def _tell(self, topic: str, identity: str, at: float, event: str, group: str | None, **more: Any) -> None:
        position = round(at * 1000) * 1_000_000 + len(self.history)  # what happens in one millisecond has an order, too
        self.history.append(history_row(topic, identity, round(at, 3), event, group, position=position, **more))

    def _consumed(self, topic: str, identity: str, at: float, group: str) -> None:
        chance = self._random
        if chance.random() < 0.1:
            if chance.random() < 0.5:
                self._tell(topic, identity, at + 5000, "skipped", group, reason="retention")
            return
        for attempt in range(1, 6):
            at += chance.choice([0.001, 0.5, 20.0, 4000.0]) * (0.5 + chance.random())
            self._lease += 1
            lease, consumer = self._lease, chance.choice(["c1", "c2", "c3"])
            self._tell(topic, identity, at, "delivered", group, consumer=consumer, lease=lease, due=None)
            at += chance.choice([0.002, 1.0, 60.0]) * (0.5 + chance.random())
            fate = chance.random()
            error = f"ValueError: bad amount {chance.randrange(99)} of {identity}" if chance.random() < 0.6 else None
            if fate < 0.6:
                self._tell(topic, identity, at, "acknowledged", group, lease=lease)
                return
            if fate < 0.7:
                self._tell(topic, identity, at, "released", group, lease=lease, reason="release")
            elif fate < 0.8 and attempt > 1:
                event = chance.choice(["dead-lettered", "dropped"])
                self._tell(topic, identity, at, event, group, reason="attempts", error=error)
                if chance.random() < 0.5:
                    return
                at += 7000
                self._tell(topic, identity, at, "redriven", group)
            else:
                self._tell(
                    topic, identity, at, chance.choice(["nacked", "lease expired"]), group, lease=lease, error=error
                )
