"""Do real jobs tell the server how they do, also when they fail?"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import ortoo
from ortoo.model.pipelines import PipelineInfo
from ortoo.pipeline import analyze
from ortoo.pipeline.connection import Address
from ortoo.pipeline.flow.run import FailedError, run_file
from ortoo.pipeline.lake.archive import archive

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def job(queue: ortoo.SyncQueue, name: str) -> PipelineInfo:
    [found] = [info for info in queue.pipelines().pipelines if info.job == name]
    return found


def test_an_archive_and_its_analysis_report_their_runs(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    queue.publish_many(topic, [b"x"] * 25)
    lake = tmp_path / f"lake-{topic}"
    archive(spark, lake, url=server.url, topics=[topic], history=False)
    told = job(queue, f"archive:{lake.name}")
    assert (told.kind, told.state, told.is_stream, told.error) == ("archive", "done", False, None)
    assert (told.batches, told.rows_in, told.rows_out, told.lag) == (1, 25, 25, 0)
    assert (told.reads, told.writes) == (topic, str(lake))
    assert told.last_batch is not None
    assert (told.last_batch.stream, told.last_batch.number, told.last_batch.rows_in) == ("messages", 0, 25)
    assert told.ended is not None
    assert told.began <= told.last_batch.at <= told.ended

    analyze(spark, lake, report_to=Address(server.url))
    told = job(queue, f"analyze:{lake.name}")
    assert (told.kind, told.state, told.batches) == ("analyze", "done", 1)


def test_a_flow_reports_its_batches_and_why_it_failed(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    for name in (topic, f"{topic}.out"):
        queue.create_topic(name, partitions=2)
    queue.publish_many(topic, [b"1", b"2", b"3"])
    file = tmp_path / "flow.yaml"
    sql = "SELECT value FROM all"

    def write(sql: str) -> None:
        file.write_text(
            dedent(f"""\
            name: enrich {topic}
            queue: {{url: '{server.url}'}}
            checkpoint: c
            sources: {{all: {{topic: {topic}}}}}
            steps: [{{name: seen, sql: "{sql}"}}]
            sinks: {{out: {{from: seen, topic: {topic}.out}}}}
            """)
        )

    write(sql)
    run_file(file, once=True, session=spark)
    told = job(queue, f"enrich {topic}")
    assert (told.kind, told.state, told.rows_in, told.rows_out, told.lag) == ("flow", "done", 3, 3, 0)
    assert told.last_batch is not None
    assert told.last_batch.stream == "out"
    assert topic in (told.reads or "")

    queue.publish(topic, b"4")
    write("SELECT cast(assert_true(false, 'no such luck') AS binary) AS value FROM all")
    with pytest.raises(FailedError):
        run_file(file, once=True, session=spark)
    failed = job(queue, f"enrich {topic}")
    assert (failed.state, [past.state for past in failed.recent]) == ("failed", ["done"])
    assert "no such luck" in (failed.error or "")
