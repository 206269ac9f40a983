"""Runs the live work on a contender: first a little, to learn how much fits the time, then for the figures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.processes import Part, processor_seconds

from .contender import Contender, Server
from .part import Report

SIZES = (100, 1000)
_TRIAL_BATCHES = 16


class Found(msgspec.Struct, frozen=True):
    rate: float  # messages a second
    cost: float  # seconds of a processor a message: server, producer and consumer together


def live(contender: Contender, seconds: float, sizes: tuple[int, ...] = SIZES) -> dict[int, Found]:
    """By the size of the batches."""
    with TemporaryDirectory(prefix="ortoo-bench-") as folder, contender.serve(Path(folder)) as server:
        asyncio.run(contender.prepare(server.address))
        return {size: _measure(contender, server, size, seconds) for size in sizes}


def _measure(contender: Contender, server: Server, size: int, seconds: float) -> Found:
    count = _TRIAL_BATCHES * size
    trial = _once(contender, server, size, count)
    count = max(count, round(trial.rate * seconds) // size * size)
    return _once(contender, server, size, count)


def _once(contender: Contender, server: Server, size: int, count: int) -> Found:
    arguments = (contender.name, server.address, str(size), str(count))
    with (
        Part("bench.live.part", "produce", *arguments) as producer,
        Part("bench.live.part", "consume", *arguments) as consumer,
    ):
        producer.wait_ready()
        consumer.wait_ready()
        before = processor_seconds(server.pid)
        consumer.go()
        producer.go()
        reports = [msgspec.json.decode(part.answer(), type=Report) for part in (producer, consumer)]
        used = processor_seconds(server.pid) - before + sum(report.processor for report in reports)
        return Found(count / (reports[1].ended - reports[0].began), used / count)
