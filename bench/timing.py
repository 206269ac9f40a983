"""Repetitions: other programs only ever make a measurement slower, so the best one says most about the code."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any

Rates = dict[str, float]


def best_of(repetitions: int, measure: Callable[[], Coroutine[Any, Any, Rates]]) -> Rates:
    """The highest of each rate."""
    best: Rates = {}
    for _ in range(repetitions):
        gc.collect()
        for what, rate in asyncio.run(measure()).items():
            best[what] = max(rate, best.get(what, 0.0))
    return best


class Stopwatch:
    """Adds up the seconds spent in its `with` blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += perf_counter() - self._began
