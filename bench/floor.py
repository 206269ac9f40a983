"""The floor: what any queue has to pay at least, encoding a batch of values and a checksum over the bytes."""

from __future__ import annotations

import gc
from time import perf_counter
from zlib import crc32

import msgspec

from .figures import Figure
from .loads import values

_MESSAGES = 50_000  # of one measurement; fewer in small batches, which take longer
_REPETITIONS = 5


class Floors:
    """The best rate seen for each batch size. Measured again beside every scenario, so that noise does not count."""

    def __init__(self) -> None:
        self.best: dict[int, float] = {}

    def measure(self, size: int) -> None:
        gc.collect()
        found = max(_rate(size) for _ in range(_REPETITIONS))
        self.best[size] = max(found, self.best.get(size, 0.0))

    def figures(self) -> list[Figure]:
        return [Figure(f"floor in {size}s", "encode+crc", rate) for size, rate in sorted(self.best.items())]


def _rate(size: int) -> float:
    """Messages a second through bare msgpack and CRC-32, in batches of `size`."""
    encode = msgspec.msgpack.Encoder().encode
    count = min(_MESSAGES, 20_000 * size) // size * size
    batches = [values(start, size) for start in range(0, count, size)]
    began = perf_counter()
    for batch in batches:
        crc32(encode(batch))
    return count / (perf_counter() - began)
