"""The session that the product makes: what it sets, what others may set, and when it is shared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ortoo.cli.pipeline.options import spark_session
from ortoo.model.errors import ConfigError
from ortoo.pipeline.spark.session import is_running, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOLD = """
import json
from ortoo.pipeline import session

spark = session("mine")
keys = ("spark.master", "spark.app.name", "spark.ui.enabled", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions")
print(json.dumps({key: spark.conf.get(key) for key in keys}))
"""


def told(*command: str | Path, **environment: str) -> dict[str, Any]:
    ran = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.app.name", "tests"),
        ("spark.master", "local[2]"),
        ("spark.python.unix.domain.socket.enabled", "true"),  # no port that others could connect to
        ("spark.python.worker.reuse", "true"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.shuffle.partitions", "1"),  # as the tests' own arguments say
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        (
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        ),
    ],
)
def test_the_settings(spark: SparkSession, key: str, value: str) -> None:
    assert spark.conf.get(key) == value


def test_workers_run_this_python(spark: SparkSession) -> None:
    def which(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(1).mapInArrow(which, "python string").collect()
    assert [row.python for row in rows] == [sys.executable]


def test_the_format_is_known(spark: SparkSession, server: Any, queue: Any, topic: str) -> None:
    queue.create_topic(topic)
    queue.publish(topic, b"tea")
    rows = spark.read.format("ortoo").option("url", server.url).option("subscribe", topic).load().collect()
    assert [bytes(row.value) for row in rows] == [b"tea"]


def test_a_session_that_runs_is_shared(spark: SparkSession) -> None:
    assert is_running()
    assert open_session().sparkContext is spark.sparkContext
    assert open_session(master="local[2]").sparkContext is spark.sparkContext


def test_it_takes_what_can_still_be_changed(spark: SparkSession) -> None:
    key = "spark.sql.files.maxPartitionBytes"
    before = str(spark.conf.get(key))
    try:
        assert open_session(conf={key: "1000000"}).conf.get(key) == "1000000"
    finally:
        spark.conf.set(key, before)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"master": "local[3]"}, r"with spark\.master=local\[2\]; stop it first to have spark\.master=local\[3\]"),
        ({"conf": {"spark.driver.memory": "9g"}}, r"with spark\.driver\.memory=None; stop it first"),
    ],
)
def test_and_refuses_what_cannot(spark: SparkSession, asked: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        open_session(**asked)


def test_a_command_leaves_a_session_that_was_there(spark: SparkSession) -> None:
    with spark_session("archive") as shared:
        assert shared.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3


def test_what_spark_submit_and_the_defaults_file_say_wins(tmp_path: Path) -> None:
    import pyspark

    (tmp_path / "script.py").write_text(TOLD)
    (tmp_path / "spark-defaults.conf").write_text("spark.master local[3]\nspark.sql.shuffle.partitions 7\n")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    given = ("--master", "local[1]", "--conf", "spark.sql.session.timeZone=Asia/Tokyo")
    settings = {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(tmp_path)}
    assert told(submit, *given, tmp_path / "script.py", **settings) == {
        "spark.master": "local[1]",
        "spark.app.name": "script.py",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.shuffle.partitions": "7",
    }


@pytest.mark.soak  # the quick one is above
def test_what_the_defaults_file_says_wins(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master local[1]\nspark.sql.shuffle.partitions 7\n")
    answer = told(sys.executable, "-c", TOLD, PYSPARK_SUBMIT_ARGS="pyspark-shell", SPARK_CONF_DIR=str(tmp_path))
    assert answer == {
        "spark.master": "local[1]",
        "spark.app.name": "mine",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "7",
    }
