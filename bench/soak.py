"""`python -m bench.soak --minutes 60`: a server under mixed load for a long time; what grows, what stalls, what gets lost.

Keys, delays, times to live, dedup ids, transactions, dead letters and their redrive, requests, topics and subscribers that
come and go, at a steady rate through one connection. A line tells every minute what the server takes and how long its longest
turn and commit were. In the end everything is drained, and every message that was confirmed must have been delivered. With
`--outages 25` it is on a PostgreSQL of its own, which is killed every 25 seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any
from urllib.request import urlopen

import msgspec
import uvloop

import ortoo
from bench.live.ortoo_tcp import Served, serving
from ortoo.model.errors import FullError, UnavailableError
from ortoo.testing.private_postgres import PrivatePostgres, private_postgres

Weather = Callable[[], Awaitable[None]]
_KEPT_SECONDS = 60  # of the logs, so that what is retained stays the same after the first minutes
_CHECKED = ("orders", "later", "once", "invoices", "fifo")
_DRAIN_SECONDS = 120


class Sample(msgspec.Struct):
    minute: float
    megabytes: float
    descriptors: int
    turn_ms: float  # the longest of the last minute
    commit_ms: float  # the upper bound of the slowest commit so far
    disk_megabytes: float
    published: int
    handled: int


class Soak:
    def __init__(self, queue: ortoo.Queue, seed: int) -> None:
        self.queue = queue
        self.random = Random(seed)
        self.is_over = False
        self.confirmed: set[bytes] = set()  # that a consumer must still get
        self.due_early: set[bytes] = set()  # got before the producer knew that it was published
        self.handled = 0
        self.published = 0
        self.did: Counter[str] = Counter()
        self._number = 0

    async def prepare(self) -> None:
        kept: dict[str, Any] = {"retention_seconds": _KEPT_SECONDS, "durability": "interval"}
        await self.queue.create_topic("orders", backoff_initial=0.2, max_attempts=2, **kept)
        await self.queue.create_topic("later", ordering="none", **kept)
        await self.queue.create_topic("once", dedup_window=30, **kept)
        await self.queue.create_topic("brief", **kept)
        await self.queue.create_topic("invoices", **kept)
        await self.queue.create_topic("questions", ordering="none", **kept)
        await self.queue.create_topic("fifo", ordering="partition", partitions=3, **kept)

    def value(self, topic: str) -> bytes:
        self._number += 1
        return b"%d %s %s" % (
            self._number,
            topic.encode(),
            self.random.randbytes(self.random.choice([10, 100, 1000])).hex().encode(),
        )

    def confirm(self, values: set[bytes]) -> None:
        self.confirmed |= values - self.due_early
        self.due_early -= values

    # -- producers

    async def publish(self, topic: str, **fields: object) -> None:
        messages = [
            ortoo.Message(self.value(topic), key=f"k{self.random.randrange(500)}", **fields)  # type: ignore[arg-type]
            for _ in range(self.random.randrange(1, 50))
        ]
        await self.queue.publish_many(topic, messages)
        self.published += len(messages)
        if "ttl" not in fields:
            self.confirm({bytes(message.value) for message in messages})  # type: ignore[arg-type]
        self.did["published"] += len(messages)

    async def publish_twice(self) -> None:
        value, dedup_id = self.value("once"), f"d{self._number}"
        for _ in range(2):
            await self.queue.publish("once", value, dedup_id=dedup_id)
        self.confirm({value})
        self.published += 1
        self.did["published twice"] += 1

    async def stage(self) -> None:
        """A named transaction, committed or aborted."""
        values = [self.value("invoices") for _ in range(100)]
        transaction = await self.queue.begin(f"t{self._number}")
        for start in range(0, 100, 20):
            await transaction.publish_many("invoices", values[start : start + 20])
        if self.random.random() < 0.3:
            await transaction.abort()
            self.did["aborted"] += 1
        else:
            await transaction.commit()
            self.confirm(set(values))
            self.published += len(values)
            self.did["committed"] += 1

    async def come_and_go(self) -> None:
        """A topic that is made, used and deleted; a subscriber that listens for a while."""
        name = f"passing-{self._number}-{self.random.randrange(1 << 30)}"
        await self.queue.publish_many(name, [self.value(name) for _ in range(100)])
        await self.queue.ack(await self.queue.lease(name, max_messages=50))
        await self.queue.delete_topic(name)
        heard = 0
        async with asyncio.timeout(5):
            async for _ in self.queue.subscribe("orders"):
                heard += 1
                if heard >= 5:
                    break
        self.did["came and went"] += 1

    async def ask(self) -> None:
        await self.queue.request("questions", b"how are you?", timeout=30)
        self.did["answered"] += 1

    async def redrive(self) -> None:
        self.did["redriven"] += await self.queue.redrive("orders")

    # -- consumers

    async def consume(self, topic: str, fails: float = 0.0) -> None:
        while not self.is_over:
            try:
                await self._consume(topic, fails)
            except ortoo.LeaseLostError:  # a failed message takes the later ones of its key with it
                self.did["leases lost"] += 1
            except (
                FullError,
                UnavailableError,
            ) as error:  # while its database is away; what was not settled comes again
                self.did[f"{type(error).__name__} of a consumer"] += 1
                await asyncio.sleep(0.2)

    async def _consume(self, topic: str, fails: float) -> None:
        messages = await self.queue.lease(topic, max_messages=200, wait=1, lease=20)
        failed = [message for message in messages if self.random.random() < fails]
        bad = {message.id for message in failed}
        good = [message for message in messages if message.id not in bad]
        if good:
            await self._finish(topic, good)
        if failed:
            await self.queue.nack(failed, error="a try")

    async def _finish(self, topic: str, messages: list[ortoo.Received]) -> None:
        if topic == "once" and self.random.random() < 0.2:
            async with self.queue.transaction() as transaction:
                for message in messages:
                    transaction.ack(message)
                transaction.publish("fifo", b"done")
        elif topic == "questions":
            for message in messages:
                await self.queue.reply(message, b"fine")
            await self.queue.ack(messages)
        else:
            await self.queue.ack(messages)
        self.handled += len(messages)
        if topic in _CHECKED:
            values = {message.value for message in messages}
            self.due_early |= values - self.confirmed
            self.confirmed -= values

    async def repeat(self, what: Callable[[], Awaitable[None]], pause: float) -> None:
        while not self.is_over:
            try:
                await what()
            except TimeoutError:
                pass
            except ortoo.OrtooError as error:  # told in the end; the load goes on
                self.did[f"{type(error).__name__}: {str(error)[:80]}"] += 1
            await asyncio.sleep(pause * self.random.uniform(0.5, 1.5))


def sample(served: Served, soak: Soak, began: float, folder: Path) -> Sample:
    status = Path(f"/proc/{served.pid}/status").read_text()
    with urlopen(f"http://127.0.0.1:{served.http_port}/metrics", timeout=30) as answer:
        metrics = answer.read().decode()
    turn = re.search(r"^ortoo_event_loop_longest_turn_seconds (\S+)", metrics, re.MULTILINE)
    buckets = re.findall(r'^ortoo_commit_seconds_bucket\{le="([^"]+)"\} (\S+)', metrics, re.MULTILINE)
    slowest = next((bound for bound, count in buckets if float(count) == float(buckets[-1][1])), "nan")
    return Sample(
        (monotonic() - began) / 60,
        int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024,
        len(list(Path(f"/proc/{served.pid}/fd").iterdir())),
        float(turn.group(1)) * 1000 if turn else float("nan"),
        float(slowest) * 1000,
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6,
        soak.published,
        soak.handled,
    )


async def run(served: Served, folder: Path, minutes: float, seed: int, weather: Weather | None = None) -> bool:
    began, samples = monotonic(), list[Sample]()
    async with ortoo.connect(served.url) as queue:
        soak = Soak(queue, seed)
        await soak.prepare()
        producing = [
            soak.repeat(lambda: soak.publish("orders"), 0.05),
            soak.repeat(lambda: soak.publish("fifo"), 0.2),
            soak.repeat(lambda: soak.publish("later", delay=soak.random.uniform(0.1, 20)), 0.2),
            soak.repeat(lambda: soak.publish("brief", ttl=2), 0.2),
            soak.repeat(soak.publish_twice, 0.02),
            soak.repeat(soak.stage, 1),
            soak.repeat(soak.come_and_go, 0.5),
            soak.repeat(soak.ask, 0.1),
            soak.repeat(soak.redrive, 20),
        ]
        consuming = [
            soak.consume("orders", fails=0.05),
            soak.consume("orders", fails=0.05),
            *(soak.consume(topic) for topic in ("later", "once", "invoices", "questions", "fifo", "fifo")),
        ]
        tasks = [asyncio.ensure_future(one) for one in producing]
        if weather is not None:
            tasks.append(asyncio.ensure_future(weather()))
        consumers = [asyncio.ensure_future(one) for one in consuming]
        while monotonic() - began < minutes * 60:
            await asyncio.sleep(min(60.0, max(1.0, minutes * 60 - (monotonic() - began))))
            samples.append(await asyncio.to_thread(sample, served, soak, began, folder))
            sys.stdout.write(msgspec.json.encode(samples[-1]).decode() + "\n")
            sys.stdout.flush()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        lost = await _drain(soak)
        soak.is_over = True
        ended = await asyncio.gather(*consumers, return_exceptions=True)
        failures = [repr(one) for one in ended if isinstance(one, BaseException)]
        problems = (await queue.stats()).problems
    return _tell(samples, soak, lost, failures, problems)


async def _outages(database: PrivatePostgres, every: float) -> None:
    """Each lasts as long as a tenth of the time between them."""
    while True:
        await asyncio.sleep(every)
        await asyncio.to_thread(database.kill)
        try:
            await asyncio.sleep(every / 10)
        finally:
            await asyncio.to_thread(database.start)


async def _drain(soak: Soak) -> int:
    """How many that were confirmed nobody got. Dead letters are given to their group again."""
    until = monotonic() + _DRAIN_SECONDS
    while soak.confirmed and monotonic() < until:
        await soak.redrive()
        await asyncio.sleep(1)
    for value in [*soak.confirmed][:5]:
        sys.stdout.write(f"! not delivered: {value[:20]!r}\n")
    return len(soak.confirmed)


def _tell(samples: list[Sample], soak: Soak, lost: int, failures: list[str], problems: list[str]) -> bool:
    third = max(1, len(samples) // 3)
    early, late = samples[third : 2 * third] or samples, samples[-third:]
    for what in ("megabytes", "descriptors", "disk_megabytes"):
        before, after = (median(getattr(one, what) for one in part) for part in (early, late))
        sys.stdout.write(f"{what}: {before:.1f} in the middle third, {after:.1f} in the last\n")
    sys.stdout.write(f"longest turn: {max(one.turn_ms for one in samples):.1f} ms of processor time\n")
    sys.stdout.write(f"longest commit: at most {samples[-1].commit_ms:.0f} ms\n")
    sys.stdout.write(f"published {soak.published}, handled {soak.handled}, lost {lost}\n")
    for what, count in sorted(soak.did.items()):
        sys.stdout.write(f"  {what}: {count}\n")
    for failure in [*failures, *problems]:
        sys.stdout.write(f"! {failure}\n")
    return lost == 0 and not failures and not problems


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--store", metavar="URL", action="append", default=[], help="postgres://…; by default a directory"
    )
    parser.add_argument(
        "--outages", metavar="SECONDS", type=float, help="kill a PostgreSQL of its own as often, and start it again"
    )
    options = parser.parse_args()
    with TemporaryDirectory(prefix="ortoo-soak-") as folder, ExitStack() as running:
        Path(folder).chmod(0o711)
        stores, weather = list(options.store), None
        if options.outages is not None:
            database = running.enter_context(private_postgres(Path(folder) / "database"))
            stores.append(database.url)
            weather = partial(_outages, database, options.outages)
        served = running.enter_context(serving(Path(folder), *[word for url in stores for word in ("--store", url)]))
        is_good = uvloop.run(run(served, Path(folder), options.minutes, options.seed, weather))
        log = (Path(folder) / "ortoo.log").read_text()
    if log.strip():
        sys.stdout.write(f"the server's log:\n{log[-4000:]}\n")
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
