"""The queue on PostgreSQL, beside the queue on disk, and beside what others do there: rows with SKIP LOCKED, and pgmq's SQL.

All in one run on one server, so that ratios can be trusted where rates cannot. It syncs every commit, as it is delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count as counting
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import ortoo
from ortoo.app.clock import SystemClock
from ortoo.broker import Broker
from ortoo.stores.postgres import open_postgres
from ortoo.testing.private_postgres import PrivatePostgres, private_postgres

from .disk import SINGLES, TASKS, VALUE, measure
from .figures import Figure
from .settings import Settings

NAME, RESTART, SNAPSHOT = "postgres", "postgres, restart", "postgres, old snapshot"
OUTAGE = "postgres, away"
_OPTIONS = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "autovacuum_naptime": "1s",
    "enable_seqscan": "off",  # as for the comparison with others: it keeps SKIP LOCKED on its index, and steadier
    "enable_sort": "off",
}
_BARE = "create table bare (body bytea not null); alter table bare alter body set storage external"
_ROWS = "create table rows (id bigint generated always as identity primary key, value bytea not null)"
_INSERT = "insert into rows (value) select unnest($1::bytea[])"
_TAKE = """
    delete from rows where id = any (array(select id from rows order by id for update skip locked limit 1000)) returning value
"""
_PGMQ = """
    create table pgmq (msg_id bigint generated always as identity primary key, read_ct int not null default 0,
        enqueued_at timestamptz not null default now(), vt timestamptz not null, message jsonb);
    create index on pgmq (vt)
"""
_SEND = "insert into pgmq (vt, message) select clock_timestamp(), unnest($1::jsonb[]) returning msg_id"
_READ = """
    with cte as (select msg_id from pgmq where vt <= clock_timestamp() order by msg_id limit 1000 for update skip locked)
    update pgmq m set vt = clock_timestamp() + interval '30 s', read_ct = read_ct + 1 from cte where m.msg_id = cte.msg_id
    returning m.msg_id, m.message
"""
_DELETE = "delete from pgmq where msg_id = any($1::bigint[])"
SPILL_BYTES = 8 << 30  # a quiet machine fills the usual one before the database is back
Rates = dict[str, float]


@contextmanager
def _server() -> Iterator[PrivatePostgres]:
    with TemporaryDirectory() as folder, private_postgres(Path(folder), options=_OPTIONS) as server:
        yield server


def scenario(settings: Settings) -> list[Figure]:
    best: Rates = {}
    with TemporaryDirectory() as folder, _server() as server:
        for number in range(settings.repetitions):
            found = asyncio.run(_compare(Path(folder) / f"data{number}", server.url, number, settings))
            for what, value in found.items():
                best[what] = max(best.get(what, 0.0), value)
    ratios = {
        "publish in 1000s ÷ disk": best["publish"] / best["disk: publish"],
        "one by one ÷ disk": best["one by one"] / best["disk: one by one"],
        "publish in 1000s ÷ bare insert": best["publish"] / best["bare insert"],
        "cycle ÷ SKIP LOCKED": best["cycle"] / best["SKIP LOCKED: cycle"],
        "cycle ÷ pgmq's SQL": best["cycle"] / best["pgmq's SQL: cycle"],
    }
    rates = [Figure(NAME, what, rate) for what, rate in best.items()]
    return rates + [Figure(NAME, what, ratio, "ratio") for what, ratio in ratios.items()]


async def _compare(folder: Path, url: str, number: int, settings: Settings) -> Rates:
    disk = await measure(folder, "commit", settings)
    ours = await measure(f"{url}?schema=bench{number}", "commit", settings)
    amount = settings.disk_messages // 8
    skip_locked, pgmq = await _skip_locked(url, amount), await _pgmq(url, amount)
    return {
        "disk: publish": disk["publish bare values"],
        "disk: one by one": disk["one by one"],
        "disk: cycle": _cycle(disk),
        "publish": ours["publish bare values"],
        "one by one": ours["one by one"],
        "lease+ack": ours["lease+ack"],
        "cycle": _cycle(ours),
        "bare insert": await _bare(url, settings.disk_messages),
        "SKIP LOCKED: cycle": skip_locked,
        "pgmq's SQL: cycle": pgmq,
    }


def _cycle(rates: Rates) -> float:
    """Publish, lease and ack, one after the other."""
    return 1 / (1 / rates["publish bare values"] + 1 / rates["lease+ack"])


async def _rate(url: str, amount: int, publish: _Work, take: _Work) -> float:
    import asyncpg

    connections = [await asyncpg.connect(url) for _ in range(TASKS)]
    began = perf_counter()
    for work in (publish, take):
        await asyncio.gather(*(work(connection, amount // TASKS) for connection in connections))
    rate = amount // TASKS * TASKS / (perf_counter() - began)
    for connection in connections:
        await connection.close()
    return rate


_Work = Callable[[Any, int], Awaitable[None]]


async def _execute(url: str, sql: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    await connection.execute(sql)
    await connection.close()


async def _bare(url: str, amount: int) -> float:
    """The floor: the same bytes, as many at a time as a commit has, each time as one value of one row."""
    import asyncpg

    await _execute(url, f"drop table if exists bare; {_BARE}")
    connection, together = await asyncpg.connect(url), TASKS * 1000
    began = perf_counter()
    for _ in range(amount // together):
        await connection.execute("insert into bare values ($1)", b"".join([VALUE] * together))
    rate = amount // together * together / (perf_counter() - began)
    await connection.close()
    return rate


async def _skip_locked(url: str, amount: int) -> float:
    await _execute(url, f"drop table if exists rows; {_ROWS}")

    async def publish(connection: Any, each: int) -> None:
        for _ in range(each // 1000):
            await connection.execute(_INSERT, [VALUE] * 1000)

    async def take(connection: Any, _: int) -> None:
        while await connection.fetch(_TAKE):
            pass

    return await _rate(url, amount, publish, take)


async def _pgmq(url: str, amount: int) -> float:
    await _execute(url, f"drop table if exists pgmq; {_PGMQ}")
    text = '{"v": "' + VALUE.decode() + '"}'

    async def publish(connection: Any, each: int) -> None:
        for _ in range(each // 1000):
            await connection.fetch(_SEND, [text] * 1000)

    async def take(connection: Any, _: int) -> None:
        while rows := await connection.fetch(_READ):
            await connection.execute(_DELETE, [row[0] for row in rows])

    return await _rate(url, amount, publish, take)


# -- how long it takes to open


def restart(settings: Settings) -> list[Figure]:
    """With as many messages pending as are left behind by publishing in 1000s, and one by one."""
    amount, found = settings.restart_messages, []
    with _server() as server:
        for kind in ("in 1000s", "one by one"):
            url = f"{server.url}?schema=restart_{kind.replace(' ', '_')}"
            seconds = asyncio.run(_restart(url, kind, amount))
            found.append(Figure(RESTART, f"{amount:,} pending, published {kind}", 1000 * seconds, "ms"))
    return found


async def _restart(url: str, kind: str, amount: int) -> float:
    async with ortoo.open(url) as queue:
        await queue.create_topic("bench", ordering="none")
        numbers = counting()

        async def publish_many() -> None:
            while next(numbers) < amount // 1000:
                await queue.publish_many("bench", [VALUE] * 1000)

        async def publish() -> None:
            while next(numbers) < amount:
                await queue.publish("bench", VALUE)

        tasks = [publish_many() for _ in range(TASKS)] if kind == "in 1000s" else [publish() for _ in range(SINGLES)]
        await asyncio.gather(*tasks)
    began = perf_counter()
    async with ortoo.open(url) as queue:
        seconds = perf_counter() - began
        assert len(await queue.lease("bench", max_messages=10)) == 10
        return seconds


# -- the database goes away


def outage(settings: Settings) -> list[Figure]:
    """Publishing before and while the database is killed, and again when it is back; with a spill."""
    seconds = settings.outage_seconds
    with TemporaryDirectory() as folder, _server() as server:
        times = asyncio.run(_publish_through(server, Path(folder), seconds))
    before, away, after = (_within(times, part * seconds, (part + 1) * seconds) for part in range(3))
    gap = max(later - earlier for earlier, later in pairwise([0.0, *times]))
    return [
        Figure(OUTAGE, "publish in 1000s, before", before * 1000 / seconds),
        Figure(OUTAGE, "while it is away", away * 1000 / seconds),
        Figure(OUTAGE, "when it is back", after * 1000 / seconds),
        Figure(OUTAGE, "away ÷ before", away / before, "ratio"),
        Figure(OUTAGE, "longest gap", gap * 1e3, "ms"),
    ]


def _within(times: list[float], start: float, end: float) -> int:
    return sum(start <= time < end for time in times)


async def _publish_through(server: PrivatePostgres, folder: Path, seconds: float) -> list[float]:
    """When each thousand was confirmed."""
    times: list[float] = []
    store = open_postgres(server.url, spill=folder, spill_bytes=SPILL_BYTES)
    async with ortoo.Queue(Broker(store, SystemClock())) as queue:
        await queue.create_topic("bench", ordering="none")
        await queue.publish_many("bench", [VALUE] * 1000)
        began = perf_counter()

        async def publish() -> None:
            while perf_counter() - began < 3 * seconds:
                await queue.publish_many("bench", [VALUE] * 1000)
                times.append(perf_counter() - began)

        async def weather() -> None:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(2 * seconds - (perf_counter() - began))
            await asyncio.to_thread(server.start)

        await asyncio.gather(publish(), weather())
        published = 1000 * (len(times) + 1)
        counted = (await queue.topic("bench")).messages
        assert counted == published, f"{published} were confirmed, and {counted} are there"
    return times


# -- somebody holds a snapshot for long


def old_snapshot(settings: Settings) -> list[Figure]:
    """What a commit takes at first, and after many, while a transaction has been open from the beginning.

    Another database, whose rows the snapshot does not keep, takes turns with it: what slows that one down, too, is left out.
    """
    commits = settings.single_messages * 3 // 10
    with _server() as server:
        held, free = asyncio.run(_held(server.url, commits))
    some = min(1_000, commits // 4)
    early, late = _median(held[:some]), _median(held[-some:])
    return [
        Figure(SNAPSHOT, "commit at first", early * 1e3, "ms"),
        Figure(SNAPSHOT, f"commit after {commits:,}", late * 1e3, "ms"),
        Figure(SNAPSHOT, "the same without a snapshot", _median(free[-some:]) * 1e3, "ms"),
        Figure(SNAPSHOT, "after ÷ at first", late / early * _median(free[:some]) / _median(free[-some:]), "ratio"),
    ]


async def _held(url: str, commits: int) -> tuple[list[float], list[float]]:
    """The seconds of each commit with the snapshot, and without."""
    import asyncpg

    await _execute(url, "create database free")
    holder = await asyncpg.connect(url)
    times: tuple[list[float], list[float]] = [], []
    async with ortoo.open(url) as held, ortoo.open(url.rsplit("/", 1)[0] + "/free") as free:
        for queue in (held, free):
            await queue.create_topic("bench", ordering="none")
            await queue.publish("bench", VALUE)
        async with holder.transaction(isolation="repeatable_read"):
            await holder.fetch("select count(*) from ortoo.batches")
            for _ in range(commits):
                for queue, taken in zip((held, free), times, strict=True):
                    began = perf_counter()
                    await queue.publish("bench", VALUE)
                    taken.append(perf_counter() - began)
    await holder.close()
    return times


def _median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]
