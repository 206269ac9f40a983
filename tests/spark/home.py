"""How Java and Spark are set up for tests, in every process that starts them: to begin quickly.

Java uses its cheap compiler and collector, and has Spark's classes ready in an archive that it can map into memory: that halves
the time until a session is there. The archive is made when it is first needed, by a session that does a bit of everything, and
kept beside the packages. Python's workers import pyspark from its compiled files rather than out of a zip archive, for Spark's
home has none.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from ortoo.pipeline.spark.java import java_home

QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # For some hundred rows it takes longer to compile a query to Java than to run it uncompiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Else every step of a query is told to Java three times more, for the line in errors.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ROOT = Path(sys.prefix) / "spark-for-tests"
_TESTS = Path(__file__).parents[1]


def submit_arguments() -> str:
    """For PYSPARK_SUBMIT_ARGS. Not in a file of defaults: its folder would be among Java's classes, and forbid an archive."""
    return " ".join([*(f"--conf {key}={value}" for key, value in QUICK.items()), "pyspark-shell"])


def java_options() -> str:
    """For whatever runs on Spark's jars."""
    archive = _archive()
    return f"{LIGHT} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off" if archive else LIGHT


def spark_home() -> Path:
    with _alone():
        for name in ("bin", "jars", "sbin"):
            link, target = _ROOT / name, Path(pyspark.__file__).parent / name
            if not link.is_symlink() or link.readlink() != target:
                link.unlink(missing_ok=True)
                link.symlink_to(target)
    return _ROOT


def _archive() -> Path | None:
    """None where Java cannot make one: it has no archive of its own classes."""
    home = spark_home()
    java = java_home() / "bin" / "java"
    version = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    training = Path(__file__).with_name("training.py").read_bytes()
    made_with = hashlib.sha256(b" ".join((version, pyspark.__version__.encode(), training)))
    archive, failed = (home / f"{made_with.hexdigest()[:12]}.{kind}" for kind in ("jsa", "failed"))
    with _alone():
        if not archive.exists() and not failed.exists():
            _train(home, archive)
            if not archive.exists():
                failed.touch()
    return archive if archive.exists() else None


def _train(home: Path, archive: Path) -> None:
    unfinished = archive.with_suffix(".unfinished")
    options = f"{LIGHT} -XX:ArchiveClassesAtExit={unfinished} -Xlog:cds=off -Xlog:cds+dynamic=off"
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_SUBMIT_OPTS": options}
    program = [sys.executable, "-m", "tests.spark.training"]
    subprocess.run(program, cwd=_TESTS.parent, env=env, capture_output=True, timeout=600, check=False)
    if unfinished.exists():
        unfinished.replace(archive)


@contextmanager
def _alone() -> Iterator[None]:
    """Of all processes that run tests."""
    _ROOT.mkdir(exist_ok=True)
    with (_ROOT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
