"""Does a server that is told to stop by a signal end properly, whatever it is doing?"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import ortoo

PROGRAM = Path(__file__).with_name("server_process.py")


@asynccontextmanager
async def a_server(**flags: object) -> AsyncIterator[tuple[Process, dict[str, Any]]]:
    given = {"http.port": 0, "tcp.port": 0} | {name.replace("__", "."): value for name, value in flags.items()}
    arguments = [f"{name}={value}" for name, value in given.items()]
    process = await asyncio.create_subprocess_exec(sys.executable, PROGRAM, *arguments, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(300):
            line = await process.stdout.readline()
        yield process, json.loads(line) if line else {}
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ended(process: Process) -> tuple[int | None, list[dict[str, Any]]]:
    """The exit code, and what was logged."""
    async with asyncio.timeout(300):
        _, logged = await process.communicate()
    return process.returncode, [json.loads(line) for line in logged.splitlines()]


class Load:
    """Publishes and acks over TCP until the server is gone, and remembers what was confirmed."""

    def __init__(self, port: int) -> None:
        self._url = f"ortoo://127.0.0.1:{port}"
        self.published: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.is_warm = asyncio.Event()

    async def publish(self, name: int) -> None:
        async with ortoo.connect(self._url, timeout=0.5) as queue:
            for number in range(1_000_000):
                value = b"%d-%d" % (name, number)
                await queue.publish("orders", value)
                self.published.add(value)
                if len(self.published) > 300 and self.acked:
                    self.is_warm.set()

    async def consume(self) -> None:
        async with ortoo.connect(self._url, timeout=0.5) as queue:
            while True:
                messages = await queue.lease("orders", group="billing", max_messages=20, wait=5)
                await queue.ack(messages)
                self.acked.update(message.value for message in messages)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_told_to_stop_under_load_loses_nothing_that_was_confirmed(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with a_server(data=tmp_path / "data") as (process, addresses):
        load = Load(addresses["tcp"][1])
        async with ortoo.connect(f"ortoo://127.0.0.1:{addresses['tcp'][1]}") as queue:
            await queue.create_topic("orders")
        work = [asyncio.create_task(load.publish(name)) for name in range(8)] + [asyncio.create_task(load.consume())]
        async with asyncio.timeout(300):
            await load.is_warm.wait()
        os.kill(process.pid, number)
        code, logged = await ended(process)
        assert code == 0, logged
        assert [entry["event"] for entry in logged][-2:] == ["stopping", "drained"]
        assert [entry for entry in logged if entry["level"] in ("error", "critical")] == []
        results = await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), 60)
        assert [error for error in results if not isinstance(error, ortoo.OrtooError)] == []
    async with ortoo.open(tmp_path / "data") as queue:
        stored = [message.value async for message in queue.read("orders")]
        left: set[bytes] = set()
        while messages := await queue.lease("orders", group="billing", max_messages=10_000):
            left.update(message.value for message in messages)
    assert load.published <= set(stored)
    assert len(stored) == len(set(stored))
    assert not load.acked & left


async def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    async with a_server(data=tmp_path, drain_seconds=60) as (process, addresses):
        reader, writer = await asyncio.open_connection(*addresses["http"])
        writer.write(
            b"POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n{"
        )
        assert b"100" in await reader.readline()  # it is under way, and will never end
        os.kill(process.pid, signal.SIGTERM)
        assert process.stderr is not None
        logged = b""
        while b'"stopping"' not in logged:
            logged += await process.stderr.readline()
        assert process.returncode is None
        os.kill(process.pid, signal.SIGTERM)
        code, entries = await ended(process)
        assert code == 128 + signal.SIGTERM
        assert [entry["event"] for entry in entries] == ["a second signal: ending at once"]
        writer.close()


async def test_a_server_that_cannot_start_ends_with_one_error(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path), a_server(data=tmp_path) as (process, _):
        async with asyncio.timeout(300):
            _, complaint = await process.communicate()
        assert process.returncode == 1
        assert complaint.decode().splitlines()[-1].startswith("ortoo.model.errors.UnavailableError")


async def a_server_greeted_by(expression: str) -> Process:
    """In memory; when it is ready, that is done with `server`."""
    program = (
        "import sys\n"
        "from ortoo.app.server import run\n"
        "from ortoo.model.settings import HttpSettings, Settings, TcpSettings\n"
        "settings = Settings(data='memory', http=HttpSettings(port=0), tcp=TcpSettings(port=0))\n"
        f"sys.exit(run(settings, lambda server: {expression}))\n"
    )
    return await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=PIPE, stderr=PIPE)


async def test_a_server_whose_greeting_fails_closes_its_store() -> None:
    process = await a_server_greeted_by("1 / 0")
    async with asyncio.timeout(300):
        _, logged = await process.communicate()
    assert process.returncode == 1
    assert b'"drained"' in logged
    assert logged.rstrip().endswith(b"ZeroDivisionError: division by zero")


async def test_a_broker_that_broke_ends_the_process_so_that_it_is_started_again() -> None:
    process = await a_server_greeted_by("server.broker._committer.cancel()")
    code, logged = await ended(process)
    assert code == 70
    assert logged[-1]["level"] == "critical"
