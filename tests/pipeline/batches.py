"""Batches of an archive as Spark stages them, made without Spark."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import ortoo
from ortoo.pipeline.durable.publishing import Offsets
from ortoo.pipeline.lake.compaction import compact_folder
from ortoo.pipeline.lake.layout import HISTORY, MESSAGES, Lake
from ortoo.pipeline.lake.manifest import load, load_or_new
from ortoo.pipeline.lake.publishing import Publisher

INSTANT = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", INSTANT),
        ("headers", HEADERS),
        ("priority", pa.int32()),
        ("id", pa.string()),
        ("json", pa.bool_()),
        ("publisher", pa.string()),
    ]
)
NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z


def all_sorts() -> list[ortoo.Message]:
    """Messages that differ in all that an archive has to keep."""
    return [
        ortoo.Message(b"", key="k"),
        ortoo.Message(b"\xff\x00\xfe"),
        ortoo.Message({"a": 1}, headers={"h": "grün", "empty": ""}),
        ortoo.Message(os.urandom(1 << 20), priority=9),
        ortoo.Message("text", key="", priority="high"),
    ]


def row(topic_id: int, partition: int, offset: int, at: float = NOON, value: bytes | None = None) -> dict[str, Any]:
    identity = f"{topic_id}.{partition}.{offset}"
    return {
        "key": None,
        "value": identity.encode() if value is None else value,
        "partition": partition,
        "offset": offset,
        "timestamp": datetime.fromtimestamp(at, UTC),
        "headers": [{"key": "n", "value": str(offset).encode()}],
        "priority": 4,
        "id": identity,
        "json": False,
        "publisher": f"app-{offset % 3}",
    }


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)


def stage(lake: Lake, rows: list[dict[str, Any]], files: int = 2, table: str = MESSAGES) -> Path:
    """As Spark does it: a folder by incarnation and date, and what it leaves beside."""
    staging = lake.staging(table)
    staging.mkdir(parents=True)
    (staging / "_SUCCESS").touch()
    folders: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in rows:
        place = (one["id"].partition(".")[0], one["timestamp"].date().isoformat())
        folders.setdefault(place, []).append(one)
    for (incarnation, date), found in folders.items():
        size = -(-len(found) // files)
        for number, start in enumerate(range(0, len(found), size)):
            folder = staging / f"incarnation={incarnation}" / f"date={date}"
            write_rows(folder / f"part-{number:05d}-x.c000.zstd.parquet", found[start : start + size])
    return staging


class Job:
    """An archive job that reads made-up rows; each is a process of its own, as far as the lake can tell."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.manifest = load_or_new(lake, "default")
        self.publisher = Publisher(lake, self.manifest)
        self.publisher.recover()

    @staticmethod
    def end(lake: Lake, topic: str = "orders", topic_id: int = 7) -> int:
        found = load(lake)
        return 0 if found is None else found.end(MESSAGES, topic, (topic_id, 0))

    def archive(self, upto: int, topic: str = "orders", topic_id: int = 7, files: int = 2) -> list[Path]:
        """Messages of partition 0 up to this offset, from where the archive stands, as a batch."""
        offsets: Offsets = {topic: {"0": upto, "id": topic_id}}
        if self.manifest.covers(MESSAGES, offsets):
            return []
        begin = self.manifest.end(MESSAGES, topic, (topic_id, 0))
        staging = stage(self.lake, [row(topic_id, 0, offset) for offset in range(begin, upto)], files)
        return self.publisher.publish(MESSAGES, staging, {str(topic_id): topic}, offsets)


def ids(lake: Lake, topic: str | None = None, table: str = MESSAGES) -> list[str]:
    """As a reader finds them that knows nothing of manifests; sorted."""
    assert table in (MESSAGES, HISTORY)
    found = [
        name for path in lake.files(table, topic) for name in pq.read_table(path, partitioning=None)["id"].to_pylist()
    ]
    return sorted(found, key=lambda text: [int(part) for part in text.split(".")])


def expected(upto: int, topic_id: int = 7) -> list[str]:
    return [f"{topic_id}.0.{offset}" for offset in range(upto)]


def archive_topic(lake: Lake, queue: ortoo.SyncQueue, topic: str, tell: bool = True) -> None:
    """What the archive job does, for one topic."""
    job = Job(lake)
    info = queue.topic(topic)
    ends = queue.offsets(topic)
    offsets: Offsets = {topic: {**{str(index): end for index, end in enumerate(ends)}, "id": info.id}}
    rows = []
    for index, end in enumerate(ends):
        begin = job.manifest.end(MESSAGES, topic, (info.id, index))
        found = queue.read(topic, from_offset=begin, to_offset=end, partition=index)
        rows += [_archived(message) for message in found if message.offset < end]
    if not job.manifest.covers(MESSAGES, offsets):
        folders = job.publisher.publish(MESSAGES, stage(lake, rows), {str(info.id): topic}, offsets)
        for folder in folders:
            compact_folder(lake, folder, few=4)
    if tell:
        queue.mark_archived(topic, dict(enumerate(ends)))


def _archived(message: ortoo.Received) -> dict[str, Any]:
    return {
        "key": None if message.key is None else message.key.encode(),
        "value": message.value,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=message.timestamp_ms),
        "headers": [{"key": key, "value": value.encode()} for key, value in message.headers.items()] or None,
        "priority": message.priority,
        "id": message.id,
        "json": message.is_json,
        "publisher": message.publisher,
    }
