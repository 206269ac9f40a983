"""Ctrl-C and SIGTERM, noticed between calls to Java: one that is cut off would confuse the next. And a quiet end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_FINISH_SECONDS = 15.0
_LOOK_SECONDS = 0.05


class Asked:
    """Whether somebody asked to end."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._signal: int | None = None

    def end(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        self.event.set()

    def obey(self) -> None:
        if self._signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self._signal is not None:
            raise SystemExit(128 + self._signal)


def let_finish(queries: Iterable[StreamingQuery], seconds: float = _FINISH_SECONDS) -> None:
    """Waits until each has done its batch: a query that is stopped within one fills the screen with Java's complaints."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    until = monotonic() + seconds
    try:
        for query in queries:
            while query.isActive and query.status["isTriggerActive"] and monotonic() < until:
                sleep(_LOOK_SECONDS)
    except (Py4JError, OSError):
        pass  # the signal has ended Java, too


@contextmanager
def asked_to_end() -> Iterator[Asked]:
    """Only the main thread hears of signals."""
    asked = Asked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, asked.end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
