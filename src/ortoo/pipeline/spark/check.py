"""Whether a cluster's executors have what the pipeline needs, asked before any work is given to them.

Without Ortoo there, Spark could not even load what it is to run, and would say so in a hundred lines of Java. What asks must
therefore not be of Ortoo itself: a function inside another one, which imports all it needs, is sent as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Timer
from typing import TYPE_CHECKING

from ortoo import __version__
from ortoo.model.errors import ConfigError, OrtooError, UnavailableError

from .needed import PACKAGES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_GROUP = "ortoo: what the executors have"
_WAIT_SECONDS = 120.0


def check_executors(session: SparkSession, wait_seconds: float = _WAIT_SECONDS) -> None:
    """One small job over all the executors that have joined. On one machine there is nothing to ask."""
    context = session.sparkContext
    master = str(context.master)
    if master.startswith("local"):
        return
    for host, python, lacking in sorted(set(_ask(context, master, wait_seconds))):
        if lacking:
            raise ConfigError(f"executor {host} has {lacking} (its Python is {python}): {_advice()}")


def _ask(context: SparkContext, master: str, wait_seconds: float) -> list[tuple[str, str, str]]:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    tasks = 2 * max(context.defaultParallelism, 2)
    given_up = Timer(wait_seconds, context.cancelJobGroup, [_GROUP])
    context.setJobGroup(_GROUP, "looks for Ortoo on the executors", interruptOnCancel=True)
    given_up.start()
    try:
        return context.parallelize(range(tasks), tasks).mapPartitions(_question()).collect()
    except Py4JJavaError as error:
        raise _to_error(str(error.java_exception.getMessage()), master, wait_seconds) from None
    finally:
        given_up.cancel()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _question() -> Callable[[Iterable[int]], Iterator[tuple[str, str, str]]]:
    wanted, packages = __version__, (*PACKAGES, "ortoo")

    def ask(_: Iterable[int]) -> Iterator[tuple[str, str, str]]:
        import socket
        import sys
        from importlib import import_module

        missing = []
        for package in packages:
            try:
                found = import_module(package)
            except ImportError:
                missing.append(package)
        lacking = f"no {', '.join(missing)}" if missing else ""
        if not missing and found.__version__ != wanted:
            lacking = f"ortoo {found.__version__}, and this program {wanted}"
        yield socket.gethostname(), sys.executable, lacking

    return ask


def _to_error(message: str, master: str, wait_seconds: float) -> OrtooError:
    if "cancelled" in message:
        return UnavailableError(
            f"no executor of {master} has answered for {wait_seconds:g} seconds: are its workers running, and do they have "
            "cores and memory to spare?"
        )
    for line in message.splitlines():
        if "PYTHON_VERSION_MISMATCH" in line or "Cannot run program" in line or "ModuleNotFoundError" in line:
            return ConfigError(f"the executors of {master} cannot run this program: {line.strip()}; {_advice()}")
    return UnavailableError(f"the executors of {master} do not work: {message.strip().splitlines()[0]}")


def _advice() -> str:
    return (
        f"pip install 'ortoo[spark]=={__version__}' on every worker, into the Python that PYSPARK_PYTHON names there, of the "
        "same minor version as this one"
    )
