"""A standalone Spark cluster on this machine: a master and workers from the pip package, each in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ortoo.pipeline.spark.java import java_home

from .home import java_options, spark_home

_SECONDS = 300


class Daemon:
    """One of the cluster's processes, with all that it starts in turn: they live and die together, as on a machine."""

    def __init__(self, log: Path, main: str, *arguments: str) -> None:
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_DAEMON_JAVA_OPTS": java_options(),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        environment.pop("SPARK_SUBMIT_OPTS", None)
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [spark_home() / "bin" / "spark-class", f"org.apache.spark.deploy.{main}", *arguments],
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def wait_for(self, pattern: str) -> str:
        """What the first group of the pattern found in the log."""
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            if found := re.search(pattern, self._log.read_text()):
                return found[1]
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in {self._log.read_text()}")

    def kill(self) -> None:
        """At once, and its executors with it, as when a machine loses its power."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(300)


class Cluster:
    def __init__(self, home: Path, workers: int) -> None:
        at = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.daemons = [Daemon(home / "master.log", "master.Master", *at)]
        try:
            self.master = self.daemons[0].wait_for(r"Starting Spark master at (spark://\S+)")
            self.workers = [
                Daemon(
                    *(home / f"worker-{number}.log", "worker.Worker", self.master, *at),
                    *("--cores", "1", "--memory", "1g", "--work-dir", str(home / f"work-{number}")),
                )
                for number in range(workers)
            ]
            self.daemons += self.workers
            for worker in self.workers:
                worker.wait_for(r"(Successfully registered) with master")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.kill()


@contextmanager
def running(home: Path, workers: int) -> Iterator[Cluster]:
    cluster = Cluster(home, workers)
    try:
        yield cluster
    finally:
        cluster.stop()
