"""Everything that happened to each message in each group, in order, and what can only be told from that order.

Publishes and the history are one table here, shuffled once by message and group. A message goes into the timeline of each
group that is its topic's, from the first message on that the group ever touched in that partition: where a group began is
not in the lake, and what lies before was never its work. In a partition that it never touched, its work begins with the
group's first sign of life.

    event       time      what is told beside it
    published   12:00:00  opened: it waits from now on, until the instant in `closed_us`
    delivered   12:00:05  waited: 5 s since it was published, as this is the first delivery
    nacked      12:00:06
    delivered   12:00:16
    acknowledged 12:00:17  held: 1 s since the delivery of the same lease; attempts: 2

A message is settled by an ack, by giving it up (dead-lettered, dropped), by retention (skipped) or by being deleted. A redrive
opens it again, and so does a delivery after it was settled: somebody moved the group back.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from .tables import Lake

SETTLED = ("acknowledged", "dead-lettered", "dropped", "skipped")
GONE = "gone"  # deleted, as each group of the topic sees it
_COLUMNS = ("topic", "group", "id", "offset", "us", "position", "event", "lease", "consumer")


def timeline(lake: Lake) -> DataFrame:
    event = f.col("event")
    rows = _rows(lake)
    # The offset comes first because it tells most rows apart by one machine word.
    order = Window.partitionBy("offset", "id", "group", "topic").orderBy("us", "position")
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    after = order.rowsBetween(1, Window.unboundedFollowing)
    is_delivered = event == "delivered"
    closes = event.isin(*SETTLED, GONE)
    closed = f.when(closes, True).when(event.isin("published", "redriven", "delivered"), False)
    deliveries = f.sum(is_delivered.cast("int")).over(so_far)
    releases = f.sum((event == "released").cast("int")).over(so_far)
    hold = f.last(f.when(is_delivered, f.struct("lease", "us", "consumer")), ignorenulls=True).over(so_far)
    found = rows.select(
        "*",
        deliveries.alias("deliveries"),
        (deliveries - releases).alias("attempts"),
        hold.alias("hold"),
        f.max(f.when(event == "published", f.col("us"))).over(so_far).alias("published_us"),
        f.last(closed, ignorenulls=True).over(before).alias("was_closed"),
        f.first(f.when(closes, f.col("us")), ignorenulls=True).over(after).alias("closed_us"),
    )
    return found.select(*_told(closed))


def _told(closed: Column) -> list[Column]:
    event, us = f.col("event"), f.col("us")
    has_lease = (f.col("hold.lease") == f.col("lease")) & (event != "delivered")
    first = (event == "delivered") & (f.col("deliveries") == 1)
    given_up = event.isin("acknowledged", "dead-lettered", "dropped") & (f.col("attempts") > 0)
    opens = (closed == f.lit(False)) & f.coalesce("was_closed", f.lit(True)) & f.col("published_us").isNotNull()
    return [
        f.col("topic"),
        f.col("group"),
        f.substring_index("id", ".", 1).cast("bigint").alias("incarnation"),
        us,
        event,
        f.coalesce("consumer", f.when(has_lease, f.col("hold.consumer"))).alias("consumer"),
        f.when(first, us - f.col("published_us")).alias("waited_us"),
        f.when(has_lease & (event == "acknowledged"), us - f.col("hold.us")).alias("held_us"),
        f.when(given_up, f.col("attempts")).alias("attempts"),
        f.coalesce(opens, f.lit(False)).alias("opens"),
        f.col("published_us"),
        f.col("closed_us"),
    ]


def _rows(lake: Lake) -> DataFrame:
    history, starts = lake.history, _starts(lake)
    groups = starts.groupBy("topic", "group").agg(f.min("first_us").alias("first_us"))
    gone = history.where("event = 'deleted'").drop("group").join(f.broadcast(groups), "topic")
    gone = gone.withColumn("event", f.lit(GONE))
    published = _published(lake.messages, starts, groups)
    return history.select(*_COLUMNS).union(gone.select(*_COLUMNS)).union(published.select(*_COLUMNS))


def _starts(lake: Lake) -> DataFrame:
    """Where each group began, as far as can be seen: a row per topic, incarnation, partition and group."""
    incarnation = f.substring_index("id", ".", 1).alias("incarnation")
    touched = lake.history.where("group != ''").groupBy("topic", incarnation, "partition", "group")
    return touched.agg(f.min("offset").alias("start"), f.min("us").alias("first_us"))


def _published(messages: DataFrame, starts: DataFrame, groups: DataFrame) -> DataFrame:
    message = messages.select("topic", "id", "partition", "offset", "us").withColumn(
        "incarnation", f.substring_index("id", ".", 1)
    )
    wide = message.join(f.broadcast(groups), "topic").join(
        f.broadcast(starts.drop("first_us")), ["topic", "incarnation", "partition", "group"], "left"
    )
    is_work = f.when(f.col("start").isNull(), f.col("us") >= f.col("first_us")).otherwise(
        f.col("offset") >= f.col("start")
    )
    nothing = [f.lit(None).cast(kind).alias(name) for name, kind in (("lease", "bigint"), ("consumer", "string"))]
    return wide.where(is_work).select(
        "*", f.lit(-1).cast("bigint").alias("position"), f.lit("published").alias("event"), *nothing
    )
