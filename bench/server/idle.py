"""What a server costs while a thousand consumers wait for messages that do not come."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import uvloop

import ortoo
from bench.figures import Figure
from bench.live.ortoo_tcp import TOPIC, Served, serving
from bench.processes import processor_seconds
from bench.settings import Settings

from .http_connection import HttpConnection, to_request

NAME = "server, 1,000 idle polls"
_POLLS, _CONNECTIONS, _WAIT_SECONDS, _SETTLE_SECONDS = 1000, 10, 60, 1.0


def scenario(settings: Settings) -> list[Figure]:
    figures = []
    for door, wait in (("TCP", _wait_tcp), ("HTTP", _wait_http)):
        with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
            share = uvloop.run(_measure(served, wait(served), settings.idle_seconds))
        figures.append(Figure(NAME, f"processor, {door}", 100 * share, "% of a core"))
    return figures


async def _measure(served: Served, waiting: Coroutine[Any, Any, None], seconds: float) -> float:
    async with ortoo.connect(served.url) as queue:
        await queue.create_topic(TOPIC)
    polls = asyncio.create_task(waiting)
    try:
        await asyncio.sleep(_SETTLE_SECONDS)
        before = processor_seconds(served.pid)
        await asyncio.sleep(seconds)
        used = processor_seconds(served.pid) - before
        if polls.done():
            polls.result()
            raise RuntimeError("the polls ended although nothing came")
    finally:
        polls.cancel()
        await asyncio.gather(polls, return_exceptions=True)
    return used / seconds


async def _wait_tcp(served: Served) -> None:
    queues = [await ortoo.connect(served.url).open() for _ in range(_CONNECTIONS)]
    try:
        await asyncio.gather(*(queues[poll % _CONNECTIONS].lease(TOPIC, wait=_WAIT_SECONDS) for poll in range(_POLLS)))
    finally:
        for queue in queues:
            await queue.close()


async def _wait_http(served: Served) -> None:
    body = msgspec.json.encode({"max_messages": 1, "wait": _WAIT_SECONDS})
    request = to_request(f"/v1/topics/{TOPIC}/groups/bench/lease", body)
    connections = [await HttpConnection.connect(served.http_port) for _ in range(_POLLS)]
    try:
        await asyncio.gather(*(connection.ask(request) for connection in connections))
    finally:
        for connection in connections:
            connection.close()
