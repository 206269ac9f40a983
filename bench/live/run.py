"""Runs the same work on a contender: batches from a producer to a consumer, then one publish at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import uvloop

from bench.processes import Part, processor_seconds
from bench.settings import Settings

from .contender import Contender, Server
from .part import Report
from .single import times_ms, to_p50_p99

SIZES = (100, 1000)
_TRIAL_BATCHES = 16
_ROUNDS_MAX = 5


class Live(msgspec.Struct, frozen=True):
    rate: float  # messages a second
    cost: float  # seconds of a processor a message: server, producer and consumer together


class Found(msgspec.Struct, frozen=True):
    live: dict[int, Live]  # by the size of the batches
    p50_ms: float  # of one publish at a time
    p99_ms: float


def measure(contender: Contender, settings: Settings) -> Found:
    with TemporaryDirectory(prefix="ortoo-bench-") as folder, contender.serve(Path(folder)) as server:
        asyncio.run(contender.prepare(server.address))
        arguments = (contender.name, server.address)
        with (
            Part("bench.live.part", "produce", *arguments) as producer,
            Part("bench.live.part", "consume", *arguments) as consumer,
        ):
            work = _Work(server, producer, consumer)
            live = {size: work.measure(size, settings.live_seconds) for size in SIZES}
        times = uvloop.run(times_ms(contender.publishing(server.address), settings.single_seconds))
        return Found(live, *to_p50_p99(times))


class _Work(msgspec.Struct, frozen=True):
    server: Server
    producer: Part
    consumer: Part

    def measure(self, size: int, seconds: float) -> Live:
        """First a little, then as much as should fit the time, until it does: servers grow faster as they warm up."""
        count = _TRIAL_BATCHES * size
        for _ in range(_ROUNDS_MAX):
            found = self._once(size, count)
            if count / found.rate > seconds / 2:
                break
            count = max(count, round(found.rate * seconds) // size * size)
        return found

    def _once(self, size: int, count: int) -> Live:
        both = (self.producer, self.consumer)
        for part in both:
            part.tell(f"{size} {count}")
        for part in both:
            part.wait_ready()
        before = processor_seconds(self.server.pid)
        for part in both:
            part.tell("go")
        produced, consumed = [msgspec.json.decode(part.answer(), type=Report) for part in both]
        used = processor_seconds(self.server.pid) - before + produced.processor + consumed.processor
        return Live(count / (consumed.ended - produced.began), used / count)
