"""Messages of one topic, back out of the archive."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ortoo.model.message import Delivery, Received
from ortoo.model.names import TopicId, TopicName

from .layout import MESSAGES, Lake
from .manifest import Place

_BATCH = 1000
_WINDOW_BYTES = 64 << 20  # of messages that are in memory at once, and are put in the order of their times

_ORDER = [("timestamp", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


class Span(NamedTuple):
    """Which messages are asked for."""

    from_time: float | None = None
    to_time: float | None = None
    partition: int | None = None

    def has_day(self, folder: Path) -> bool:
        day = folder.name.removeprefix("date=")
        return not (
            (self.from_time is not None and day < _day(self.from_time))
            or (self.to_time is not None and day > _day(self.to_time))
        )


def _day(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).date().isoformat()


class Archived:
    """Reads on from `at`, by incarnation and partition, which it moves."""

    def __init__(self, lake: Lake, topic: TopicName, span: Span) -> None:
        self.at: dict[Place, int] = {}
        self._lake = lake
        self._topic = topic
        self._span = span

    def batches(self, upto: dict[Place, int]) -> Iterator[list[Received]]:
        """To before these. The archive may have more, of a batch that is on its way."""
        while any(self.at.get(place, 0) < end for place, end in upto.items()):
            try:
                for table in self._windows(set(upto)):
                    yield from self._messages(table.sort_by(_ORDER), upto)
            except FileNotFoundError:
                continue  # it was merged with others just now; what was replayed already is known
            for place, end in upto.items():
                self.at[place] = max(end, self.at.get(place, 0))

    def _windows(self, places: set[Place]) -> Iterator[pa.Table]:
        """Neighbours, as much of them as is held at once. Within each partition they are in order."""
        held: list[pa.Table] = []
        size = 0
        partitions = pa.array(sorted({partition for _, partition in places}), pa.int32())
        for path in self._lake.files(MESSAGES, self._topic.name):
            if not self._span.has_day(path.parent):
                continue
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for group in range(file.num_row_groups):
                    table = self._asked(file.read_row_group(group), partitions)
                    held.append(table)
                    size += table.nbytes
                    if size >= _WINDOW_BYTES:
                        yield _joined(held)
                        held, size = [], 0
        if held:
            yield _joined(held)

    def _asked(self, table: pa.Table, partitions: pa.Array) -> pa.Table:
        table = table.filter(pc.is_in(table["partition"], partitions))
        span = self._span
        for time, compare in ((span.from_time, pc.greater_equal), (span.to_time, pc.less)):
            if time is not None:
                bound = pa.scalar(round(time * 1000) * 1000, pa.timestamp("us", tz="UTC"))
                table = table.filter(compare(table["timestamp"], bound))
        return table

    def _messages(self, table: pa.Table, upto: dict[Place, int]) -> Iterator[list[Received]]:
        deliveries: dict[Place, Delivery] = {}
        for batch in table.to_batches(max_chunksize=_BATCH):
            found = []
            for row in batch.to_pylist():
                place = (int(row["id"].partition(".")[0]), row["partition"])
                if not self.at.get(place, 0) <= row["offset"] < upto.get(place, 0):
                    continue
                if place not in deliveries:
                    deliveries[place] = Delivery(self._topic, TopicId(place[0]), place[1])
                found.append(_received(row, deliveries[place]))
                self.at[place] = row["offset"] + 1
            if found:
                yield found


def _joined(tables: list[pa.Table]) -> pa.Table:
    """Null where older files lack a column."""
    return pa.concat_tables(tables, promote_options="default")


def _received(row: dict[str, object], delivery: Delivery) -> Received:
    key, headers = row["key"], row["headers"]
    return Received(
        row["value"],  # type: ignore[arg-type]
        key.decode() if isinstance(key, bytes) else None,
        {one["key"]: one["value"].decode() for one in headers} if headers else None,  # type: ignore[attr-defined]
        row["priority"],  # type: ignore[arg-type]
        round(row["timestamp"].timestamp() * 1000),  # type: ignore[attr-defined]
        bool(row["json"]),
        1,
        row["offset"],  # type: ignore[arg-type]
        delivery,
        row.get("publisher"),  # type: ignore[arg-type]
    )
