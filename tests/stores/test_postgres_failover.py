"""Real failovers: the primary is killed, and a standby takes over that had it all, or was behind. What is gone is told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ortoo import Queue, Received
from ortoo.app.clock import SystemClock
from ortoo.broker import Broker
from ortoo.broker.showing import projection_of
from ortoo.model.errors import OutcomeUnknownError, UnavailableError
from ortoo.stores.postgres import PostgresStore, front, open_postgres

from .failover import HANGS_S, Pair, sql_at
from .going_back import until

_schemas = count()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Not in a folder of pytest, which no other user may enter."""
    with TemporaryDirectory() as folder:
        found = Pair(Path(folder))
        found.start()
        yield found
        found.kill()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "RETRY_S", 0.005)
    monkeypatch.setattr(front, "RETRY_MAX_S", 0.02)


@asynccontextmanager
async def opened(url: str, spill: Path | None) -> AsyncIterator[tuple[Queue, Broker, PostgresStore]]:
    store = open_postgres(url, spill=spill)
    broker = Broker(store, SystemClock())
    async with Queue(broker) as queue:
        yield queue, broker, store


@asynccontextmanager
async def address(pair: Pair, hosts: bool = False) -> AsyncIterator[str]:
    """`hosts`: both servers are named, and the client finds the one that takes commits."""
    schema = f"schema=s{next(_schemas)}"
    if not hosts:
        async with pair.address() as url:
            yield f"{url}?{schema}"
        return
    standby = await pair.follow()
    both = f"127.0.0.1:{pair.primary.port},127.0.0.1:{standby.port}"
    yield f"postgresql://queue@{both}/postgres?target_session_attrs=primary&{schema}"


def lost(broker: Broker) -> set[int]:
    """Offsets of topic t that are told to be gone."""
    spans = [
        span
        for problem in broker.problems()
        if "confirmed" in problem
        for span in re.findall(r"'t', partition 0: offsets (\d+) to (\d+)", problem)
    ]
    return {offset for first, last in spans for offset in range(int(first), int(last) + 1)}


async def confirmed(queue: Queue, value: int) -> int | None:
    """Where it lies once it is confirmed; None when it is not known whether it was published."""
    async with asyncio.timeout(HANGS_S):
        while True:
            try:
                return (await queue.publish("t", b"%d" % value)).offset
            except OutcomeUnknownError:
                return None
            except UnavailableError:  # try again
                await asyncio.sleep(0.005)


async def looks(broker: Broker) -> None:
    """As every few seconds, while nobody does anything."""
    projection = projection_of(broker)
    assert projection is not None
    async with asyncio.timeout(HANGS_S):
        while not broker.meters.recoveries:
            projection._rounds = 4
            try:
                await projection._look()
            except OSError:  # its connections have just ended
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)
    await until(lambda: broker.refusal is None)


async def stored(queue: Queue) -> dict[int, int]:
    return {message.offset: int(message.value) async for message in queue.read("t")}


@pytest.mark.parametrize("spills", [False, True])
async def test_an_idle_queue_tells_what_a_standby_that_was_behind_does_not_have(
    pair: Pair, tmp_path: Path, spills: bool
) -> None:
    async with address(pair) as url, opened(url, tmp_path if spills else None) as (queue, broker, _):
        await queue.create_topic("t", partitions=1, ordering="strict")
        await queue.publish("t", b"0")
        await pair.follow()
        await pair.cut()
        for value in (1, 2, 3):
            await queue.publish("t", b"%d" % value)
        await pair.lose_primary()
        await pair.fail_over()
        await looks(broker)
        assert lost(broker) == {1, 2, 3}, broker.problems()
        assert any("commits 4 to 6" in one for one in broker.problems()), broker.problems()
        assert (await queue.publish("t", b"4")).offset == 1
        assert await stored(queue) == {0: 0, 1: 4}


@pytest.mark.parametrize("hosts", [False, True])
@pytest.mark.parametrize("spills", [False, True])
@pytest.mark.parametrize("is_behind", [False, True])
async def test_under_load_what_was_confirmed_is_there_or_told_to_be_gone(
    pair: Pair, tmp_path: Path, spills: bool, hosts: bool, is_behind: bool
) -> None:
    """One commit after the other, through the failover and on: in order, and nothing twice."""
    async with address(pair, hosts) as url, opened(url, tmp_path if spills else None) as (queue, broker, store):
        await queue.create_topic("t", partitions=1, ordering="strict")
        values, gone, placed = count(), list[int](), list[tuple[int, int | None]]()

        async def publish(some: int) -> None:
            for _ in range(some):
                value = next(values)
                placed.append((value, await confirmed(queue, value)))

        await pair.follow()
        await publish(20)
        await pair.follow()
        if is_behind:
            await pair.cut()
            await publish(20)
        load = asyncio.create_task(publish(200 if spills else 5))
        await pair.lose_primary()
        if spills:
            await load
        await pair.fail_over()
        await load
        assert store.front is None or store.front.is_open
        async with asyncio.timeout(HANGS_S):  # until it writes to the new primary, and knows what that has
            while broker.refusal is not None or not (store.front is None or store.front.is_clear):
                await publish(1)
        await publish(20)
        found = await stored(queue)
        told = lost(broker)
        gone = [value for value, offset in placed if offset is not None and value not in found.values()]
        assert len(set(found.values())) == len(found), "doubled"
        assert list(found.values()) == sorted(found.values()), "out of order"
        assert gone or not is_behind  # what was confirmed in the last moment may be gone in any case
        assert all(offset in told for value, offset in placed if value in gone), (gone, told, broker.problems())
        leased = [int(one.value) async for one in _leased(queue)]
        assert leased == list(found.values())


async def _leased(queue: Queue) -> AsyncIterator[Received]:
    while messages := await queue.lease("t", max_messages=1000):
        for message in messages:
            yield message
        await queue.ack(messages)


async def test_an_idle_queue_that_spilled_begins_again_by_itself(pair: Pair, tmp_path: Path) -> None:
    """Nobody publishes any more, so no commit finds out that what it has in the spill can never be moved."""
    async with address(pair) as url, opened(url, tmp_path) as (queue, broker, _):
        await queue.create_topic("t", partitions=1, ordering="strict")
        await queue.publish("t", b"0")
        await pair.follow()
        await pair.cut()
        await queue.publish("t", b"1")
        await pair.lose_primary()
        await queue.publish("t", b"2")
        await pair.fail_over()
        await looks(broker)
        assert lost(broker) == {1, 2}, broker.problems()
        assert await stored(queue) == {0: 0}
        assert (await queue.publish("t", b"3")).offset == 1


@pytest.mark.parametrize("spills", [False, True])
async def test_what_waits_for_a_synchronous_standby_is_there_after_a_failover(
    pair: Pair, tmp_path: Path, spills: bool
) -> None:
    async with address(pair) as url, opened(url, tmp_path if spills else None) as (queue, broker, _):
        await queue.create_topic("t", partitions=1, ordering="strict")
        await pair.demand()
        at = [await confirmed(queue, value) for value in range(20)]
        load = asyncio.create_task(confirmed(queue, 20))
        await asyncio.sleep(0)
        await pair.lose_primary()
        await pair.fail_over()
        at += [await load, *[await confirmed(queue, value) for value in range(21, 30)]]
        found = await stored(queue)
        assert [value for value in range(30) if at[value] is not None and value not in found.values()] == []
        assert list(found.values()) == sorted(set(found.values()))
        assert not lost(broker)


@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
async def test_a_commit_whose_wait_for_the_standby_is_ended_is_not_confirmed_before_it_has_it(
    pair: Pair, how: str
) -> None:
    """It was committed, and only there: it has neither failed, nor is it safe."""
    async with address(pair) as url, opened(url, None) as (queue, broker, _):
        await queue.create_topic("t", partitions=1, ordering="strict")
        await pair.demand()
        standby = pair.standby
        assert standby is not None
        await asyncio.to_thread(standby.kill)
        publish = asyncio.create_task(queue.publish("t", b"0"))
        first = await pair.waiting()
        async with sql_at(pair.primary) as sql:
            await sql.execute(f"select {how}({first})")
        await pair.waiting(first)
        assert not publish.done()
        await asyncio.to_thread(standby.start)
        assert (await publish).offset == 0
        await pair.lose_primary()
        await pair.fail_over()
        assert await confirmed(queue, 1) in (1, None)
        assert (await stored(queue))[0] == 0
        assert not lost(broker)
