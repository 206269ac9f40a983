"""The same jobs on a cluster: a master and two workers, each a process of its own, as on machines of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import ortoo
from ortoo.model.errors import ConfigError
from ortoo.model.message import Message
from ortoo.pipeline.spark.java import java_home

if TYPE_CHECKING:
    from .cluster import Cluster
    from .serving import Server

pytestmark = pytest.mark.timeout(1800)  # half a dozen JVMs start, on however few cores

JOB = Path(__file__).with_name("cluster_job.py")
COUNT = 10_000
ATTEMPTS = """
import os, sys
from pathlib import Path
import pyspark
from ortoo.model.errors import OrtooError
from ortoo.pipeline import session
from ortoo.pipeline.spark import check
from ortoo.pipeline.spark.session import is_running

zips = Path(pyspark.__file__).with_name("python").glob("lib/*.zip")  # Spark brings its own; the home for tests has none
conf = {
    "spark.driver.host": "127.0.0.1",
    "spark.cores.max": "1",  # one executor tells it
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(map(str, zips)),
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
}

def attempt(python, memory):
    os.environ["PYSPARK_PYTHON"] = python
    try:
        session(master=sys.argv[1], conf=conf | {"spark.executor.memory": memory})
    except OrtooError as error:
        print(is_running(), error.code, error)

attempt(sys.argv[2], "512m")
attempt("/nowhere/python", "512m")
check.WAIT_SECONDS = 2
attempt(sys.executable, "4g")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        java_home()
    except ConfigError as error:
        pytest.skip(str(error))
    from .cluster import running

    with running(tmp_path_factory.mktemp("cluster"), workers=2) as started:
        yield started


def wait_until(happened: Callable[[], bool], driver: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 300
    while not happened():
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def content(queue: ortoo.SyncQueue, topic: str) -> list[tuple[str | None, bytes, dict[str, str]]]:
    return sorted((message.key or "", message.value, dict(message.headers)) for message in queue.read(topic))


def test_executors_that_cannot_run_a_job_fail_it_at_once(cluster: Cluster, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    ran = subprocess.run(
        [sys.executable, "-c", ATTEMPTS, cluster.master, bare],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    lacking, absent, large = ran.stdout.splitlines()
    advice = f"pip install 'ortoo[spark]=={ortoo.__version__}' on every worker"
    assert lacking.startswith("False config executor ")
    assert f"has no pyarrow, pandas, ortoo (its Python is {bare}): {advice}" in lacking
    assert absent.startswith(f"False config the executors of {cluster.master} cannot run this program")
    assert 'Cannot run program "/nowhere/python"' in absent
    assert advice in absent
    assert large.startswith(f"False unavailable no executor of {cluster.master} has answered for 2 seconds")


def test_jobs_are_exact_and_a_worker_that_dies_changes_nothing(
    cluster: Cluster, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    targets = [f"{topic}-copied", f"{topic}-survived"]
    for name in (topic, *targets):
        queue.create_topic(name, partitions=4)
    queue.publish_many(
        topic,
        [Message(b"value %d" % at, key=f"key-{at}", headers={"number": str(at)}) for at in range(COUNT)],
    )
    command = [sys.executable, str(JOB), cluster.master, server.url, topic, str(tmp_path), *targets]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as driver:
        try:
            for target in targets:
                for number in range(2):
                    wait_until((tmp_path / f"{target}.begun.work-{number}").exists, driver)
                if target == targets[1]:
                    cluster.workers[0].kill()
                (tmp_path / f"{target}.open").touch()
                wait_until((tmp_path / f"{target}.done").exists, driver)
            assert driver.wait(300) == 0, driver.communicate()
        finally:
            driver.kill()
    published = content(queue, topic)
    assert len(published) == COUNT
    assert content(queue, targets[0]) == published
    assert content(queue, targets[1]) == published
    archived = pq.ParquetDataset(tmp_path / "lake" / "messages").read(["value"])["value"].to_pylist()
    assert sorted(archived) == sorted(value for _, value, _ in published)
