"""The longest time in which a queue with a spill confirms nothing, for each way in which its database can fail under load."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import ortoo
from ortoo.testing.private_postgres import PrivatePostgres, private_postgres

from .figures import Figure
from .settings import Settings

NAME = "postgres, outages"
_VALUE = bytes(100)
_CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'ortoo%'"


def scenario(settings: Settings) -> list[Figure]:
    found = []
    for what, weather in WEATHER.items():
        with TemporaryDirectory() as folder:
            Path(folder).chmod(0o711)
            with private_postgres(Path(folder) / "db1") as server:
                gap = asyncio.run(_longest_gap(server, Path(folder), weather, settings.outage_seconds))
        found.append(Figure(NAME, f"longest gap, {what}", gap * 1e3, "ms"))
    return found


Weather = Callable[[PrivatePostgres, PrivatePostgres, float], Awaitable[None]]


async def _longest_gap(server: PrivatePostgres, folder: Path, weather: Weather, seconds: float) -> float:
    """Of publishing one by one. The standby has every commit before it is confirmed."""
    standby = await asyncio.to_thread(server.make_standby, folder / "db2")
    hosts = f"127.0.0.1:{server.port},127.0.0.1:{standby.port}"
    times: list[float] = []
    try:
        await _execute(server, "alter system set synchronous_standby_names = 'db2'", "select pg_reload_conf()")
        url = f"postgresql://queue@{hosts}/postgres?target_session_attrs=primary"
        async with ortoo.open(url, spill=folder / "spill") as queue:
            await queue.create_topic("bench", ordering="none")
            is_over = False

            async def publish() -> None:
                while not is_over:
                    await queue.publish("bench", _VALUE)
                    times.append(perf_counter())

            load = asyncio.create_task(publish())
            await asyncio.sleep(seconds / 2)
            await weather(server, standby, seconds)
            await asyncio.sleep(seconds / 2)
            is_over = True
            await load
            counted = (await queue.topic("bench")).messages
            assert counted == len(times), f"{len(times)} were confirmed, and {counted} are there"
    finally:
        standby.kill()
    return max(later - earlier for earlier, later in pairwise(times))


async def _execute(server: PrivatePostgres, *statements: str) -> None:
    import asyncpg

    connection: Any = await asyncpg.connect(server.url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def _stopped(server: PrivatePostgres, standby: PrivatePostgres, seconds: float) -> None:
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(server.start)


async def _killed(server: PrivatePostgres, standby: PrivatePostgres, seconds: float) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(server.start)


async def _paused(server: PrivatePostgres, standby: PrivatePostgres, seconds: float) -> None:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    everybody = [server.pid, *map(int, children)]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(seconds)
    for pid in everybody:
        os.kill(pid, signal.SIGCONT)


async def _cut(server: PrivatePostgres, standby: PrivatePostgres, seconds: float) -> None:
    for _ in range(10):
        await _execute(server, _CUT)
        await asyncio.sleep(seconds / 10)


async def _without_standby(server: PrivatePostgres, standby: PrivatePostgres, seconds: float) -> None:
    await asyncio.to_thread(standby.kill)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(standby.start)


async def _failed_over(server: PrivatePostgres, standby: PrivatePostgres, seconds: float) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(standby.promote)
    await asyncio.sleep(seconds)


WEATHER: dict[str, Weather] = {
    "it is stopped and started": _stopped,
    "it is killed and started": _killed,
    "it is paused": _paused,
    "its connections are cut": _cut,
    "its synchronous standby is away": _without_standby,
    "it is killed and fails over": _failed_over,
}
