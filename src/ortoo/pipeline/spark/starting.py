"""Streams begin one after the other."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 60.0


def start_query(writer: DataStreamWriter) -> StreamingQuery:
    """Starts it, and returns when its sources are there, or it has failed.

    All streams that read a Python source share a map of variables, and each changes it when it begins. In Spark 4 nothing keeps
    two of them from doing that at the same time: the map may break then, and with it every task (`OptionalDataException`).
    """
    query = writer.start()
    deadline = monotonic() + _PATIENCE_SECONDS
    while query.isActive and query.status["message"].startswith("Initializing") and monotonic() < deadline:
        sleep(_LOOK_SECONDS)
    return query
