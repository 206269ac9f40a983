"""Has Spark load the classes that tests need, see home.py: `python -m tests.spark.training`."""

from __future__ import annotations

import tempfile

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ortoo.pipeline.spark.session import open_session
from tests.spark.ending import end_java


def main() -> None:
    spark = open_session("training", master="local[2]")
    with tempfile.TemporaryDirectory() as home:
        rows = spark.range(100).selectExpr("id", "id % 7 AS kind", "CAST(id AS STRING) AS text", "map('a', id) AS more")
        rows = rows.withColumn("json", fn.to_json(fn.struct("id", "text"))).withColumn("at", fn.current_timestamp())
        rows.write.partitionBy("kind").option("compression", "zstd").parquet(f"{home}/rows")
        rows.drop("more").write.json(f"{home}/json")
        read = spark.read.parquet(f"{home}/rows")
        read.createOrReplaceTempView("rows")
        spark.sql(
            "SELECT kind, count(*), percentile_approx(id, 0.5), max(at), collect_list(text) FROM rows JOIN"
            " (SELECT kind AS k, min(id) AS least, row_number() OVER (ORDER BY kind) FROM rows GROUP BY kind) ON k = kind"
            " WHERE id >= least GROUP BY kind HAVING count(*) > 1 ORDER BY kind"
        ).collect()
        read.mapInArrow(lambda batches: batches, read.schema).toArrow()
        spark.read.schema("id long, text string").json(f"{home}/json").count()

        def take(batch: DataFrame, _: int) -> None:
            batch.sortWithinPartitions("id").write.mode("append").parquet(f"{home}/copy")

        stream = spark.readStream.schema(read.schema).parquet(f"{home}/rows")
        counted = stream.withWatermark("at", "1 hour").groupBy(fn.window("at", "1 minute"), "kind").count()
        for number, writer in enumerate((stream.writeStream.foreachBatch(take), counted.writeStream.format("noop"))):
            checkpoint = f"{home}/checkpoint-{number}"
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
    spark.stop()
    end_java()


if __name__ == "__main__":
    main()
