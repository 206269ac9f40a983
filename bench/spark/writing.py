"""A batch write, exactly once, of rows that Spark makes up."""

from __future__ import annotations

from time import perf_counter
from uuid import uuid4

from bench.figures import Figure
from bench.loads import VALUE_BYTES

from .setting import Setting

NAME = "spark, write"


def measure(setting: Setting) -> list[Figure]:
    count = setting.amounts.written
    rows = setting.spark.range(count, numPartitions=4).selectExpr(
        f"rpad(cast(id as string), {VALUE_BYTES}, 'x') as value", "cast(id % 1000 as string) as key"
    )
    best = 0.0
    for _ in range(setting.amounts.repetitions):
        writer = rows.write.format("ortoo").options(url=setting.url, topic=f"written-{uuid4().hex[:8]}")
        began = perf_counter()
        writer.mode("append").save()
        best = max(best, count / (perf_counter() - began))
    return [Figure(NAME, "exactly once", best)]
