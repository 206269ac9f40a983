"""The queue of home.py, as a server has it: with a sampler, whose seconds pass when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from ortoo.broker import Sampler, SeriesReader
from tests.dialects.queen.home import Home, serving


class Sampled:
    """`home`, and its sampler."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.sampler = Sampler(home.broker)
        home.broker.meters.series = SeriesReader(self.sampler)

    async def sample(self) -> None:
        """Looks at everything now, as it does each second."""
        await self.sampler.sample()

    async def furnish(self) -> None:
        """As in the recorded answers: one message of `shape` is done, one popped, one dead, one waits."""
        home = self.home
        options = {"retryLimit": 0, "dlqAfterMaxRetries": True, "priority": 7}
        await home.configure("shape", options, namespace="ns", task="t")
        for number, partition in enumerate(("p1", "p2", "p3", "p3")):
            await home.push("shape", {"n": number}, partition=partition)
        [done] = await home.pop("shape", "p1")
        await home.ack(done)
        await home.pop("shape", "p2")
        [dead] = await home.pop("shape", "p3")
        await home.ack(dead, "failed", error="no")
        await home.configure("other", {}, namespace="ns", task="u")
        await home.push("other", 1, 2)
        await home.configure("empty")


@asynccontextmanager
async def sampling(**more: Any) -> AsyncIterator[Sampled]:
    async with serving(**more) as home:
        sampled = Sampled(home)
        await sampled.sample()  # what is made from now on is new to it
        yield sampled


class Watcher:
    """A dashboard, which is open."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            found: dict[str, Any] = msgspec.json.decode(await self.socket.recv())
            return found

    async def until(self, event: str, **data: Any) -> dict[str, Any]:
        """The next such event; others are passed over."""
        while True:
            found = await self.next()
            if found["event"] == event and found["data"].items() >= data.items():
                told: dict[str, Any] = found["data"]
                return told


@asynccontextmanager
async def watching(url: str, token: str | None = None) -> AsyncIterator[Watcher]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with connect(url.replace("http://", "ws://") + "/ws/dashboard", additional_headers=headers) as socket:
        yield Watcher(socket)
