"""The driver of the cluster's tests: a process of its own that copies a topic twice, and waits in the middle of each job. At the
end it archives the topic.

    python cluster_job.py MASTER URL SOURCE GATE TARGET...

In GATE, a folder, each executor that has begun on a TARGET leaves a file; they go on when there is a file TARGET.open.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ortoo.pipeline.lake.archive import archive
from ortoo.pipeline.spark.session import open_session

if TYPE_CHECKING:
    import pyarrow as pa

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
    "spark.executor.memory": "512m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
}


def waiting(gate: Path, target: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        executor = Path.cwd()  # Spark gives each a folder of its own
        for number, batch in enumerate(batches):
            if number == 1:  # part of the rows have gone on to the writer
                (gate / f"{target}.begun.{executor.parent.parent.name}").touch()
                while not (gate / f"{target}.open").exists():
                    time.sleep(0.02)
            yield batch

    return wait


def main(master: str, url: str, source: str, gate: str, *targets: str) -> None:
    spark = open_session("copies", master=master, conf=CONF)
    for target in targets:
        read = spark.read.format("ortoo").option("url", url).option("subscribe", source).option("minPartitions", 4)
        rows = read.load().select("key", "value", "headers")
        copied = rows.mapInArrow(waiting(Path(gate), target), rows.schema)
        copied.write.format("ortoo").option("url", url).option("topic", target).mode("append").save()
        Path(gate, f"{target}.done").touch()
    archive(spark, Path(gate, "lake"), url=url, topics=[source], history=False)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
