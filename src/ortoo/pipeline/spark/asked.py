"""Ctrl-C and SIGTERM, noticed between calls to Java: one that is cut off would confuse the next."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
