"""One publish at a time, each confirmed before the next: how long each takes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from statistics import quantiles
from time import perf_counter

from bench.loads import values

from .contender import Publish

_WARM_UP = 50  # publishes


async def times_ms(publishing: AbstractAsyncContextManager[Publish], seconds: float) -> list[float]:
    value, times = values(0, 1), list[float]()
    async with publishing as publish:
        until = perf_counter() + seconds
        while (began := perf_counter()) < until or len(times) < 2 * _WARM_UP:
            await publish(0, value)
            times.append((perf_counter() - began) * 1000)
    return times[_WARM_UP:]


def to_p50_p99(times: list[float]) -> tuple[float, float]:
    cuts = quantiles(times, n=100)
    return cuts[49], cuts[98]
