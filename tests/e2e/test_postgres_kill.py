"""Real processes on a real PostgreSQL: the queue's is killed, and the database's, again and again. Nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import pytest

import ortoo
from ortoo.testing.private_postgres import PrivatePostgres, private_postgres
from tests.stores.failover import Pair

ROUNDS, NUMBERS = 4, 25


@pytest.fixture
def postgres() -> Iterator[PrivatePostgres]:
    """Not in a folder of pytest, which no other user may enter: as root, it runs as another."""
    with TemporaryDirectory() as folder, private_postgres(Path(folder)) as server:
        yield server


class Load:
    """The program, and what it has said was confirmed."""

    def __init__(self, url: str, spill: Path | None = None) -> None:
        self._url = url
        self._spill = () if spill is None else (str(spill),)
        self.confirmed: list[int] = []

    def start(self) -> None:
        first = self.confirmed[-1] + 1 if self.confirmed else 0
        command = [sys.executable, "-m", "tests.e2e.postgres_load", self._url, str(first), *self._spill]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}
        )

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def take(self, count: int) -> None:
        """Until so many more are confirmed."""
        for _ in range(count):
            line = self._output.readline()
            assert line, "the program has ended"
            self.confirmed.append(int(line))

    def kill(self) -> None:
        self._process.kill()
        self.confirmed += [int(line) for line in self._output if line.endswith("\n")]
        self._process.wait()
        self._output.close()


async def drained(url: str, spill: Path | None = None) -> list[int]:
    async with ortoo.open(url, spill=spill) as queue:
        found: list[int] = []
        while messages := await queue.lease("numbers", max_messages=1000):
            found += [int(message.value) for message in messages]
            await queue.ack(messages)
        return found


def judge(load: Load, found: list[int]) -> None:
    """What was confirmed is there; nothing twice; in order; and at most the one that was under way beside it."""
    assert found == list(range(len(found)))
    assert load.confirmed == list(range(len(load.confirmed)))
    assert len(load.confirmed) <= len(found) <= len(load.confirmed) + 1


def test_a_queue_that_is_killed_loses_and_doubles_nothing(postgres: PrivatePostgres) -> None:
    load = Load(postgres.url)
    for _ in range(ROUNDS):
        load.start()
        load.take(NUMBERS)
        load.kill()
    judge(load, asyncio.run(drained(postgres.url)))


def test_a_database_that_is_killed_or_restarted_loses_and_doubles_nothing(postgres: PrivatePostgres) -> None:
    """The queue's process goes on: it comes back by itself."""
    load = Load(postgres.url)
    load.start()
    for number in range(ROUNDS):
        load.take(NUMBERS)
        if number % 2:
            postgres.stop()
        else:
            postgres.kill()
        postgres.start()
    load.take(NUMBERS)
    load.kill()
    judge(load, asyncio.run(drained(postgres.url)))


@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.soak)])
def test_a_queue_that_is_killed_while_it_spills_and_while_it_drains(
    postgres: PrivatePostgres, tmp_path: Path, rounds: int
) -> None:
    load = Load(postgres.url, tmp_path)
    for number in range(rounds):
        load.start()
        load.take(NUMBERS)
        if number % 2:
            postgres.stop()
        else:
            postgres.kill()
        load.take(4 * NUMBERS)  # all of them are in the spill
        if number % 2:  # killed while it spills
            load.kill()
            postgres.start()
        else:  # killed while it drains, or soon after
            postgres.start()
            load.take(2 + number)
            load.kill()
    judge(load, asyncio.run(drained(postgres.url, tmp_path)))


async def test_a_queue_that_is_killed_in_a_failover_tells_what_can_be_known_when_it_is_opened(tmp_path: Path) -> None:
    """The standby was behind: what waits in the spill cannot be moved, and tells from where on commits are missing."""
    with TemporaryDirectory() as folder:
        pair = Pair(Path(folder))
        pair.start()
        try:
            standby = await pair.follow()
            hosts = f"127.0.0.1:{pair.primary.port},127.0.0.1:{standby.port}"
            url = f"postgresql://queue@{hosts}/postgres?target_session_attrs=primary"
            load = Load(url, tmp_path)
            load.start()
            await asyncio.to_thread(load.take, NUMBERS)
            await pair.follow()
            await pair.cut()
            await asyncio.to_thread(load.take, NUMBERS)  # these only the primary has
            await pair.lose_primary()
            await asyncio.to_thread(load.take, NUMBERS)  # these only the spill has
            await asyncio.to_thread(load.kill)
            await pair.fail_over()
            async with ortoo.open(url, spill=tmp_path) as queue:
                problems = " ".join((await queue.stats()).problems)
                found = [int(message.value) async for message in queue.read("numbers")]
                assert found == list(range(len(found)))
                assert NUMBERS <= len(found) < len(load.confirmed)
                told = re.search(
                    r"commits (\d+) to (\d+), .* could not be moved .* it has commits up to (\d+), and (\d+) was",
                    problems,
                )
                assert told is not None, problems
                first, last, there, before = map(int, told.groups())
                assert there < before == first - 1 < last
                offsets = re.search(r"'numbers', partition 0: offsets (\d+) to (\d+)", problems)
                assert offsets is not None, problems
                assert int(offsets[1]) > len(found)
                assert int(offsets[2]) >= load.confirmed[-1]
        finally:
            pair.kill()


def test_a_server_that_is_stopped_while_its_database_is_away_loses_nothing(
    postgres: PrivatePostgres, tmp_path: Path
) -> None:
    async def run() -> None:
        async with ortoo.open(postgres.url, spill=tmp_path) as queue:
            await queue.create_topic("numbers", partitions=1, ordering="strict")
            await queue.publish("numbers", b"0")
            postgres.stop()
            for number in range(1, 10):
                await queue.publish("numbers", b"%d" % number)

    asyncio.run(run())
    with pytest.raises(ortoo.UnavailableError, match="commits that were confirmed wait in"):
        asyncio.run(drained(postgres.url, tmp_path))
    postgres.start()
    assert asyncio.run(drained(postgres.url, tmp_path)) == list(range(10))
