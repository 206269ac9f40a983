"""The source in sessions that this package did not make: Spark finds it by itself, and nothing is loaded for nothing."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import ortoo
from ortoo.pipeline.spark.java import java_home

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEBIBYTE = 1024 * 1024

PLAIN = """
import json, sys
from pyspark.sql import SparkSession

url, path, topic = sys.argv[1:]
session = SparkSession.builder.{master}.config("spark.ui.enabled", "false").getOrCreate()
served = session.read.format("ortoo").options(url=url, subscribe=topic)
told = {{"count": served.load().where("offset between 40 and 44").count()}}
told["files"] = session.read.format("ortoo").options(path=path, subscribe=topic).load().count()
print(json.dumps(told))
session.stop()
"""


@pytest.fixture(scope="module")
def large(queue: ortoo.SyncQueue) -> str:
    queue.create_topic("source-alone", partitions=1)
    for _ in range(5):
        queue.publish_many("source-alone", [bytes(MEBIBYTE)] * 9)
    return "source-alone"


def told(program: str, *arguments: str) -> tuple[dict[str, Any], str]:
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer, ran.stderr


@pytest.mark.timeout(1800)
def test_spark_finds_the_source_by_itself(server: Server, queue: ortoo.SyncQueue, large: str) -> None:
    queue.publish(large, b"in no checkpoint yet")
    found, errors = told(PLAIN.format(master='master("local[1]")'), server.url, str(server.data), large)
    assert found["count"] == 5
    assert 0 < found["files"] <= 45
    assert f"the files of topic '{large}' end {46 - found['files']} messages before the queue does" in errors


@pytest.mark.timeout(1800)
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs grpcio: pyspark[connect]")
def test_spark_connect_finds_it_too(server: Server, large: str) -> None:
    found, _ = told(PLAIN.format(master='remote("local[1]")'), server.url, str(server.data), large)
    assert found["count"] == 5


def test_to_be_found_costs_nothing() -> None:
    """Spark imports it in every session, whoever uses it."""
    program = "import sys, pyspark.sql.datasource; before = set(sys.modules); import pyspark_ortoo\n"
    program += "print(*(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert ran.stdout.split() == ["pyspark_ortoo"]


def test_tasks_run_on_this_very_python(spark: SparkSession) -> None:
    """The one on the PATH, which Spark would take by itself, may have nothing installed."""
    (python,) = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert python == sys.executable
