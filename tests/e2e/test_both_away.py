"""A server with two shards on two databases, and a Redis: both databases are killed, and Redis, and the server. Nothing is lost
or doubled, keys keep their order, and the longest time in which a topic confirmed nothing is printed (`pytest -s`)."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TypeVar

import pytest

import ortoo
from ortoo import OrtooError
from ortoo.model.names import TopicName
from ortoo.model.shards import shard_of
from ortoo.testing.private_postgres import PrivatePostgres, private_postgres
from ortoo.testing.private_redis import PrivateRedis, private_redis

HANGS_S, KEYS = 180, 3
T = TypeVar("T")


def topic_in(shard: int) -> str:
    return next(name for number in count() if shard_of(TopicName("default", name := f"t{number}"), 2) == shard)


class World:
    def __init__(self, folder: Path, databases: list[PrivatePostgres], redis: PrivateRedis) -> None:
        self.databases, self.redis = databases, redis
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self._server: subprocess.Popen[bytes] | None = None
        self.url = f"ortoo://127.0.0.1:{self._port}"
        self.sent: dict[str, int] = defaultdict(int)  # topic: how many were confirmed
        self.times: dict[str, list[float]] = defaultdict(list)  # when

    def start(self) -> None:
        command = [sys.executable, "-m", "ortoo", "serve", "--data", str(self._folder / "data"), "--http-port", "0"]
        command += ["--set", "mqtt.enabled=false"]
        command += ["--tcp-port", str(self._port), "--redis", self.redis.url, "--spill", str(self._folder / "spill")]
        for database in self.databases:
            command += ["--store", database.url]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    async def _connect(self) -> ortoo.Queue:
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)  # it is up
        writer.close()
        return ortoo.connect(self.url)

    async def publish(self, queue: ortoo.Queue, topic: str) -> None:
        """One after the other, for ever. What is not known to be confirmed is sent again."""
        while True:
            number = self.sent[topic]
            try:
                await queue.publish(topic, b"%d" % number, key=f"k{number % KEYS}", dedup_id=f"{topic} {number}")
            except (OrtooError, OSError):
                await asyncio.sleep(0.01)
                continue
            self.sent[topic] += 1
            self.times[topic].append(monotonic())

    async def more(self, some: int) -> None:
        """Until so many more are confirmed in each topic."""
        wanted = {topic: sent + some for topic, sent in self.sent.items()}
        async with asyncio.timeout(HANGS_S):
            while any(self.sent[topic] < goal for topic, goal in wanted.items()):
                assert self._server is None or self._server.poll() is None, (self._folder / "log").read_text()[-2000:]
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        async with await eventually(self._connect) as queue:
            topics = [topic_in(0), topic_in(1)]
            for topic in topics:
                await eventually(partial(queue.create_topic, topic, partitions=2, dedup_scope="namespace"))
                self.sent[topic] = 0
            tasks = [asyncio.create_task(self.publish(queue, topic)) for topic in topics]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def judge(self, what: str) -> None:
        async with await eventually(self._connect) as queue:
            for topic, sent in self.sent.items():
                found: dict[str | None, list[int]] = defaultdict(list)
                while messages := await eventually(partial(queue.lease, topic, max_messages=500)):
                    for message in messages:
                        found[message.key].append(int(message.value))
                    await queue.ack(messages)
                everything = sorted(number for numbers in found.values() for number in numbers)
                assert everything == list(range(len(everything))), "lost or doubled"
                assert sent <= len(everything) <= sent + 1
                assert all(numbers == sorted(numbers) for numbers in found.values()), "a key lost its order"
                gap = max(later - earlier for earlier, later in pairwise(self.times[topic]))
                sys.stdout.write(f"{what}: {topic}: {sent} confirmed, longest gap {gap:.2f} s\n")


async def eventually(work: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(HANGS_S):
        while True:
            try:
                return await work()
            except (OrtooError, OSError):
                await asyncio.sleep(0.05)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with TemporaryDirectory() as folder, ExitStack() as running:
        Path(folder).chmod(0o711)
        databases = [running.enter_context(private_postgres(Path(folder) / f"db{number}")) for number in range(2)]
        found = World(tmp_path, databases, running.enter_context(private_redis(tmp_path / "redis")))
        running.callback(found.kill)
        found.start()
        yield found


@pytest.mark.parametrize(
    ("what", "with_redis", "with_server"),
    [
        ("both databases", False, False),
        pytest.param("both databases and Redis", True, False, marks=pytest.mark.soak),
        ("both databases and Redis, then the server while it spills", True, True),
    ],
)
async def test_all_that_the_server_stands_on_is_killed(
    world: World, what: str, with_redis: bool, with_server: bool
) -> None:
    async with world.load():
        await world.more(50)
        for database in world.databases:
            await asyncio.to_thread(database.kill)
        if with_redis:
            await asyncio.to_thread(world.redis.kill)
        await world.more(100)  # they are in the spill
        if with_server:
            world.kill()
        for database in world.databases:
            await asyncio.to_thread(database.start)
        if with_redis:
            await asyncio.to_thread(world.redis.start)
        if with_server:
            world.start()
        await world.more(100)
    await world.judge(what)
