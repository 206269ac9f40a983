"""What fails most: kinds of errors, and keys.

A failure is a delivery that was nacked or whose lease ran out, or a message that was given up. The last failure of a message is
not told twice: a message that is given up on a nack has one row, and not two.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from ortoo.model.failures import ERROR_KIND_CHARS, VARIES

from .backlog import Span
from .tables import Lake

FAILED = ("nacked", "lease expired", "dead-lettered", "dropped")
_KEY_CHARS = 200


def normalised(error: Column) -> Column:
    """As `normalise_error` does."""
    for pattern, word in VARIES:
        error = f.regexp_replace(error, pattern, word)
    return f.substring(f.trim(error), 1, ERROR_KIND_CHARS)


def error_figures(lake: Lake, span: Span, top: int) -> DataFrame:
    """The most frequent of each topic. A failure without a text is told by what happened, in parentheses."""
    failed = lake.history.where(f.col("event").isin(*FAILED) & span.covers("us"))
    unsaid = f.concat(
        f.lit("("),
        f.col("event"),
        f.when(
            f.col("event").isin("dead-lettered", "dropped"), f.coalesce(f.concat(f.lit(": "), "reason"), f.lit(""))
        ).otherwise(""),
        f.lit(")"),
    )
    text = normalised(f.col("error"))
    kinds = failed.withColumn("error", f.when(f.length(text) > 0, text).otherwise(unsaid))
    latest = f.struct("us", "position", "id")
    found = kinds.groupBy("topic", "group", "error").agg(f.count("*").alias("count"), f.max(latest).alias("latest"))
    rows = found.select(
        "topic",
        "group",
        "error",
        "count",
        f.col("latest.id").alias("example"),
        f.timestamp_micros("latest.us").alias("last"),
    )
    return ranked(rows, ["topic"], [f.desc("count"), f.asc("error"), f.asc("group")], top)


def key_figures(lake: Lake, span: Span, top: int) -> DataFrame:
    """The keys that failed most in each topic. A message that is not in the lake has no key that is known."""
    failed = lake.history.where(f.col("event").isin(*FAILED) & span.covers("us"))
    dead = f.count_if(f.col("event") == "dead-lettered")
    messages = failed.groupBy("topic", "group", "id").agg(f.count("*").alias("failures"), dead.alias("dead_lettered"))
    keys = lake.messages.where("key is not null").select("topic", "id", _text("key").alias("key"))
    found = messages.join(keys, ["topic", "id"]).groupBy("topic", "group", "key")
    rows = found.agg(
        f.sum("failures").alias("failures"),
        f.count("*").alias("messages"),
        f.sum("dead_lettered").alias("dead_lettered"),
    )
    return ranked(rows, ["topic"], [f.desc("failures"), f.asc("key"), f.asc("group")], top)


def _text(column: str) -> Column:
    text = f.col(column).cast("string")
    hexadecimal = f.concat(f.lit("0x"), f.lower(f.hex(column)))
    return f.substring(f.when(f.is_valid_utf8(text), text).otherwise(hexadecimal), 1, _KEY_CHARS)


def ranked(rows: DataFrame, within: list[str], order: list[Column], top: int) -> DataFrame:
    """The first of each, with their rank."""
    rank = f.row_number().over(Window.partitionBy(*within).orderBy(*order))
    found = rows.withColumn("rank", rank).where(f.col("rank") <= top)
    return found.withColumn("group", f.nullif("group", f.lit(""))) if "group" in rows.columns else found
