"""Queen's API: messages pushed, popped and acknowledged in 100s, by clients of both generations; and a thousand idle polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from os import urandom
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec
import uvloop

from bench.figures import Figure
from bench.live.ortoo_tcp import Served, serving
from bench.loads import VALUE_BYTES
from bench.processes import processor_seconds
from bench.settings import Settings

from .http_connection import HttpConnection, to_request

NAME = "server, dialects, Queen"
_BATCH, _CONNECTIONS = 100, 16
_POLLS, _LIGHT_PUSHES = 1000, 200
_LIGHT_PAUSE_SECONDS = 0.05
_API = "/api/v1"
_QUEUE = "bench"
_SIXTEENS = [slice(16 * at, 16 * at + 16) for at in range(_BATCH)]
_PAYLOAD = {"value": "x" * (VALUE_BYTES - 12)}  # as JSON a value of the usual size

_encode = msgspec.json.Encoder().encode


class _Message(msgspec.Struct, rename="camel"):
    transaction_id: str
    partition_id: str
    lease_id: str | None


class _Popped(msgspec.Struct):
    messages: list[_Message]


_decode = msgspec.json.Decoder(_Popped).decode
Made = Callable[[int, int], bytes]
Acks = Callable[[Sequence[_Message]], bytes]


def scenario(settings: Settings) -> list[Figure]:
    found = []
    for kind, push, ack in (("first", _push_first, _ack_first), ("later", _push_later, _ack_later)):
        best = (0.0, 0.0)
        for _ in range(settings.repetitions):
            with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
                best = max(best, uvloop.run(_cycle(served, settings.dialect_messages, push, ack)))
        found.append(Figure(NAME, f"{kind} clients, push+pop+ack in 100s", best[0]))
        found.append(Figure(NAME, f"{kind} clients, processor", best[1], "µs/message"))
    with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
        found += uvloop.run(_polls(served, settings))
    return found


# -- push, pop, ack


def _push_first(worker: int, number: int) -> bytes:
    items = [{"queue": _QUEUE, "partition": f"p{worker}", "payload": _PAYLOAD}] * _BATCH
    return _encode({"items": items, "config": {}})


def _push_later(worker: int, number: int) -> bytes:
    """They name each message themselves, by UUIDs that begin with the time and are random otherwise."""
    item = {"queue": _QUEUE, "partition": f"p{worker}", "payload": _PAYLOAD}
    head, random = f"{number:08x}-{worker:04x}-7", urandom(8 * _BATCH).hex()
    names = [f"{head}{text[:3]}-8{text[3:6]}-{text[4:]}" for text in map(random.__getitem__, _SIXTEENS)]
    return _encode({"items": [{**item, "transactionId": name} for name in names]})


def _ack_first(messages: Sequence[_Message]) -> bytes:
    acks = [{"transactionId": message.transaction_id, "status": "completed"} for message in messages]
    return _encode({"acknowledgments": acks})


def _ack_later(messages: Sequence[_Message]) -> bytes:
    acks = [
        {
            "transactionId": message.transaction_id,
            "partitionId": message.partition_id,
            "leaseId": message.lease_id,
            "status": "completed",
            "error": None,
        }
        for message in messages
    ]
    return _encode({"acknowledgments": acks, "consumerGroup": None})


async def _cycle(served: Served, count: int, push: Made, ack: Acks) -> tuple[float, float]:
    """Messages a second through all three, and the server's processor time for one."""
    left = iter(range(0, count, _BATCH))

    async def work(worker: int, connection: HttpConnection) -> None:
        pop = _get(f"{_API}/pop/queue/{_QUEUE}/partition/p{worker}?batch={_BATCH}")
        for number in left:
            await _expect(connection, to_request(f"{_API}/push", push(worker, number)), 201)
            messages = _decode(await _expect(connection, pop, 200)).messages
            if len(messages) != _BATCH:
                raise RuntimeError(f"{_BATCH} messages went in and {len(messages)} came out")
            await _expect(connection, to_request(f"{_API}/ack/batch", ack(messages)), 200)

    opened = [await HttpConnection.connect(served.http_port) for _ in range(_CONNECTIONS)]
    before, began = processor_seconds(served.pid), perf_counter()
    await asyncio.gather(*(work(worker, connection) for worker, connection in enumerate(opened)))
    seconds, used = perf_counter() - began, processor_seconds(served.pid) - before
    for connection in opened:
        connection.close()
    return count / seconds, used / count * 1e6


# -- long polls


async def _polls(served: Served, settings: Settings) -> list[Figure]:
    """A thousand clients wait on a thousand queues; then messages come, now and then, to one of them."""
    asking = await HttpConnection.connect(served.http_port)
    for queue in range(_POLLS):
        await _expect(asking, _configured(queue), 201)
    waiting = [await HttpConnection.connect(served.http_port) for _ in range(_POLLS)]
    polls = [asyncio.create_task(connection.ask(_poll(queue))) for queue, connection in enumerate(waiting)]
    await asyncio.sleep(1.0)
    before = processor_seconds(served.pid)
    await asyncio.sleep(settings.idle_seconds)
    idle = (processor_seconds(served.pid) - before) / settings.idle_seconds
    bare, times = [], []
    for queue in range(_LIGHT_PUSHES):
        began = perf_counter()
        await _expect(asking, _get("/health"), 200)
        bare.append(perf_counter() - began)
        body = _encode({"items": [{"queue": f"q{queue}", "payload": _PAYLOAD}], "config": {}})
        began = perf_counter()
        await _expect(asking, to_request(f"{_API}/push", body), 201)
        status, _ = await polls[queue]
        times.append(perf_counter() - began)
        if status != 200:
            raise RuntimeError(f"a poll was answered with {status}")
        await asyncio.sleep(_LIGHT_PAUSE_SECONDS)
    for task in polls:
        task.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
    for connection in (asking, *waiting):
        connection.close()
    found = [Figure(NAME, "1,000 polls on 1,000 queues, processor", 100 * idle, "% of a core")]
    for what, some in (("push to pop", times), ("a request that needs no queue", bare)):
        some.sort()
        found.append(Figure(NAME, f"{what} beside them, median", 1000 * some[len(some) // 2], "ms"))
        found.append(Figure(NAME, f"{what} beside them, p99", 1000 * some[-len(some) // 100], "ms"))
    return found


def _configured(queue: int) -> bytes:
    return to_request(f"{_API}/configure", _encode({"queue": f"q{queue}", "options": {}}))


def _poll(queue: int) -> bytes:
    return _get(f"{_API}/pop/queue/q{queue}?wait=true&timeout=60000")


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


async def _expect(connection: HttpConnection, request: bytes, expected: int) -> bytes:
    status, body = await connection.ask(request)
    if status != expected:
        raise RuntimeError(f"the server answered {status}: {body[:500]!r}")
    return body
