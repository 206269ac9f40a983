"""Messages through two dialects: mqueue over HTTP, in 100s and one by one, and the lines of GoMQ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec
import uvloop

from bench.figures import Figure
from bench.live.ortoo_tcp import Served, serving
from bench.loads import VALUE_BYTES
from bench.processes import free_port
from bench.settings import Settings
from bench.timing import Rates

from .http_connection import HttpConnection, to_request

NAME = "server, dialects: mqueue and GoMQ"
_BATCH, _CONNECTIONS, _SUBSCRIBERS = 100, 8, 10
_PUBLISHED = [f"published-{number}" for number in range(_CONNECTIONS)]  # one alone would be full: it takes 100,000
_PLACE = {"namespace": "bench", "topic": "items"}
_ITEM = {**_PLACE, "priority": 1, "payload": bytes(VALUE_BYTES)}
_DEQUEUE = f"GET /dequeue?namespace=bench&topic=items&limit={_BATCH} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


class _Taken(msgspec.Struct):
    ID: int


def scenario(settings: Settings) -> list[Figure]:
    best: Rates = {}
    for _ in range(settings.repetitions):
        port = free_port()
        with (
            TemporaryDirectory(prefix="ortoo-bench-") as folder,
            serving(Path(folder), "--dialect", f"gomq={port}") as served,
        ):
            found = uvloop.run(_measure(served, port, settings))
        for what, rate in found.items():
            best[what] = max(rate, best.get(what, 0.0))
    return [Figure(NAME, what, rate) for what, rate in best.items()]


async def _measure(served: Served, gomq_port: int, settings: Settings) -> Rates:
    in_100s, singly = settings.http_messages // 5, settings.http_requests
    return {
        "mqueue enqueue→dequeue→ack in 100s": await _mqueue(served.http_port, in_100s, _BATCH),
        "mqueue the same, one ack a request": await _mqueue(served.http_port, singly, 1),
        "GoMQ publish, 8 connections, a queue each": await _gomq_publish(gomq_port, in_100s, "queue", _PUBLISHED),
        "GoMQ publish→deliver→ack, 8 connections": await _gomq_queue(gomq_port, singly),
        f"GoMQ fan-out to {_SUBSCRIBERS}": await _gomq_topic(gomq_port, singly),
    }


# -- mqueue


async def _mqueue(port: int, count: int, acks: int) -> float:
    """Each connection enqueues a batch, takes one, and acks it, until all went through."""
    enqueue = to_request("/enqueue", msgspec.json.encode([_ITEM] * _BATCH))
    decode = msgspec.json.Decoder(list[_Taken] | None).decode
    left = iter(range(0, count, _BATCH))
    done = 0

    async def work(connection: HttpConnection) -> None:
        nonlocal done
        for _ in left:
            await _expect(connection, enqueue)
            taken = decode(await _expect(connection, _DEQUEUE)) or []
            named = [{"id": item.ID, **_PLACE} for item in taken]
            for at in range(0, len(named), acks):
                body = named[at : at + acks] if acks > 1 else named[at]
                await _expect(connection, to_request("/ack", msgspec.json.encode(body)))
            done += len(taken)

    opened = [await HttpConnection.connect(port) for _ in range(_CONNECTIONS)]
    began = perf_counter()
    await asyncio.gather(*map(work, opened))
    seconds = perf_counter() - began
    for connection in opened:
        connection.close()
    if done != count:
        raise RuntimeError(f"{count} messages went in and {done} came out")
    return count / seconds


async def _expect(connection: HttpConnection, request: bytes) -> bytes:
    status, body = await connection.ask(request)
    if status != 200:
        raise RuntimeError(f"the server answered {status}: {body[:500]!r}")
    return body


# -- GoMQ


@asynccontextmanager
async def _lines(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _publishing(kind: str, name: str) -> bytes:
    message = msgspec.json.encode({"payload": "x" * VALUE_BYTES, "headers": {}, "priority": 0})
    return b"PUBLISH %b %b %b\n" % (kind.encode(), name.encode(), message)


async def _gomq_publish(port: int, count: int, kind: str, names: Sequence[str]) -> float:
    """Lines in 100s: the next when all of them are answered. Connections take the names in turn."""
    left = iter(range(0, count, _BATCH))

    async def work(number: int) -> None:
        lines = _publishing(kind, names[number % len(names)]) * _BATCH
        async with _lines(port) as (reader, writer):
            for _ in left:
                writer.write(lines)
                for _ in range(_BATCH):
                    if not (answer := await reader.readline()).startswith(b"OK "):
                        raise RuntimeError(f"the server refused a message: {answer!r}")

    began = perf_counter()
    await asyncio.gather(*map(work, range(_CONNECTIONS)))
    return count / (perf_counter() - began)


async def _gomq_queue(port: int, count: int) -> float:
    """Published while as many connections take and ack."""
    left, done = count, asyncio.Event()

    async def work() -> None:
        nonlocal left
        async with _lines(port) as (reader, writer):
            writer.write(b"SUBSCRIBE queue worked\n")
            while line := await reader.readline():
                if line.startswith(b"MESSAGE "):
                    writer.write(b"ACK worked %b\n" % line.split(b'"', 4)[3])
                elif line == b"OK acknowledged\n":
                    left -= 1
                    if not left:
                        done.set()

    began = perf_counter()
    workers = [asyncio.create_task(work()) for _ in range(_CONNECTIONS)]
    await _gomq_publish(port, count, "queue", ("worked",))
    await done.wait()
    seconds = perf_counter() - began
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return count / seconds


async def _gomq_topic(port: int, count: int) -> float:
    """Deliveries a second to all subscribers together."""
    ready = asyncio.Barrier(_SUBSCRIBERS + 1)

    async def take() -> None:
        async with _lines(port) as (reader, writer):
            writer.write(b"SUBSCRIBE topic news\n")
            await reader.readline()
            await ready.wait()
            for _ in range(count):
                await reader.readline()

    takers = [asyncio.create_task(take()) for _ in range(_SUBSCRIBERS)]
    await ready.wait()
    began = perf_counter()
    await asyncio.gather(_gomq_publish(port, count, "topic", ("news",)), *takers)
    return count * _SUBSCRIBERS / (perf_counter() - began)
