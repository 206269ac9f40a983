"""Brokers and servers that share through one Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import ortoo
from ortoo import Queue
from ortoo.app.clock import SystemClock
from ortoo.app.server import Server
from ortoo.app.sharing import Sharing, open_sharing
from ortoo.broker import Broker
from ortoo.model.mqtt_settings import MqttSettings
from ortoo.model.settings import GomqSettings, HttpSettings, Settings, TcpSettings
from ortoo.ports import Store
from ortoo.stores.memory import MemoryStore
from ortoo.stores.redis import RedisConnection

LONG_S = 120.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG_S):
        while not holds():  # noqa: ASYNC110  # what is looked at tells nobody
            await asyncio.sleep(0.01)


@asynccontextmanager
async def sharing_queue(url: str, store: Store | None = None) -> AsyncIterator[tuple[Queue, Broker, Sharing]]:
    """A queue without doors, as a shard of a server is one."""
    broker = Broker(store or MemoryStore(), SystemClock())
    sharing = open_sharing(url, broker)
    assert sharing is not None
    async with Queue(broker) as queue:
        await sharing.start()
        try:
            yield queue, broker, sharing
        finally:
            await sharing.stop()


@asynccontextmanager
async def serving(url: str, **settings: Any) -> AsyncIterator[tuple[Server, Queue]]:
    ports = {"tcp": TcpSettings(port=0), "http": HttpSettings(port=0)}
    off = {"mqtt": MqttSettings(enabled=False), "gomq": GomqSettings(enabled=False)}
    server = Server(Settings(data="memory", redis=url, **(ports | off | settings)))
    await server.start()
    try:
        async with ortoo.connect(f"ortoo://localhost:{server.addresses['tcp'][1]}") as queue:
            yield server, queue
    finally:
        await server.stop()


def is_up(sharing: Sharing | None) -> bool:
    assert sharing is not None
    return sharing.figures().is_up


def connection_of(sharing: Sharing | None) -> RedisConnection:
    assert sharing is not None
    return sharing._redis


async def values(queue: Queue, topic: str) -> list[bytes]:
    return [message.value async for message in queue.read(topic)]
