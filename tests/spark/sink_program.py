"""What a test runs in a process of its own, to kill it or to have Spark try failed tasks again: `python sink_program.py WHAT ...`

tasks URL TOPIC HOW       writes 0 to 999 in two tasks, each of which fails once, HOW: raise, kill, reorder
stream URL TOPIC DIR      writes what is in the Parquet files DIR/in, file by file, until killed or done
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from ortoo.pipeline.spark.session import open_session

WAYS = ("raise", "kill", "reorder")


def tasks(url: str, topic: str) -> None:
    spark = open_session("sink", master="local[2,4]", conf={"spark.sql.execution.arrow.maxRecordsPerBatch": "50"})
    frame = spark.range(0, 1000, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    for how in WAYS:
        failing = frame.mapInArrow(partial(fails_once, how), "value string")
        failing.write.format("ortoo").mode("append").options(url=url, topic=f"{topic}-{how}").save()
    spark.stop()


def fails_once(how: str, batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    given = list(batches)
    if how == "reorder":
        random.Random(context.attemptNumber()).shuffle(given)
        given = [batch.take(pa.array(range(batch.num_rows - 1, -1, -1))) for batch in given]
    for number, batch in enumerate(given):
        if context.attemptNumber() == 0 and number == len(given) // 2:
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError(f"the first attempt to {how} fails on purpose")
        yield batch


def stream(url: str, topic: str, directory: str) -> None:
    spark = open_session("sink", master="local[2]")
    frame = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).parquet(f"{directory}/in")
    writer = frame.repartition(2).writeStream.format("ortoo").options(url=url, topic=topic)
    query = writer.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "tasks":
        tasks(*arguments)
    else:
        stream(*arguments)
