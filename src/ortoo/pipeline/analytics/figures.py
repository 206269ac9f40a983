"""The figures of groups and topics, by the hour or over the whole range. All count what happened at `since` or later.

Percentiles are Spark's percentile_approx: an observed value whose rank is off by 1/10,000 of the count at most, so exact for
the few thousand deliveries of most hours.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from .backlog import Span
from .tables import bucket_of, to_instant

_ACCURACY = 10_000
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_EVENTS = {
    "delivered": ("delivered",),
    "acknowledged": ("acknowledged",),
    "retried": ("nacked", "lease expired"),
    "released": ("released",),
    "dead_lettered": ("dead-lettered",),
    "dropped": ("dropped",),
    "skipped": ("skipped",),
}
_KEYS = ["topic", "group", "hour"]


def all_figures(timeline: DataFrame, published: DataFrame, backlog: DataFrame, span: Span) -> DataFrame:
    """A row per topic, group and hour in which something happened or something waited.

    And with no hour, a row per topic and group over the whole range; its depth and lag are those of the last hour, which ends
    where the lake does.
    """
    told = _told(timeline.where(span.covers("us")).withColumn("hour", bucket_of("us", span.width)))
    sizes = [f.sum(name).alias(name) for name in ("published", "bytes")]
    topics = published.groupingSets([["topic", "hour"], ["topic"]], "topic", "hour").agg(*sizes)
    at_last = backlog.where(f.col("hour") == span.last_hour).withColumn("hour", f.lit(None).cast("bigint"))
    found = told
    for more in (topics.withColumn("group", f.lit("")), backlog, at_last):
        found = found.unionByName(more, allowMissingColumns=True)
    each = [f.first(name, ignorenulls=True).alias(name) for name in found.columns if name not in _KEYS]
    rows = found.groupBy(*_KEYS).agg(*each).withColumn("group", f.nullif("group", f.lit("")))
    return rows.select("topic", "group", to_instant("hour", span.width).alias("hour"), *_figures())


def _told(timeline: DataFrame) -> DataFrame:
    counts = {**_EVENTS, "deleted": ("deleted",)}
    rows = timeline.where("event not in ('published', 'gone')")
    return rows.groupingSets([_KEYS, _KEYS[:2]], *_KEYS).agg(
        *(f.count_if(f.col("event").isin(*events)).alias(name) for name, events in counts.items()),
        _percentiles("waited_us").alias("delivery"),
        _percentiles("held_us").alias("ack"),
        f.mean("attempts").alias("attempts_mean"),
        f.max("attempts").cast("bigint").alias("attempts_max"),
    )


def _percentiles(column: str) -> Column:
    return f.percentile_approx(f.col(column) / 1000, list(_PERCENTILES.values()), _ACCURACY)


def _figures() -> list[Column]:
    """Named and ordered as in the documents. An hour without a certain event has none of them, rather than null."""
    is_topic = f.col("group").isNull()
    of_topic = [f.when(is_topic, _or_none(name)).alias(name) for name in ("published", "bytes", "deleted")]
    depth, lag = _or_none("depth"), f.coalesce("lag_seconds", f.lit(0.0))
    given_up = _or_none("dead_lettered")
    finished = _or_none("acknowledged") + given_up + _or_none("dropped")
    return [
        *of_topic,
        *(_or_none(name).alias(name) for name in _EVENTS),
        f.when(~is_topic, depth).alias("depth"),
        f.when(~is_topic, lag).alias("lag_seconds"),
        *(
            f.get(kind, f.lit(at)).alias(f"{kind}_{name}_ms")
            for kind in ("delivery", "ack")
            for at, name in enumerate(_PERCENTILES)
        ),
        f.col("attempts_mean"),
        f.col("attempts_max"),
        f.try_divide(_or_none("retried"), _or_none("delivered")).alias("retry_rate"),
        f.try_divide(given_up, finished).alias("dlq_rate"),
    ]


def _or_none(name: str) -> Column:
    return f.coalesce(f.col(name), f.lit(0).cast("bigint"))
