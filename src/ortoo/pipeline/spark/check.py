"""Whether a cluster's executors have what the pipeline needs, asked before any work is given to them.

Without Ortoo there, Spark could not even load what it is to run, and would say so in a hundred lines of Java. What asks must
therefore not be of Ortoo itself: a function inside another one, which imports all it needs, is sent as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Event, Timer
from typing import TYPE_CHECKING

from ortoo.model.errors import ConfigError, OrtooError, UnavailableError
from ortoo.model.version import __version__

from .needed import PACKAGES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_TAG = "ortoo-executors"
WAIT_SECONDS = 120.0
_UNFIT = ("PYTHON_VERSION_MISMATCH", "Cannot run program", "ModuleNotFoundError", "No module named")


def check_executors(session: SparkSession) -> None:
    """One small job over all the executors that have joined. On one machine there is nothing to ask."""
    context = session.sparkContext
    master = str(context.master)
    if master.startswith("local"):
        return
    for host, python, lacking in sorted(set(_ask(context, master))):
        if lacking:
            raise ConfigError(f"executor {host} has {lacking} (its Python is {python}): {_advice()}")


def _ask(context: SparkContext, master: str) -> list[tuple[str, str, str]]:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    given_up = Event()

    def give_up() -> None:
        given_up.set()
        context.cancelJobsWithTag(_TAG)

    tasks = 2 * max(context.defaultParallelism, 2)
    timer = Timer(WAIT_SECONDS, give_up)
    context.addJobTag(_TAG)
    timer.start()
    try:
        return context.parallelize(range(tasks), tasks).mapPartitions(_question()).collect()
    except Py4JJavaError as error:
        if given_up.is_set():
            raise _no_answer(master) from None
        raise _failure(master, str(error.java_exception.getMessage())) from None
    finally:
        timer.cancel()
        timer.join()  # nothing may be cancelled once the session has real work
        context.removeJobTag(_TAG)


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


def _no_answer(master: str) -> OrtooError:
    return UnavailableError(
        f"no executor of {master} has answered for {WAIT_SECONDS:g} seconds: are its workers running, and do they have the "
        "cores and the memory (spark.executor.memory) to spare?"
    )


def _failure(master: str, message: str) -> OrtooError:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    for line in lines:
        if any(sign in line for sign in _UNFIT):
            return ConfigError(f"the executors of {master} cannot run this program: {line}; {_advice()}")
    return UnavailableError(f"the executors of {master} do not work: {lines[0] if lines else 'they do not say why'}")


def _advice() -> str:
    return (
        f"pip install 'ortoo[spark]=={__version__}' on every worker, into the Python that PYSPARK_PYTHON names there, of the "
        "same minor version as this one"
    )
