"""Who does the work: consumers of each group, producers of each topic.

A message does not say who published it. Its header `producer` does, where programs set one; else it is "unknown".
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from .backlog import Span
from .failures import ranked
from .tables import Lake, bucket_of

UNKNOWN = "unknown"
PRODUCER_HEADER = "producer"
_NAME_CHARS = 200


def published_figures(lake: Lake, span: Span) -> DataFrame:
    """Topic, hour, producer, published, bytes: one pass over the messages, from which topics and producers are summed."""
    header = f.filter("headers", lambda header: header["key"] == PRODUCER_HEADER)
    name = f.get(header, f.lit(0))["value"].cast("string")
    is_name = f.is_valid_utf8(name) & (f.length(name) > 0)
    producer = f.when(is_name, f.substring(name, 1, _NAME_CHARS)).otherwise(UNKNOWN)
    size = f.coalesce(f.octet_length("value"), f.lit(0)).cast("bigint")
    found = lake.messages.where(span.covers("us")).groupBy(
        "topic", bucket_of("us", span.width).alias("hour"), producer.alias("producer")
    )
    return found.agg(f.count("*").alias("published"), f.sum(size).alias("bytes"))


def producer_figures(published: DataFrame, top: int) -> DataFrame:
    sums = [f.sum(name).alias(name) for name in ("published", "bytes")]
    rows = published.groupBy("topic", "producer").agg(*sums)
    shares = rows.withColumn("published_share", _share("published", ["topic"]))
    return ranked(shares, ["topic"], [f.desc("published"), f.asc("producer")], top)


def consumer_figures(timeline: DataFrame, span: Span, top: int) -> DataFrame:
    """A settled delivery is its consumer's, found by the lease where the row does not name it."""
    events = {
        "delivered": ("delivered",),
        "acknowledged": ("acknowledged",),
        "retried": ("nacked", "lease expired"),
    }
    counted = [event for kinds in events.values() for event in kinds]
    consumer = f.coalesce("consumer", f.lit(UNKNOWN)).alias("consumer")
    found = timeline.where(f.col("event").isin(*counted) & span.covers("us")).groupBy("topic", "group", consumer)
    rows = found.agg(*(f.count_if(f.col("event").isin(*kinds)).alias(name) for name, kinds in events.items()))
    shares = rows.withColumns(
        {f"{name}_share": _share(name, ["topic", "group"]) for name in ("delivered", "acknowledged")}
    )
    order = [f.desc("delivered"), f.desc("acknowledged"), f.asc("consumer")]
    return ranked(shares, ["topic", "group"], order, top)


def _share(name: str, within: list[str]) -> Column:
    return f.try_divide(f.col(name), f.sum(name).over(Window.partitionBy(*within)))
