"""What `ortoo bench` found, as figures: rates, ratios, percentiles."""

from __future__ import annotations

import os
from math import ceil
from time import perf_counter
from zlib import crc32

import msgspec

from .load import Outcome

_FLOOR_BATCHES = 200
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}


class Figure(msgspec.Struct, frozen=True):
    mode: str
    messages: int
    seconds: float
    per_second: float
    bytes_per_second: float
    times_floor: float  # how many times as long as bare encoding
    confirm_ms: dict[str, float] | None = None  # from publish to its answer; of a batch
    delivery_ms: dict[str, float] | None = None  # from publish to a consumer's hands


def to_figure(mode: str, outcome: Outcome, size: int, floor: float) -> Figure:
    seconds = max(outcome.ended - outcome.began, 1e-6)
    rate = outcome.messages / seconds
    return Figure(
        mode,
        outcome.messages,
        seconds,
        rate,
        rate * size,
        floor / rate if rate else 0.0,
        percentiles(outcome.confirm_ms),
        percentiles(outcome.delivery_ms),
    )


def percentiles(latencies: list[float]) -> dict[str, float] | None:
    if not latencies:
        return None
    latencies = sorted(latencies)
    last = len(latencies) - 1
    return {
        name: latencies[min(max(ceil(share * len(latencies)) - 1, 0), last)] for name, share in _PERCENTILES.items()
    }


def measure_floor(size: int, batch: int) -> float:
    """Messages a second through bare msgpack and a checksum: what any queue has to pay at least."""
    values = [os.urandom(size)] * batch
    encode = msgspec.msgpack.Encoder().encode
    rounds = max(_FLOOR_BATCHES // batch, 3)
    best = 0.0
    for _ in range(3):
        began = perf_counter()
        for _ in range(rounds):
            crc32(encode(values))
        best = max(best, rounds * batch / (perf_counter() - began))
    return best
