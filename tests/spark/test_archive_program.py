"""Does `ortoo pipeline archive` survive being killed at any moment, and end when it is asked to?"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest

import ortoo
from ortoo.pipeline.lake.archive import archive
from ortoo.pipeline.lake.layout import MESSAGES, Lake
from ortoo.pipeline.lake.replay import replay

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Program:
    """The command, in a group of processes with all that it starts."""

    def __init__(self, lake: Path, url: str, topic: str, *more: str) -> None:
        arguments = ["--to", str(lake), "--topic", topic, "--url", url, "--every", "100ms", "--per-batch", "300"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ortoo", "pipeline", "archive", *arguments, "--master", "local[2]", *more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def wait_for_batches(self, count: int) -> None:
        while sum(" of 1 topic in " in line for line in self.lines) < count:
            assert self.process.poll() is None, "".join(self.lines)
            time.sleep(0.05)

    def end(self, number: int) -> int:
        """Of Ctrl-C in a terminal, everyone in the group hears; of a supervisor's signal the program alone."""
        (os.kill if number == signal.SIGTERM else os.killpg)(self.process.pid, number)
        code = self.process.wait(300)
        self._reader.join()
        return code

    def close(self) -> None:
        """Nothing of it is left behind, however the test ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(300)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def is_gone(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False


@contextmanager
def publishing(queue: ortoo.SyncQueue, topic: str) -> Iterator[None]:
    stop = threading.Event()

    def publish() -> None:
        chance = random.Random(7)
        while not stop.wait(0.05):
            queue.publish_many(
                topic, [ortoo.Message(chance.randbytes(100), key=str(chance.random())) for _ in range(50)]
            )

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def counting(lake: Lake) -> Iterator[list[object]]:
    """A reader of plain files that looks all the time; what is left in its list should not have been seen."""
    stop = threading.Event()
    wrong: list[object] = []

    def look() -> None:
        known = 0
        while not stop.wait(0.02):
            with suppress(FileNotFoundError):
                files = lake.files(MESSAGES)
                found = [one for path in files for one in pq.ParquetFile(path).read(["id"])["id"].to_pylist()]
                if len(found) != len(set(found)) or len(found) < known:
                    wrong.append((known, len(found), len(set(found))))
                known = len(found)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield wrong
    finally:
        stop.set()
        thread.join()


def kill_often(spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, home: Path, kills: int) -> None:
    lake = Lake(home / "lake")
    chance = random.Random(kills)
    queue.create_topic(topic, partitions=3)
    with publishing(queue, topic), counting(lake) as wrong:
        for _ in range(kills):
            with closing(Program(lake.root, server.url, topic)) as program:
                program.wait_for_batches(chance.randrange(1, 4))
                time.sleep(chance.random())
    queue.ack(queue.lease(topic, max_messages=100))
    archive(spark, lake.root, url=server.url, topics=(topic,))
    assert wrong == []
    published = {message.id: message.value for message in queue.read(topic)}
    table = lake.table(MESSAGES)
    assert spark.read.parquet(str(table)).count() == len(published)
    found = duckdb.execute(f"select id, value from read_parquet('{table}/**/*.parquet')").fetchall()
    assert len(found) == len(published)
    assert dict(found) == published
    events = duckdb.execute(
        f"select id, event, position, partition from read_parquet('{lake.table('history')}/**/*.parquet')"
    )
    told = events.fetchall()
    assert len(told) == len(set(told)) == 200
    queue.purge(topic)
    replayed = list(replay(queue, topic, lake.root))
    assert {message.id: message.value for message in replayed} == published
    assert len(replayed) == len(published)


@pytest.mark.soak  # pipeline/test_directory.py kills what writes to a lake at each of its steps
@pytest.mark.timeout(1800)
def test_killed_many_times_it_goes_on(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    kill_often(spark, server, queue, topic, tmp_path, kills=25)


@pytest.mark.soak  # test_flow_program.py has the quick one
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_ends_when_it_is_asked_to(
    server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path, number: int, code: int
) -> None:
    queue.create_topic(topic, partitions=1)
    queue.publish(topic, b"x")
    with closing(Program(tmp_path / "lake", server.url, topic)) as program:
        program.wait_for_batches(1)
        began = time.monotonic()
        assert program.end(number) == code, "".join(program.lines)
        assert not any("py4j" in line for line in program.lines), "".join(program.lines)
        while not program.is_gone() and time.monotonic() < began + 300:
            time.sleep(0.1)
        assert program.is_gone()
