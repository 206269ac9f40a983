"""Topics as tables in Spark: read one, ask it questions in SQL, follow it as a stream, write a topic back.

Written to be read from top to bottom, like a notebook. It needs a server (`ortoo serve`) and `pip install 'ortoo[spark]'`.
"""

import os
import tempfile

import ortoo
from ortoo.pipeline import session

where = {
    "url": os.environ.get("ORTOO_URL", "ortoo://localhost:7632"),
    "namespace": os.environ.get("ORTOO_NAMESPACE", "default"),
}
queue = ortoo.connect_sync(where["url"], namespace=where["namespace"])

# Some orders to look at, in a topic with one partition, so that their offsets are easy to follow.
queue.create_topic("orders", partitions=1)
for item, count in [("tea", 2), ("milk", 1), ("tea", 1), ("bread", 3), ("tea", 1), ("tea", 2)]:
    queue.publish("orders", {"item": item, "count": count}, key=item)

# A session that knows the format "ortoo". Any session does, if Ortoo is installed where Spark runs.
spark = session("topics as tables")
orders = spark.read.format("ortoo").options(**where).option("subscribe", "orders").load()
orders.printSchema()
first = orders.orderBy("offset").first()
assert first is not None
print(f"{orders.count()} orders, the first of them {first.value.decode()}")

# A DataFrame as any other: filter it, sort it, use it again.
late = orders.where("partition = 0 AND offset >= 4").select("offset").orderBy("offset").collect()
print(f"offsets of partition 0 from 4 on: {[row.offset for row in late]}")

# SQL. The value is bytes; here it is JSON.
lines = orders.selectExpr("from_json(CAST(value AS STRING), 'item STRING, count INT') AS line", "timestamp")
lines.select("line.*", "timestamp").createOrReplaceTempView("lines")
totals = spark.sql("SELECT item, sum(count) AS total FROM lines GROUP BY item ORDER BY total DESC, item")
print("totals: " + ", ".join(f"{row.item}: {row.total}" for row in totals.collect()))

# The same topic as a stream. `availableNow` ends when it has caught up; the checkpoint knows how far it has come, so
# that the next run takes only what is new. What it writes to a topic is there exactly once.
checkpoint = tempfile.mkdtemp()
streamed: list[int] = []


def follow() -> None:
    stream = spark.readStream.format("ortoo").options(**where, subscribe="orders", startingOffsets="earliest").load()
    large = stream.selectExpr("key", "from_json(CAST(value AS STRING), 'item STRING, count INT') AS line").where(
        "line.count >= 3"
    )
    query = (
        large.selectExpr("key", "to_json(line) AS value")
        .writeStream.format("ortoo")
        .options(**where, topic="orders.large", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    streamed.append(sum(progress["numInputRows"] for progress in query.recentProgress))


follow()
queue.publish("orders", {"item": "tea", "count": 4}, key="tea")
follow()
print(f"streamed {streamed[0]} orders, then {streamed[1]} more")

# A DataFrame becomes messages, in one go.
more = spark.createDataFrame([("tea", '{"item": "tea", "count": 5}')], "key STRING, value STRING")
more.write.format("ortoo").options(**where, topic="orders.large").mode("append").save()

found = sorted((message.json()["item"], message.json()["count"]) for message in queue.read("orders.large"))
print("in the topic of large orders: " + ", ".join(f"{item} {count}" for item, count in found))
queue.close()
