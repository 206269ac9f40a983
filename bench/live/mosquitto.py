"""mosquitto: MQTT with QoS 1 and a session that stays; the client acknowledges a message after its callback has returned.

It keeps its queue in memory and saves all of it to a file now and then, here every second: what it confirms is on disk up to a
second later. Nothing closer is on offer.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from bench.processes import free_port, running, wait_for_port

from .contender import Contender, Publish, Server, Take, find_program

_TOPIC = "bench"
_TIMEOUT_SECONDS = 30.0
_IN_FLIGHT = 20_000  # a packet's number has 16 bits
_CONFIG = """
listener {port} 127.0.0.1
allow_anonymous true
user root
persistence true
persistence_location {folder}/
autosave_interval 1
max_inflight_messages {in_flight}
max_queued_messages 0
set_tcp_nodelay true
log_type error
"""


class Mosquitto(Contender):
    name = "mosquitto, not synced"
    packages = ("paho-mqtt",)
    programs = ("mosquitto",)
    settings = "QoS 1, a session that stays; saves all of its memory each second, after it has confirmed"
    is_synced = False
    producers, consumers = 2, 1

    def version(self) -> str:
        said = subprocess.run([_program(), "-h"], check=False, capture_output=True, text=True)
        return f"{said.stdout.splitlines()[0].replace(' version', '')}, paho-mqtt {version('paho-mqtt')}"

    @contextmanager
    def serve(self, folder: Path) -> Iterator[Server]:
        port, log, config, data = free_port(), folder / "mosquitto.log", folder / "mosquitto.conf", folder / "mosquitto"
        data.mkdir()
        config.write_text(_CONFIG.format(port=port, folder=data, in_flight=_IN_FLIGHT))
        with running([_program(), "-c", str(config)], log=log) as process:
            wait_for_port(port, process, log)
            yield Server(f"127.0.0.1:{port}", process.pid)

    async def prepare(self, address: str) -> None:
        """The consumer's session, and with it the subscription, stays when it leaves."""
        async with self.taking(address):
            pass

    @asynccontextmanager
    async def publishing(self, address: str) -> AsyncIterator[Publish]:
        clients = [await _connect(address, f"producer-{which}") for which in range(self.producers)]

        def send(client: Any, values: list[bytes]) -> None:
            for sent in [client.publish(_TOPIC, value, qos=1) for value in values]:
                sent.wait_for_publish(_TIMEOUT_SECONDS)
                if not sent.is_published():
                    raise RuntimeError("mosquitto did not confirm")

        async def publish(which: int, values: list[bytes]) -> None:
            await asyncio.to_thread(send, clients[which], values)

        yield publish
        for client in clients:
            await _disconnect(client)

    @asynccontextmanager
    async def taking(self, address: str) -> AsyncIterator[Take]:
        inbox: SimpleQueue[bytes] = SimpleQueue()
        client = await _connect(address, "consumer", lambda *said: inbox.put(said[2].payload))
        client.subscribe(_TOPIC, qos=1)

        def receive(count: int) -> list[bytes]:
            try:
                found = [inbox.get(timeout=1.0)]
                while len(found) < count and not inbox.empty():
                    found.append(inbox.get_nowait())
            except Empty:
                return []
            return found

        async def take(_: int, count: int) -> list[bytes]:
            return await asyncio.to_thread(receive, count)

        yield take
        await _disconnect(client)


async def _connect(address: str, name: str, on_message: Callable[..., None] | None = None) -> Any:
    """A client with a thread of its own; returns once the server has welcomed it."""
    mqtt = import_module("paho.mqtt.client")
    loop, welcomed = asyncio.get_running_loop(), asyncio.Event()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, clean_session=False)
    client.max_inflight_messages_set(_IN_FLIGHT)
    client.on_message = on_message
    client.on_connect = lambda *_: loop.call_soon_threadsafe(welcomed.set)
    host, _, port = address.rpartition(":")
    client.connect(host, int(port))
    client.loop_start()
    async with asyncio.timeout(_TIMEOUT_SECONDS):
        await welcomed.wait()
    return client


async def _disconnect(client: Any) -> None:
    client.disconnect()
    await asyncio.to_thread(client.loop_stop)


def _program() -> str:
    return find_program("mosquitto") or "mosquitto"
