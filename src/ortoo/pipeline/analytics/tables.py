"""The lake's two tables as the job reads them: only the columns it needs, under an explicit schema.

The schema is given and never inferred: Spark would read a topic named 007 as the number 7, and could not read a table that
is still empty. Instants become whole microseconds, so that no figure depends on the session's time zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from ortoo.model.errors import InvalidError, NotFoundError

MICROS = 1_000_000
HOUR = 3600 * MICROS

_SCHEMAS = {
    "messages": (
        "key binary, value binary, partition int, offset bigint, timestamp timestamp, "
        "headers array<struct<key:string,value:binary>>, id string, topic string, date date"
    ),
    "history": (
        "position bigint, partition int, offset bigint, id string, timestamp timestamp, event string, group string, "
        "consumer string, lease bigint, reason string, error string, topic string, date date"
    ),
}


class Lake:
    """Messages and history before `until`. What lies before `since` is read, too: depth and latencies begin there."""

    def __init__(self, spark: SparkSession, path: Path, topics: Sequence[str] | None, until: int | None) -> None:
        check_lake(path, topics)
        self._topics = topics
        self._until = until
        # Once each: making such a table looks for all of its files.
        everything = {table: _read(spark, path / table, table) for table in _SCHEMAS}
        self.instants = everything["messages"].select("us").union(everything["history"].select("us"))
        self.messages = self._within(everything["messages"])
        self.history = self._within(everything["history"])

    def _within(self, rows: DataFrame) -> DataFrame:
        if self._topics is not None:
            rows = rows.where(f.col("topic").isin(list(self._topics)))
        if self._until is not None:
            last_day = datetime.fromtimestamp(self._until / MICROS, UTC).date()
            rows = rows.where((f.col("date") <= f.lit(last_day)) & (f.col("us") < self._until))
        return rows


def _read(spark: SparkSession, path: Path, table: str) -> DataFrame:
    """With `us`, the instant in microseconds, and an empty name for no group."""
    schema = _SCHEMAS[table]
    found = spark.read.schema(schema).parquet(f"file:{path.resolve()}") if path.is_dir() else None
    rows = spark.createDataFrame([], schema) if found is None else found
    rows = rows.withColumn("us", f.unix_micros("timestamp"))
    return rows.withColumn("group", f.coalesce("group", f.lit(""))) if table == "history" else rows


def check_lake(path: Path, topics: Sequence[str] | None) -> None:
    if not any((path / part).is_dir() for part in ("messages", "history", "_ortoo")):
        raise NotFoundError(f"there is no lake at {path}; `ortoo pipeline archive --to {path}` makes one")
    known = topics_of(path)
    for topic in topics or ():
        if topic not in known:
            there = f"; there are {', '.join(sorted(known)[:10])}" if known else ", nor is any other yet"
            raise NotFoundError(f"topic {topic!r} is not in the lake at {path}{there}")


def topics_of(path: Path) -> set[str]:
    return {
        unquote(folder.name.removeprefix("topic="))
        for table in _SCHEMAS
        for folder in (path / table).glob("topic=*")
        if folder.is_dir()
    }


def to_micros(instant: float | datetime | None, name: str) -> int | None:
    """Of seconds since 1970, or of a datetime, which is local time unless it names a zone."""
    if instant is None:
        return None
    seconds = instant.timestamp() if isinstance(instant, datetime) else instant
    try:
        datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidError(f"{name} is {instant!r}, which is no instant of this calendar: seconds since 1970") from None
    return round(seconds * MICROS)


def bucket_of(column: str, width: int) -> Column:
    """The number of the bucket since 1970 in which an instant lies: an hour, if it is as wide as one."""
    return f.expr(f"{column} div {width}")


def to_instant(column: str, width: int) -> Column:
    """When the bucket of that number begins."""
    return f.timestamp_micros(f.col(column) * width)
