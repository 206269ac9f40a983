"""Java ends with the session, and not with Python: what it has to do at its end is done then."""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext


def end_java() -> None:
    """Java first: to close a connection that it still holds, and that a thread here reads from, may take for ever."""
    gateway = SparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    java.stdin.close()
    java.wait(300)
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
