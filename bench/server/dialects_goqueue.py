"""Through GoQueue's API: publishing in batches, and polling and acknowledging them. Its own document says 30,000 a second in
batches of 100, and 220,000 in batches of 1000. Beside it what such requests cost at least: a server that only reads the JSON."""

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
from bench.processes import free_port, processor_seconds, running, wait_for_port
from bench.settings import Settings
from bench.timing import Rates

from .http_connection import HttpConnection, to_request

NAME = "server, dialects, GoQueue"
_SIZES = (100, 1000)
_CONNECTIONS = 16
_TOPIC, _GROUP = "bench", "bench"
_VALUE = "x" * VALUE_BYTES

Work = Callable[[HttpConnection], Awaitable[None]]
Measured = tuple[float, float]  # messages a second, and the server's processor time for one, in µs


class _Server(msgspec.Struct, frozen=True):
    port: int
    pid: int


class _Message(msgspec.Struct):
    receipt_handle: str
    value: str


class _Polled(msgspec.Struct):
    messages: list[_Message]


class _Joined(msgspec.Struct):
    member_id: str


def scenario(settings: Settings) -> list[Figure]:
    best: Rates = {}
    least: Rates = {}
    count = settings.http_messages // 2
    for _ in range(settings.repetitions):
        for size in _SIZES:
            with TemporaryDirectory(prefix="ortoo-bench-") as folder:
                with _serving(Path(folder)) as server:
                    measured = uvloop.run(_measure(server, count, size))
                with _reading(Path(folder)) as server:
                    measured[f"only reading JSON in {size}s"] = uvloop.run(_publish(server, count, size))
            for what, (rate, used) in measured.items():
                best[what] = max(rate, best.get(what, 0.0))
                least[what] = min(used, least.get(what, used))
    found = [Figure(NAME, what, rate) for what, rate in best.items()]
    return found + [Figure(NAME, f"{what}, processor", used, "µs/message") for what, used in least.items()]


@contextmanager
def _serving(folder: Path) -> Iterator[_Server]:
    port = free_port()
    command = [sys.executable, "-m", "ortoo", "serve", "--data", str(folder / "data"), "--http-port", "0"]
    command += ["--tcp-port", "0", "--dialect", f"goqueue={port}", "--set", "log.level=warning"]
    with _started(command, port, folder / "ortoo.log") as server:
        yield server


@contextmanager
def _reading(folder: Path) -> Iterator[_Server]:
    port = free_port()
    with _started([sys.executable, "-m", "bench.server.json_reader", str(port)], port, folder / "reader.log") as server:
        yield server


@contextmanager
def _started(command: list[str], port: int, log: Path) -> Iterator[_Server]:
    with running(command, log=log) as process:
        wait_for_port(port, process, log)
        yield _Server(port, process.pid)


async def _measure(server: _Server, count: int, size: int) -> dict[str, Measured]:
    port = server.port
    connection = await HttpConnection.connect(port)
    await _expect(connection, to_request("/topics", msgspec.json.encode({"name": _TOPIC})), 201)
    connection.close()
    return {
        f"publish in {size}s": await _publish(server, count, size),
        f"poll+ack in {size}s": await _poll_and_ack(server, count, size),
    }


async def _expect(connection: HttpConnection, request: bytes, expected: int = 200) -> bytes:
    status, body = await connection.ask(request)
    if status != expected:
        raise RuntimeError(f"the server answered {status}: {body[:500]!r}")
    return body


async def _publish(server: _Server, count: int, size: int) -> Measured:
    body = msgspec.json.encode({"messages": [{"value": _VALUE}] * size})
    request = to_request(f"/topics/{_TOPIC}/messages", body)
    left = iter(range(0, count, size))

    async def work(connection: HttpConnection) -> None:
        for _ in left:
            await _expect(connection, request)

    return await _rate(server, count, work)


async def _poll_and_ack(server: _Server, count: int, size: int) -> Measured:
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

    measured = await _rate(server, count, work)
    if done != count:
        raise RuntimeError(f"{count} messages went in and {done} came out")
    return measured


async def _rate(server: _Server, count: int, work: Work) -> Measured:
    opened = [await HttpConnection.connect(server.port) for _ in range(_CONNECTIONS)]
    before, began = processor_seconds(server.pid), perf_counter()
    await asyncio.gather(*(work(connection) for connection in opened))
    seconds, used = perf_counter() - began, processor_seconds(server.pid) - before
    for connection in opened:
        connection.close()
    return count / seconds, used / count * 1e6
