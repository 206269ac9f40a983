"""How long one message takes from publisher to subscriber, at a rate far below what a server can do."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import ortoo
from bench.figures import Figure
from bench.live.ortoo_tcp import TOPIC, serving
from bench.live.single import to_p50_p99
from bench.loads import VALUE_BYTES
from bench.processes import free_port
from bench.settings import Settings
from ortoo.doors.mqtt.wire.codes import V5, V311
from ortoo.doors.mqtt.wire.encoding import publish_parts

from . import servers
from .links import Link, Loop, connect, subscribe
from .queues import QueueConsumer
from .traffic import Flow, Subscriber

NAME = "MQTT live, latency"
_PER_SECOND = 1_000
_WARM_UP_SECONDS = 0.5
_CLOCK = struct.Struct("d")  # in the payload: when it was sent


class _Sender(Link):
    """Sends a message each time that it is told to; answers are not waited for."""

    def __init__(self, loop: Loop, connection: socket.socket, topic: str) -> None:
        super().__init__(loop, connection)
        self._before, self._after = publish_parts(topic, bytes(VALUE_BYTES), V311, 1, False)
        self._number = 0

    def send_one(self) -> None:
        self._number = self._number % 60_000 + 1
        payload = _CLOCK.pack(monotonic()) + self._after[_CLOCK.size :]
        self.send(self._before + self._number.to_bytes(2, "big") + payload)

    def on_data(self, data: bytes) -> None:
        pass


def scenario(settings: Settings) -> list[Figure]:
    figures = []
    for name in servers.names():
        best = min((_ordinary(name, settings) for _ in range(settings.live_repetitions)), key=lambda pair: pair[1])
        figures += _figures(f"QoS 1, {name}", best)
    best = min((_queue(settings) for _ in range(settings.live_repetitions)), key=lambda pair: pair[1])
    return [*figures, *_figures('$queue, "interval"', best)]


def _figures(what: str, found: tuple[float, float]) -> list[Figure]:
    return [Figure(NAME, f"{cut}, {what}", value, "ms") for cut, value in zip(("p50", "p99"), found, strict=True)]


def _ordinary(name: str, settings: Settings) -> tuple[float, float]:
    with (
        TemporaryDirectory(prefix="ortoo-bench-") as folder,
        servers.serve(name, Path(folder)) as server,
        Loop() as loop,
    ):
        times: list[float] = []
        port = int(server.address)
        listening = connect(port, "subscriber")
        subscribe(listening, TOPIC, 1)
        Subscriber(loop, listening, TOPIC, 1, Flow(1), lambda payload: _note(times, payload))
        return _steadily(loop, _Sender(loop, connect(port, "publisher"), TOPIC), times, settings.latency_seconds)


def _queue(settings: Settings) -> tuple[float, float]:
    port, queue = free_port(), f"$queue/{TOPIC}"
    with (
        TemporaryDirectory(prefix="ortoo-bench-") as folder,
        serving(Path(folder), "--set", f"mqtt.port={port}") as served,
        Loop() as loop,
    ):
        asyncio.run(_create(served.url))
        times: list[float] = []
        listening = connect(port, "consumer", V5)
        subscribe(listening, queue, 1, (("consumer-group", "bench"),))
        QueueConsumer(loop, listening, queue, Flow(1), lambda payload: _note(times, payload))
        return _steadily(loop, _Sender(loop, connect(port, "publisher"), queue), times, settings.latency_seconds)


async def _create(url: str) -> None:
    async with ortoo.connect(url) as queue:
        await queue.create_topic(TOPIC, durability="interval")


def _note(times: list[float], payload: bytes) -> None:
    times.append((monotonic() - _CLOCK.unpack_from(payload)[0]) * 1000)


def _steadily(loop: Loop, sender: _Sender, times: list[float], seconds: float) -> tuple[float, float]:
    count = round((seconds + _WARM_UP_SECONDS) * _PER_SECOND)
    began = monotonic()
    for number in range(count):
        sender.send_one()
        loop.run(max(0.0, began + (number + 1) / _PER_SECOND - monotonic()))
    loop.run(10.0, lambda: len(times) >= count)
    if len(times) < count:
        raise RuntimeError(f"{count - len(times)} messages of {count} did not come")
    return to_p50_p99(times[round(_WARM_UP_SECONDS * _PER_SECOND) :])
