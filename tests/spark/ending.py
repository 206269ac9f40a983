"""Java ends with the session, and not with Python: what it has to do at its end is done then."""

from __future__ import annotations

from pyspark import SparkContext


def end_java() -> None:
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    java = gateway.proc
    java.stdin.close()
    java.wait(300)
    SparkContext._gateway = SparkContext._jvm = None
