"""A server that is killed again and again under load loses nothing it confirmed, and its clients hardly notice."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import ortoo
from ortoo.testing.history import Drained, Event, Sent, judge
from tests.ports import free_ports

from .customers import GROUPS, TOPIC, Customers


class Victim:
    """A server on fixed ports, so that clients find the next one where the last one was."""

    def __init__(self, data: Path) -> None:
        self.tcp_port, self.http_port = free_ports(2)
        self._data = data
        self._process: Process | None = None

    async def start(self) -> None:
        ports = ["--tcp-port", str(self.tcp_port), "--http-port", str(self.http_port)]
        arguments = ["-m", "ortoo", "serve", "--data", str(self._data), *ports, "--set", "log.level=error"]
        log = (self._data.parent / "log").open("ab")
        self._process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=DEVNULL, stderr=log)
        log.close()
        async with asyncio.timeout(300):
            while not await self._listens():
                assert self._process.returncode is None, (self._data.parent / "log").read_text()
                await asyncio.sleep(0.02)

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.tcp_port)
        except OSError:
            return False
        writer.close()
        return True

    async def kill(self) -> None:
        assert self._process is not None
        assert self._process.returncode is None, (self._data.parent / "log").read_text()
        self._process.kill()
        await self._process.wait()


async def live_and_die(folder: Path, seed: int, kills: int) -> list[Event]:
    """What the customers saw of a server that was killed so many times."""
    random, victim = Random(seed), Victim(folder / "data")
    await victim.start()
    customers = Customers(victim.tcp_port, victim.http_port, seed)
    await customers.make_topic()
    working = asyncio.create_task(customers.work())
    try:
        for _ in range(kills):
            await _until_confirmed(customers, working, customers.confirmed + 100)
            await asyncio.sleep(random.uniform(0, 0.5))  # the moment is the point
            await victim.kill()
            await victim.start()
        await _until_confirmed(customers, working, customers.confirmed + 100)
        customers.history.append(Drained())
        customers.closing.set()
        async with asyncio.timeout(300):
            await working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await victim.kill()
    return customers.history


async def _until_confirmed(customers: Customers, working: asyncio.Task[None], count: int) -> None:
    async with asyncio.timeout(300):
        while customers.confirmed < count:
            if working.done():
                working.result()
            await asyncio.sleep(0.01)


async def check(folder: Path, seed: int, kills: int) -> None:
    history = await live_and_die(folder, seed, kills)
    verdict = judge(history, GROUPS)
    assert verdict.faults() == {}, f"seed {seed}"
    assert verdict.published > 100 * kills
    assert (folder / "log").read_text() == ""
    async with ortoo.open(folder / "data") as queue:
        stored = Counter([message.value async for message in queue.read(TOPIC)])
        problems = (await queue.stats()).problems
        assert [problem for problem in problems if "were never confirmed" not in problem] == []
    sent = {event.value: event.outcome for event in history if isinstance(event, Sent)}
    assert [value for value, count in stored.items() if count > 1] == []  # also without a dedup id, over TCP
    assert [value for value, outcome in sent.items() if outcome == "ok" and value not in stored] == []
    assert stored.keys() <= sent.keys()
    assert set(sent.values()) == {"ok"}  # the server was back in time, and clients asked again by themselves


@pytest.mark.timeout(1800)
async def test_a_server_killed_under_load_loses_nothing_it_confirmed(tmp_path: Path) -> None:
    await check(tmp_path, seed=1, kills=3)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 110))
async def test_a_server_killed_many_times_loses_nothing_it_confirmed(tmp_path: Path, seed: int) -> None:
    await check(tmp_path, seed, kills=20)
