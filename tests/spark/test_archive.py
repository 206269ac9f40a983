"""Is everything archived once and as it was, for every reader of Parquet, whatever became of the job and of topics?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import ortoo
from ortoo.model.errors import ConfigError, CorruptionError, NotFoundError, UnavailableError
from ortoo.model.names import INBOX_LABELS
from ortoo.pipeline.connection import Address
from ortoo.pipeline.lake.archive import Wanted, archive_wanted
from ortoo.pipeline.lake.layout import MESSAGES, Lake, folder_name
from ortoo.pipeline.lake.marks import Marks
from ortoo.pipeline.lake.replay import replay
from ortoo.pipeline.lake.report import Archived
from ortoo.pipeline.spark.reason import to_reason
from tests.pipeline.batches import all_sorts

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = ["a/b=c%d", "grün ß", "123", "x" * 255, "__HIVE_DEFAULT_PARTITION__", "a,b"]


class Run:
    """Archives some topics of the shared server, as often as it is called."""

    def __init__(self, spark: SparkSession, url: str, lake: Path) -> None:
        self._spark = spark
        self._url = url
        self.lake = Lake(lake)
        self.told: list[str] = []
        self.rows = 0

    def __call__(self, *topics: str, **more: Any) -> int:
        """Returns the number of messages that were archived."""
        self.told.clear()
        self.rows = 0
        wanted = {"address": Address(self._url), "topics": topics, "history": False, **more}
        archive_wanted(self._spark, self.lake, Wanted(**wanted), report=self._hear)
        return self.rows

    def _hear(self, what: Archived | str) -> None:
        if isinstance(what, str):
            self.told.append(what)
        elif what.table == MESSAGES:
            self.rows += what.rows

    def ids(self) -> list[str]:
        """As a reader finds them that knows nothing of manifests."""
        found = [
            one for path in self.lake.files(MESSAGES) for one in pq.ParquetFile(path).read(["id"])["id"].to_pylist()
        ]
        return sorted(found, key=lambda text: [int(part) for part in text.split(".")])


@pytest.fixture
def run(spark: SparkSession, server: Server, tmp_path: Path) -> Run:
    return Run(spark, server.url, tmp_path / "lake %41 x")


def publish(queue: ortoo.SyncQueue, topic: str, count: int) -> None:
    queue.publish_many(topic, [b"%d" % number for number in range(count)])


def log_ids(queue: ortoo.SyncQueue, *topics: str) -> list[str]:
    found = [message.id for topic in topics for message in queue.read(topic)]
    return sorted(found, key=lambda text: [int(part) for part in text.split(".")])


def plain(messages: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (m.id, bytes(m.value), m.key, m.headers, m.priority, m.timestamp_ms, m.is_json, m.attempt) for m in messages
    )


def test_every_reader_sees_every_message_as_it_was(
    spark: SparkSession, queue: ortoo.SyncQueue, topic: str, run: Run
) -> None:
    queue.create_topic(topic, partitions=3)
    queue.publish_many(topic, all_sorts())
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")  # tomorrow already
    try:
        assert run(topic) == 5
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    published = {message.id: message for message in queue.read(topic)}
    table = str(run.lake.table(MESSAGES))
    assert plain(replay(queue, topic, run.lake.root)) == plain(published.values())

    by_spark = spark.read.parquet(table).collect()
    assert {row["id"]: bytes(row["value"]) for row in by_spark} == {name: m.value for name, m in published.items()}
    assert {str(row["date"]) for row in by_spark} == {
        pd.Timestamp(m.timestamp_ms, unit="ms").date().isoformat() for m in published.values()
    }
    assert {row["topic"] for row in by_spark} == {topic}

    by_duck = duckdb.execute(
        f"select id, value, key, epoch_ms(timestamp), priority, json, headers from read_parquet('{table}/**/*.parquet', "
        "hive_partitioning=true)"
    ).fetchall()
    assert len(by_duck) == 5
    for name, value, key, timestamp, priority, is_json, headers in by_duck:
        m = published[name]
        told = {one["key"]: one["value"].decode() for one in headers or []}
        assert (value, timestamp, priority, is_json) == (m.value, m.timestamp_ms, m.priority, m.is_json)
        assert (key, told) == (None if m.key is None else m.key.encode(), m.headers)

    by_pandas = pd.read_parquet(table)
    assert dict(zip(by_pandas["id"], by_pandas["value"], strict=True)) == {n: m.value for n, m in published.items()}


def test_the_history_is_archived_once(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, run: Run
) -> None:
    queue.create_topic(topic, partitions=2, max_attempts=2, backoff_initial=0)
    publish(queue, topic, 6)
    first, *rest = queue.lease(topic, max_messages=6)
    first.nack(error="ValueError: bad")
    queue.ack(rest[:3])
    run(topic, history=True)
    (again,) = queue.lease(topic, wait=5)
    again.nack(error="ValueError: worse")
    for _ in range(2):
        run(topic, history=True)
    options = {"url": server.url, "subscribe": topic, "table": "history"}
    source = spark.read.format("ortoo").options(**options).load()
    archived = spark.read.parquet(str(run.lake.table("history"))).select(source.columns)
    assert sorted(archived.collect(), key=str) == sorted(source.collect(), key=str)
    told = [(row["event"], row["error"]) for row in archived.collect()]
    assert told.count(("nacked", "ValueError: bad")) == 1
    assert [error for event, error in told if event == "dead-lettered"] == ["ValueError: worse"]
    assert [event for event, _ in told].count("acknowledged") == 3


def test_names_that_are_no_names_of_folders(
    spark: SparkSession, start_server: Callable[[], Server], tmp_path: Path
) -> None:
    server = start_server()
    run = Run(spark, server.url, tmp_path / "lake")
    with ortoo.connect_sync(server.url) as queue:
        for name in ODD:
            queue.create_topic(name, partitions=1)
            publish(queue, name, 3)
        queue.create_topic("inbox-1", labels=INBOX_LABELS)
        publish(queue, "inbox-1", 3)
        assert run() == 3 * len(ODD)
        table = str(run.lake.table(MESSAGES))
        shown = {name if len(name) < 250 else folder_name(name) for name in ODD}
        spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        try:
            assert {row["topic"] for row in spark.read.parquet(table).select("topic").collect()} == shown
        finally:
            spark.conf.unset("spark.sql.sources.partitionColumnTypeInference.enabled")
        types = "hive_types={'topic': 'varchar'}"
        by_duck = duckdb.execute(
            f"select topic, count(*) from read_parquet('{table}/**/*.parquet', hive_partitioning=true, {types}) group by 1"
        ).fetchall()
        assert set(by_duck) == {(name, 3) for name in shown}
        parts = ds.partitioning(pa.schema([("topic", pa.string()), ("date", pa.string())]), flavor="hive")
        by_arrow = set(ds.dataset(table, partitioning=parts).to_table()["topic"].to_pylist())
        assert by_arrow - {None} == shown - {
            "__HIVE_DEFAULT_PARTITION__"
        }  # which it takes for null, however it is written
        for name in ODD:
            queue.purge(name)
            assert [message.value for message in replay(queue, name, run.lake.root)] == [b"0", b"1", b"2"]
        with pytest.raises(ConfigError, match="give a pattern for it"):
            run("a,b")


def test_a_topic_has_several_lives(queue: ortoo.SyncQueue, topic: str, run: Run) -> None:
    pattern = {"pattern": f"{topic}.*"}
    queue.create_topic(topic, partitions=1, ordering="none")
    publish(queue, topic, 10)
    assert run(**pattern) == 10
    assert run(**pattern) == 0
    expected = log_ids(queue, topic)
    queue.update_topic(topic, partitions=3)
    queue.create_topic(f"{topic}-later", partitions=1)
    publish(queue, topic, 20)
    publish(queue, f"{topic}-later", 5)
    assert run(**pattern) == 25
    expected = log_ids(queue, topic, f"{topic}-later")
    queue.delete_topic(topic)
    queue.create_topic(topic, partitions=2)
    publish(queue, topic, 4)
    assert run(**pattern) == 4
    assert run.ids() == sorted(
        expected + log_ids(queue, topic), key=lambda text: [int(part) for part in text.split(".")]
    )


def test_without_its_checkpoint_the_job_goes_on_from_the_manifest(queue: ortoo.SyncQueue, topic: str, run: Run) -> None:
    pattern = {"pattern": f"{topic}.*"}
    for name in (topic, f"{topic}-gone", f"{topic}-other"):
        queue.create_topic(name, partitions=2)
        publish(queue, name, 10)
    assert run(history=True, **pattern) == 30
    archived = log_ids(queue, topic, f"{topic}-gone", f"{topic}-other")
    shutil.rmtree(run.lake.own / "checkpoint")
    queue.delete_topic(f"{topic}-gone")
    queue.create_topic(f"{topic}-new", partitions=1)
    publish(queue, f"{topic}-new", 3)
    publish(queue, topic, 2)
    assert run(history=True, **pattern) == 5
    assert len(set(run.ids())) == len(run.ids()) == 35
    assert set(archived) < set(run.ids())


def test_an_older_checkpoint_brings_nothing_again(queue: ortoo.SyncQueue, topic: str, run: Run, tmp_path: Path) -> None:
    queue.create_topic(topic, partitions=2)
    publish(queue, topic, 10)
    run(topic)
    shutil.copytree(run.lake.own / "checkpoint", tmp_path / "older")
    publish(queue, topic, 10)
    run(topic)
    shutil.rmtree(run.lake.own / "checkpoint")
    shutil.move(tmp_path / "older", run.lake.own / "checkpoint")
    publish(queue, topic, 7)
    assert run(topic) == 7
    assert run.ids() == log_ids(queue, topic)


def test_a_topic_that_was_left_out_for_a_while(queue: ortoo.SyncQueue, topic: str, run: Run) -> None:
    """Spark's checkpoint forgets it, and begins at its beginning."""
    other = f"{topic}-other"
    for name in (topic, other):
        queue.create_topic(name, partitions=1)
        publish(queue, name, 10)
    run(topic, other)
    publish(queue, topic, 1)
    publish(queue, other, 1)
    run(topic)
    publish(queue, other, 1)
    publish(queue, topic, 1)
    assert run(topic, other) == 3
    assert run.ids() == log_ids(queue, topic, other)


def test_a_lake_may_be_moved(queue: ortoo.SyncQueue, topic: str, run: Run, tmp_path: Path) -> None:
    queue.create_topic(topic, partitions=1)
    publish(queue, topic, 10)
    run(topic)
    shutil.move(run.lake.root, tmp_path / "elsewhere")
    run.lake = Lake(tmp_path / "elsewhere")
    publish(queue, topic, 5)
    assert run(topic) == 5
    assert run.ids() == log_ids(queue, topic)


def test_a_lost_manifest_is_an_error(queue: ortoo.SyncQueue, topic: str, run: Run) -> None:
    queue.create_topic(topic, partitions=1)
    publish(queue, topic, 3)
    run(topic)
    (run.lake.own / "manifest.json").unlink()
    with pytest.raises(CorruptionError, match="holds an archive, but no"):
        run(topic)


def test_retention_waits_until_the_queue_was_told(
    queue: ortoo.SyncQueue, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.create_topic(topic, partitions=1, retention_waits_for_archive=True)
    publish(queue, topic, 10)

    def die(*_: object) -> None:
        raise RuntimeError("died before it could tell")

    with monkeypatch.context() as patch:
        patch.setattr(Marks, "tell", die)
        with pytest.raises(PySparkException):
            run(topic)
    assert [part.archived for part in queue.topic(topic).partitions] == [0]
    assert run(topic) == 0
    assert [part.archived for part in queue.topic(topic).partitions] == [10]
    publish(queue, topic, 4)
    run(topic)
    assert [part.archived for part in queue.topic(topic).partitions] == [14]
    assert run.ids() == log_ids(queue, topic)


def test_what_was_removed_before_is_told_or_an_error(queue: ortoo.SyncQueue, topic: str, run: Run) -> None:
    queue.create_topic(topic, partitions=1)
    publish(queue, topic, 5)
    run(topic)
    publish(queue, topic, 5)
    queue.purge(topic)
    publish(queue, topic, 5)
    with pytest.raises(PySparkException) as caught:
        run(topic, fail_on_data_loss=True)
    assert "messages 5 to 9 of partition 0" in to_reason(caught.value)
    assert run(topic) == 5
    assert len(run.ids()) == 10


def test_a_directory_is_archived_without_a_server(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, "", tmp_path / "lake")
    data = {"address": Address(), "path": str(tmp_path / "data"), "pattern": "orders"}
    with ortoo.open_sync(tmp_path / "data") as queue:
        queue.create_topic("orders", partitions=2, retention_waits_for_archive=True)
        publish(queue, "orders", 100)
        expected = log_ids(queue, "orders")
    assert run(**data) == 100
    shutil.rmtree(run.lake.own / "checkpoint")
    assert run(**data) == 0
    assert run.ids() == expected
    with ortoo.open_sync(tmp_path / "data") as queue:
        assert {part.archived for part in queue.topic("orders").partitions} == {0}


def test_small_batches_are_merged_and_trouble_with_that_is_told_once(
    queue: ortoo.SyncQueue, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.create_topic(topic, partitions=1)
    publish(queue, topic, 100)
    run(topic, per_batch=5)
    assert len(run.lake.files(MESSAGES)) < 10
    assert run.ids() == log_ids(queue, topic)
    assert run.told == []

    def cannot(*_: object) -> None:
        raise UnavailableError("cannot exchange")

    monkeypatch.setattr("ortoo.pipeline.lake.compaction.exchange", cannot)
    publish(queue, topic, 60)
    run(topic, per_batch=5)
    assert run.told == ["small files are not merged any more: cannot exchange"]
    assert run.ids() == log_ids(queue, topic)


def test_one_job_at_a_time_and_only_topics_that_exist(queue: ortoo.SyncQueue, topic: str, run: Run) -> None:
    queue.create_topic(topic, partitions=1)
    with run.lake.alone("compacting"), pytest.raises(UnavailableError, match="another job is at work on the lake"):
        run(topic)
    with pytest.raises(NotFoundError, match=f"there is no topic '{topic}s'; did you mean '{topic}'"):
        run(f"{topic}s")
