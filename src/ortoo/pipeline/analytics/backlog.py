"""What waits at the end of each hour: depth and lag of each group.

A message waits in a group from its publication until the group settles it. The depth is how many wait at the hour's end, and
the lag is how long ago the oldest of them was published. The last hour ends where the lake does.

Most messages are settled within the hour and never seen here. The others are counted by the hours between which they wait,
and only those counts, not the messages, are spread over the hours.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from .tables import HOUR, MICROS, bucket_of


class Span(msgspec.Struct, frozen=True):
    """What the report is about, in microseconds. `end` is the instant up to which the lake tells.

    The figures are by the hour, or for charts by buckets of another width; below, an hour is such a bucket.
    """

    since: int | None
    end: int
    width: int = HOUR

    @property
    def last_hour(self) -> int:
        return (self.end - 1) // self.width

    def covers(self, column: str) -> Column:
        return f.lit(True) if self.since is None else f.col(column) >= self.since


def backlog(timeline: DataFrame, span: Span) -> DataFrame:
    """Topic, group, hour, depth, lag_seconds; no row where nothing waits, nor before the group's first sign of life."""
    opened, closed = bucket_of("us", span.width), bucket_of("closed_us", span.width)
    last = f.coalesce(f.least(closed - 1, f.lit(span.last_hour)), f.lit(span.last_hour))
    waits = timeline.where(f.col("opens")).select(
        "topic", "group", "incarnation", opened.alias("first"), last.alias("last"), "published_us"
    )
    groups = timeline.where("event not in ('published', 'gone')").groupBy("topic", "group")
    alive = groups.agg(f.min(bucket_of("us", span.width)).alias("alive"))
    newest = timeline.groupBy("topic").agg(f.max("incarnation").alias("incarnation"))
    counted = waits.where("first <= last").groupBy("topic", "group", "incarnation", "first", "last")
    stretches = (
        counted.agg(f.count("*").alias("depth"), f.min("published_us").alias("oldest"))
        .join(f.broadcast(newest), ["topic", "incarnation"])  # a topic that was deleted leaves nothing to wait for
        .join(f.broadcast(alive), ["topic", "group"])
    )
    floor = f.lit(0 if span.since is None else span.since // span.width)
    begin = f.greatest("first", "alive", floor)
    hours = stretches.where(begin <= f.col("last")).withColumn("hour", f.explode(f.sequence(begin, f.col("last"))))
    ends = f.least((f.col("hour") + 1) * span.width, f.lit(span.end))
    return hours.groupBy("topic", "group", "hour").agg(
        f.sum("depth").alias("depth"), ((f.first(ends) - f.min("oldest")) / MICROS).alias("lag_seconds")
    )
