"""A commit in slices, and a crash at every append, or at every touch of the disk, in the middle of it.

The producer numbers its commands, and sends again what was not answered. In the end everything is there once, the commit was
answered with the same count whenever it was asked, and at no moment could anybody see a part of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from ortoo.broker import Broker
from ortoo.model import limits
from ortoo.model import queries as q
from ortoo.model.batch import Outgoing
from ortoo.model.commands import START, Begin, Commit, CreateTopic, Once, PlainCommand, Publish, Stage
from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicName
from ortoo.model.topic import TopicConfig
from ortoo.testing.clock import ManualClock, settle
from ortoo.testing.crash import kill
from ortoo.testing.simulated_disk import SimulatedCrash
from ortoo.testing.worlds import DiskWorld, FaultyWorld, World

A, B, OTHER = (TopicName("default", name) for name in ("a", "b", "other"))
BATCHES, ROWS = 5, 4
TOTAL = 2 * BATCHES * ROWS


def stage(topic: TopicName, number: int) -> Stage:
    rows = range(number * ROWS, (number + 1) * ROWS)
    batch = Outgoing([b"%d" % row for row in rows], keys=[f"k{row % 3}" for row in rows])
    return Stage("job", f"part{number % 2}", Publish(topic, batch))


def script() -> Iterator[PlainCommand]:
    for topic in (A, B, OTHER):
        yield CreateTopic(topic, TopicConfig(partitions=2, encrypted=topic == B))
    yield Begin("job")
    for number in range(BATCHES):
        yield stage(A, number)
        yield stage(B, number)
    yield Publish(OTHER, Outgoing([b"before"]))
    yield Commit("job")
    yield Publish(OTHER, Outgoing([b"after"]))


class Producer:
    def __init__(self, world: World, clock: ManualClock) -> None:
        self._world, self._clock = world, clock
        self.replies: list[Any] = []
        self.torn: list[int] = []  # how much of it could be seen, when that was neither nothing nor all
        self.broker: Broker

    async def run(self) -> None:
        await self._boot()
        for sequence, command in enumerate(script(), 1):
            reply = await self._insist(Once("p", sequence, 0, command))
            again = await self._insist(Once("p", sequence, 0, command))
            assert again == reply
            self.replies.append(reply)
        self._world.calm()
        await self._reboot()
        await self.broker.call(Commit("job"))

    async def _insist(self, command: Once) -> Any:
        for _ in range(20):
            try:
                done, reply = await self._or_crash(self.broker.call(command))
            except OrtooError:  # the disk was full, or the store had to recover
                await self._clock.advance(10.0)
                continue
            if done:
                return reply
            await self._reboot()
        raise AssertionError(f"{command} is not taken")

    async def _or_crash(self, work: Coroutine[Any, Any, Any]) -> tuple[bool, Any]:
        task, crash = asyncio.create_task(work), asyncio.create_task(self._world.crashed.wait())
        for _ in range(1_000):
            await settle()
            if crash.done() or task.done():
                break
            await self._clock.advance(1.0)
        crash.cancel()
        if self._world.crashed.is_set():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return False, None
        return True, await task

    async def _reboot(self) -> None:
        await kill(self.broker)
        self._world.power_off()
        await self._boot()

    async def _boot(self) -> None:
        while True:
            self._world.crashed.clear()
            self.broker = Broker(self._world.boot(), self._clock)
            self.broker.on_commit.append(lambda _: self._look())
            try:
                done, _ = await self._or_crash(self.broker.open())
            except (OSError, OrtooError, SimulatedCrash):
                done = False
            if done:
                self._look()
                return
            await kill(self.broker)
            self._world.power_off()

    def _look(self) -> None:
        topics = self.broker.engine.state.names
        seen = sum(topics[name].messages() for name in (A, B) if name in topics)
        if seen not in (0, TOTAL):
            self.torn.append(seen)

    async def found(self, topic: TopicName) -> list[bytes]:
        values: list[bytes] = []
        for partition in range(2):
            values += (await self.broker.ask(q.Scan(topic, partition, START, count=1000))).columns.values
        return values


@contextmanager
def small_slices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SLICE_MESSAGES", 6)
        patch.setattr(limits, "SLICE_BYTES", 200)
        yield


async def run(world: World, clock: ManualClock) -> None:
    producer = Producer(world, clock)
    await producer.run()
    assert producer.torn == []
    assert producer.replies[-2] == TOTAL
    staged = [b"%d" % row for row in range(BATCHES * ROWS)]
    for topic in (A, B):
        found = await producer.found(topic)
        assert sorted(found) == sorted(staged)
        for key in range(3):
            assert [value for value in found if int(value) % 3 == key] == staged[key::3]
    assert sorted(await producer.found(OTHER)) == [b"after", b"before"]
    for _ in range(4):
        await clock.advance(100.0)
        while world.is_busy:
            await settle()
    assert world.complaints() == []
    await producer.broker.close()


def on_store(crash: tuple[int, str]) -> FaultyWorld:
    return FaultyWorld(Random(1), crash)


def on_disk(crash: tuple[int, str], clock: ManualClock) -> DiskWorld:
    return DiskWorld(Random(1), crash, clock)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_append_of_a_sliced_commit_neither_loses_nor_doubles(when: str) -> None:
    async def one(number: int) -> int:
        world = on_store((number, when))
        await run(world, ManualClock())
        return world._store.appends

    with small_slices():
        appends = asyncio.run(one(-1))
        assert appends > 2 * BATCHES + 2 * BATCHES * ROWS // 6
        for number in range(appends):
            asyncio.run(one(number))


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("when", "first"), [("before", 0), ("after", 1), ("full", 2)])
def test_a_fault_at_any_touch_of_the_disk_neither_loses_nor_doubles(when: str, first: int, step: int) -> None:
    """Every third of them, each kind at others; `make soak` has them all."""

    async def one(number: int) -> int:
        clock = ManualClock()
        world = on_disk((number, when), clock)
        await run(world, clock)
        return world.operations

    with small_slices():
        operations = asyncio.run(one(-1))
        assert operations > 100
        for number in range(first % step, operations, step):
            asyncio.run(one(number))
