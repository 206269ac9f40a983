"""Publishing, leasing and acknowledging over HTTP: in 1000s, and one message a request."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec
import uvloop

from bench.figures import Figure
from bench.live.ortoo_tcp import LEASE_SECONDS, TOPIC, Served, serving
from bench.loads import VALUE_BYTES
from bench.settings import Settings
from bench.timing import Rates

from .http_connection import HttpConnection, to_request

NAME = "server, HTTP"
_BATCH, _BATCHES_AT_A_TIME, _SINGLE_CONNECTIONS = 1000, 4, 64
_TOPIC = f"/v1/topics/{TOPIC}"
_VALUE = "x" * (VALUE_BYTES - 2)  # with its quotes a value of the usual size
_WRK = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [[{body}]]
"""

Work = Callable[[HttpConnection], Awaitable[None]]


class _Message(msgspec.Struct):
    receipt: str
    value: msgspec.Raw


class _Leased(msgspec.Struct):
    messages: list[_Message]


def scenario(settings: Settings) -> list[Figure]:
    best: Rates = {}
    for _ in range(settings.repetitions):
        with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
            found = uvloop.run(_measure(served, settings))
            if (program := shutil.which("wrk")) is not None:
                found["one message a request, wrk"] = _wrk(program, Path(folder), served, settings.http_seconds)
        for what, rate in found.items():
            best[what] = max(rate, best.get(what, 0.0))
    return [Figure(NAME, what, rate) for what, rate in best.items()]


async def _measure(served: Served, settings: Settings) -> Rates:
    count = settings.http_messages
    connection = await HttpConnection.connect(served.http_port)
    await _expect(connection, to_request("/v1/topics", msgspec.json.encode({"name": TOPIC})), 201)
    connection.close()
    return {
        "publish in 1000s": await _publish(served.http_port, count, _BATCH, _BATCHES_AT_A_TIME),
        "lease+ack in 1000s": await _lease_and_ack(served.http_port, count),
        "one message a request": await _publish(served.http_port, settings.http_requests, 1, _SINGLE_CONNECTIONS),
    }


async def _expect(connection: HttpConnection, request: bytes, expected: int) -> bytes:
    status, body = await connection.ask(request)
    if status != expected:
        raise RuntimeError(f"the server answered {status}: {body[:500]!r}")
    return body


def _publish_body(count: int) -> bytes:
    return msgspec.json.encode({"messages": [{"value": _VALUE}] * count})


async def _publish(port: int, count: int, size: int, connections: int) -> float:
    request = to_request(f"{_TOPIC}/messages", _publish_body(size))
    left = iter(range(0, count, size))

    async def work(connection: HttpConnection) -> None:
        for _ in left:
            await _expect(connection, request, 201)

    return await _rate(port, count, work, connections)


async def _lease_and_ack(port: int, count: int) -> float:
    group = f"{_TOPIC}/groups/bench"
    lease = to_request(f"{group}/lease", msgspec.json.encode({"max_messages": _BATCH, "lease": LEASE_SECONDS}))
    decode = msgspec.json.Decoder(_Leased).decode
    done = 0

    async def work(connection: HttpConnection) -> None:
        nonlocal done
        while messages := decode(await _expect(connection, lease, 200)).messages:
            receipts = msgspec.json.encode({"receipts": [message.receipt for message in messages]})
            await _expect(connection, to_request(f"{group}/ack", receipts), 200)
            done += len(messages)

    rate = await _rate(port, count, work, _BATCHES_AT_A_TIME)
    if done != count:
        raise RuntimeError(f"{count} messages went in and {done} came out")
    return rate


async def _rate(port: int, count: int, work: Work, connections: int) -> float:
    opened = [await HttpConnection.connect(port) for _ in range(connections)]
    began = perf_counter()
    await asyncio.gather(*(work(connection) for connection in opened))
    seconds = perf_counter() - began
    for connection in opened:
        connection.close()
    return count / seconds


def _wrk(program: str, folder: Path, served: Served, seconds: int) -> float:
    script = folder / "publish.lua"
    script.write_text(_WRK.format(body=_publish_body(1).decode()))
    url = f"http://127.0.0.1:{served.http_port}{_TOPIC}/messages"
    command = [program, "-t1", f"-c{_SINGLE_CONNECTIONS}", f"-d{seconds}s", "-s", str(script), url]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if found is None or "Non-2xx" in said:
        raise RuntimeError(f"wrk did not get the answers it should: {said}")
    return float(found[1])
