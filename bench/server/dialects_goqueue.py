"""Through GoQueue's API: publishing in batches, and polling and acknowledging them. Its own document says 30,000 a second in
batches of 100, and 220,000 in batches of 1000."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec
import uvloop

from bench.figures import Figure
from bench.loads import VALUE_BYTES
from bench.processes import free_port, running, wait_for_port
from bench.settings import Settings
from bench.timing import Rates

from .http_connection import HttpConnection, to_request

NAME = "server, dialects, GoQueue"
_SIZES = (100, 1000)
_CONNECTIONS = 16
_TOPIC, _GROUP = "bench", "bench"
_VALUE = "x" * VALUE_BYTES

Work = Callable[[HttpConnection], Awaitable[None]]


class _Message(msgspec.Struct):
    receipt_handle: str
    value: str


class _Polled(msgspec.Struct):
    messages: list[_Message]


class _Joined(msgspec.Struct):
    member_id: str


def scenario(settings: Settings) -> list[Figure]:
    best: Rates = {}
    for _ in range(settings.repetitions):
        for size in _SIZES:
            with TemporaryDirectory(prefix="ortoo-bench-") as folder, _serving(Path(folder)) as port:
                for what, rate in uvloop.run(_measure(port, settings.http_messages // 2, size)).items():
                    best[what] = max(rate, best.get(what, 0.0))
    return [Figure(NAME, what, rate) for what, rate in best.items()]


@contextmanager
def _serving(folder: Path) -> Iterator[int]:
    port, log = free_port(), folder / "ortoo.log"
    command = [sys.executable, "-m", "ortoo", "serve", "--data", str(folder / "data"), "--http-port", "0"]
    command += ["--tcp-port", "0", "--dialect", f"goqueue={port}", "--set", "log.level=warning"]
    with running(command, log=log) as process:
        wait_for_port(port, process, log)
        yield port


async def _measure(port: int, count: int, size: int) -> Rates:
    connection = await HttpConnection.connect(port)
    await _expect(connection, to_request("/topics", msgspec.json.encode({"name": _TOPIC})), 201)
    connection.close()
    return {
        f"publish in {size}s": await _publish(port, count, size),
        f"poll+ack in {size}s": await _poll_and_ack(port, count, size),
    }


async def _expect(connection: HttpConnection, request: bytes, expected: int = 200) -> bytes:
    status, body = await connection.ask(request)
    if status != expected:
        raise RuntimeError(f"the server answered {status}: {body[:500]!r}")
    return body


async def _publish(port: int, count: int, size: int) -> float:
    body = msgspec.json.encode({"messages": [{"value": _VALUE}] * size})
    request = to_request(f"/topics/{_TOPIC}/messages", body)
    left = iter(range(0, count, size))

    async def work(connection: HttpConnection) -> None:
        for _ in left:
            await _expect(connection, request)

    return await _rate(port, count, work)


async def _poll_and_ack(port: int, count: int, size: int) -> float:
    join = to_request(f"/groups/{_GROUP}/join", msgspec.json.encode({"client_id": "bench", "topics": [_TOPIC]}))
    joined, decode = msgspec.json.Decoder(_Joined).decode, msgspec.json.Decoder(_Polled).decode
    done = 0

    async def work(connection: HttpConnection) -> None:
        nonlocal done
        member = joined(await _expect(connection, join)).member_id
        query = f"member_id={member}&max_messages={size}&timeout=0s"
        poll = f"GET /groups/{_GROUP}/poll?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        while messages := decode(await _expect(connection, poll)).messages:
            handles = msgspec.json.encode({"receipt_handles": [message.receipt_handle for message in messages]})
            await _expect(connection, to_request("/messages/ack", handles))
            done += len(messages)

    rate = await _rate(port, count, work)
    if done != count:
        raise RuntimeError(f"{count} messages went in and {done} came out")
    return rate


async def _rate(port: int, count: int, work: Work) -> float:
    opened = [await HttpConnection.connect(port) for _ in range(_CONNECTIONS)]
    began = perf_counter()
    await asyncio.gather(*(work(connection) for connection in opened))
    seconds = perf_counter() - began
    for connection in opened:
        connection.close()
    return count / seconds
