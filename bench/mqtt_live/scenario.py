"""Ortoo and mosquitto with the same work, in turns, in one run: messages that came per second, and per second of the server's
processor, which says more on a machine whose cores they share with their clients."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.figures import Figure
from bench.live.contender import Server
from bench.processes import processor_seconds
from bench.settings import Settings
from ortoo.doors.mqtt.wire.codes import V5

from . import servers
from .links import Loop, connect, subscribe
from .queues import QueueConsumer
from .traffic import Flow, Publisher, Subscriber

NAME = "MQTT live"
_WARM_UP_SECONDS = 0.3
_DRAIN_SECONDS = 10.0
_WINDOW = 1_000
_AHEAD_QOS_0 = 4_000
_FAN_OUT = 1_000
_rounds = count(1)
_QUEUE_AHEAD = 20_000
_QUEUE_PUBLISHERS, _QUEUE_CONSUMERS = 4, 2


class Work(msgspec.Struct, frozen=True):
    """Under way in a loop."""

    flows: list[Flow]

    @property
    def count(self) -> int:
        """Of the messages so far."""
        return sum(flow.received for flow in self.flows)

    def end(self, loop: Loop) -> None:
        """Nothing may be left that the next round would get, or wait for."""
        for flow in self.flows:
            flow.stop()
        loop.run(_DRAIN_SECONDS, lambda: all(flow.is_drained for flow in self.flows))


Begin = Callable[[Loop, int, str], Work]  # with the port of a server, and a name for topics that no other round has


class Row(msgspec.Struct, frozen=True):
    name: str
    begin: Begin
    is_ortoo_only: bool = False


class Found(msgspec.Struct):
    """The best of several rounds."""

    rate: float = 0.0
    per_processor_second: float = 0.0


def scenario(settings: Settings) -> list[Figure]:
    names = servers.names()
    if "mosquitto" not in names:
        print("mosquitto is left out: it is not installed (`apt install mosquitto`).", file=sys.stderr)
    figures: list[Figure] = []
    servers.allow_files()
    with TemporaryDirectory(prefix="ortoo-bench-") as folder, ExitStack() as stack:
        running = {name: stack.enter_context(servers.serve(name, Path(folder))) for name in names}
        for row in ROWS:
            takes_part = {name: server for name, server in running.items() if name == "ortoo" or not row.is_ortoo_only}
            figures += _compare(row, takes_part, settings)
    return [*figures, *_idle(names)]


def _compare(row: Row, running: dict[str, Server], settings: Settings) -> list[Figure]:
    found = {name: Found() for name in running}
    for _ in range(settings.live_repetitions):
        for name, server in running.items():
            _measure(row, server, settings.live_seconds / 2, found[name])
    scenario = f"{NAME}, {row.name}"
    figures = [Figure(scenario, name, one.rate) for name, one in found.items()]
    figures += [Figure(scenario, f"{name} per CPU s", one.per_processor_second) for name, one in found.items()]
    if len(found) == 2:
        ours, theirs = found["ortoo"], found["mosquitto"]
        figures.append(Figure(scenario, "ortoo ÷ mosquitto", ours.rate / theirs.rate, "ratio"))
        ratio = ours.per_processor_second / theirs.per_processor_second
        figures.append(Figure(scenario, "ortoo ÷ mosquitto per CPU s", ratio, "ratio"))
    return figures


def _measure(row: Row, server: Server, seconds: float, found: Found) -> None:
    with Loop() as loop:
        work = row.begin(loop, int(server.address), f"bench/{next(_rounds):04}")
        loop.run(_WARM_UP_SECONDS)
        before, used = work.count, processor_seconds(server.pid)
        took = loop.run(seconds)
        messages, used = work.count - before, processor_seconds(server.pid) - used
        work.end(loop)
    if not messages:
        raise RuntimeError(f"no message came in {seconds:g} seconds: {row.name}")
    found.rate = max(found.rate, messages / took)
    found.per_processor_second = max(found.per_processor_second, messages / max(used, 0.01))


def _publish(loop: Loop, port: int, topic: str) -> Work:
    """Nobody has subscribed; what is acknowledged has come."""
    flow = Flow(_WINDOW)
    Publisher(loop, connect(port, "publisher"), topic, 1, _WINDOW, flow, is_alone=True).pump()
    return Work([flow])


def _pairs(pairs: int, qos: int, window: int, ahead: int) -> Begin:
    """So many publishers, each with a topic and a subscriber of its own."""

    def begin(loop: Loop, port: int, name: str) -> Work:
        flows: list[Flow] = []
        for number in range(pairs):
            topic, flow = f"{name}/{number}", Flow(ahead)
            listening = connect(port, f"subscriber-{number}")
            subscribe(listening, topic, qos)
            Subscriber(loop, listening, topic, qos, flow)
            Publisher(loop, connect(port, f"publisher-{number}"), topic, qos, window, flow)
            flows.append(flow)
        for flow in flows:
            flow.senders[0].pump()
        return Work(flows)

    return begin


def _fan_out(loop: Loop, port: int, topic: str) -> Work:
    flow = Flow(16, _FAN_OUT)
    for number in range(_FAN_OUT):
        listening = connect(port, f"subscriber-{number}")
        subscribe(listening, topic, 0)
        Subscriber(loop, listening, topic, 0, flow)
    Publisher(loop, connect(port, "publisher"), topic, 0, _WINDOW, flow).pump()
    return Work([flow])


def _queue(loop: Loop, port: int, name: str) -> Work:
    """Counted when the `$ack` is confirmed: by then publish, delivery and ack are on disk."""
    flow, queue = Flow(_QUEUE_AHEAD), f"$queue/{name}"
    for number in range(_QUEUE_CONSUMERS):
        consumer = connect(port, f"consumer-{number}", V5)
        subscribe(consumer, queue, 1, (("consumer-group", "bench"),))
        QueueConsumer(loop, consumer, queue, flow)
    for number in range(_QUEUE_PUBLISHERS):
        Publisher(loop, connect(port, f"publisher-{number}"), queue, 1, _WINDOW, flow)
    for sender in flow.senders:
        sender.pump()
    return Work([flow])


ROWS = (
    Row("publish QoS 1, window 1000", _publish),
    Row("1→1 QoS 0", _pairs(1, 0, _WINDOW, _AHEAD_QOS_0)),
    Row("1→1 QoS 1, window 1000", _pairs(1, 1, _WINDOW, _WINDOW)),
    Row("5→5 QoS 0", _pairs(5, 0, _WINDOW, _AHEAD_QOS_0)),
    Row("5→5 QoS 1, window 1000", _pairs(5, 1, _WINDOW, _WINDOW)),
    Row("50→50 QoS 1, window 1", _pairs(50, 1, 1, 10)),
    Row("1→1,000 QoS 0", _fan_out),
    Row("$queue, publish to ack", _queue, is_ortoo_only=True),
)


def _idle(names: list[str]) -> list[Figure]:
    """What the memory of the server grows by."""
    figures = []
    for name in names:
        with TemporaryDirectory(prefix="ortoo-bench-") as folder, ExitStack() as stack:
            most = servers.allow_files()
            server = stack.enter_context(servers.serve(name, Path(folder)))
            connect(int(server.address), "first").close()
            before = servers.memory_bytes(server.pid)
            held = _connect_many(int(server.address), most, stack)
            grown = servers.memory_bytes(server.pid) - before
        scenario = f"{NAME}, {held:,} idle connections"
        figures.append(Figure(scenario, f"memory, {name}", grown / 1e6, "MB"))
        figures.append(Figure(scenario, f"memory of one, {name}", grown / held, "bytes"))
    return figures


def _connect_many(port: int, most: int, stack: ExitStack) -> int:
    """How many the server took: it may be allowed to open fewer files than that."""
    for number in range(most):
        try:
            stack.enter_context(connect(port, f"idle-{number}"))
        except ConnectionError:
            return number
    return most
