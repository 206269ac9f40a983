"""Whether cost stays flat: what publish, lease and ack take of the processor with little and with much in the queue.

Both queues live in one process and are measured by turns, so that whatever else the machine does happens to both; of the
rounds the median counts. Each round leaves a queue as it found it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from statistics import median
from time import process_time_ns
from typing import TypeVar

import msgspec

import ortoo
from ortoo.app.garbage import Collector, freeze_survivors

from .figures import Figure
from .loads import VALUE_BYTES
from .settings import Settings
from .turning import TimedLoop

NAME = "flat"
_VALUE = bytes(VALUE_BYTES)
_FILL = 10_000  # the largest batch
_SPREAD = (
    400_000  # messages in all partitions together: more than are leased, so that a lease never comes to single ones
)
_SIZES = (100, 1)
_OPERATIONS = ("publish", "lease", "ack")
_LEASE_SECONDS = 3_600.0  # no lease may run out while a slow machine is measured

T = TypeVar("T")
Costs = dict[tuple[str, int], list[float]]  # nanoseconds a message, by operation and size of its batches, in each round
Prepare = Callable[["_Side", int], Awaitable[None]]


class Case(msgspec.Struct, frozen=True):
    """`prepare` fills a queue with so many of them."""

    what: str
    small: int
    large: int
    prepare: Prepare

    @property
    def name(self) -> str:
        return f"{NAME}, {self.small:,} and {self.large:,} {self.what}"


async def _pending(side: _Side, count: int) -> None:
    """All share one value, so that what grows is the queue and not the values."""
    await side.create("t")
    for _ in range(0, count, _FILL):
        await side.queue.publish_many("t", [_VALUE] * min(_FILL, count))


async def _topics(side: _Side, count: int) -> None:
    for number in range(count):
        await side.create(f"t{number}")


async def _partitions(side: _Side, count: int) -> None:
    await side.create("t", partitions=count)
    for _ in range(0, _SPREAD, 100):
        await side.queue.publish_many("t", [_VALUE] * 100)


async def _groups(side: _Side, count: int) -> None:
    await _pending(side, 1_000)
    for number in range(count - 1):
        await side.queue.create_group("t", f"g{number}")


async def _polls(side: _Side, count: int) -> None:
    """They wait for a topic that nobody publishes to."""
    await _pending(side, 1_000)
    await side.queue.create_topic("quiet")
    for number in range(count):
        side.polls.append(asyncio.ensure_future(side.queue.lease("quiet", wait=60.0, consumer=f"c{number}")))
        await asyncio.sleep(0)


def _cases(settings: Settings) -> list[Case]:
    return [
        Case("pending", settings.shallow, settings.deep, _pending),
        Case("topics", 10, 10_000, _topics),
        Case("partitions", 1, 1_000, _partitions),
        Case("groups", 1, 1_000, _groups),
        Case("idle polls", 0, 1_000, _polls),
    ]


class _Side:
    """One of the two queues, and the topics of it that are worked with in rotation."""

    def __init__(self, queue: ortoo.Queue) -> None:
        self.queue = queue
        self.polls: list[asyncio.Future[ortoo.Messages]] = []
        self.costs: Costs = {(operation, size): [] for size in _SIZES for operation in _OPERATIONS}
        self._topics: list[str] = []
        self._partitions = 0
        self._at = 0

    async def create(self, topic: str, partitions: int = 6) -> None:
        await self.queue.create_topic(topic, partitions=partitions)
        await self.queue.create_group(topic, "default")
        self._topics.append(topic)
        self._partitions += partitions

    async def warm_up(self) -> None:
        """Each partition of each topic is used once: what is measured is not the first time."""
        await self.round(100, 100 * self._partitions)
        for costs in self.costs.values():
            costs.clear()

    async def round(self, size: int, count: int) -> None:
        """What is leased is never more than a hundred messages, so both queues stay as they are."""
        queue, spent = self.queue, dict.fromkeys(_OPERATIONS, 0)
        for _ in range(0, count, 100):
            self._at += 1
            topic = self._topics[self._at % len(self._topics)]
            for _ in range(0, 100, size):
                publish = queue.publish(topic, _VALUE) if size == 1 else queue.publish_many(topic, [_VALUE] * size)
                await _counted(spent, "publish", publish)
            leased = [
                await _counted(spent, "lease", queue.lease(topic, max_messages=size, lease=_LEASE_SECONDS))
                for _ in range(0, 100, size)
            ]
            if any(len(messages) != size for messages in leased):
                raise RuntimeError("a lease came back with less although messages are pending")
            for messages in leased:
                await _counted(spent, "ack", queue.ack(messages))
        for operation, nanoseconds in spent.items():
            self.costs[operation, size].append(nanoseconds / count)


async def _counted(spent: dict[str, int], operation: str, call: Awaitable[T]) -> T:
    """Each call has a turn of the event loop, and perhaps more, for itself."""
    await asyncio.sleep(0)
    began = process_time_ns()
    result = await call
    spent[operation] += process_time_ns() - began
    return result


async def _measure(case: Case, rounds: int) -> tuple[Costs, Costs, float]:
    """What it costs with little and with much, and the longest turn of the event loop with much, in seconds."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TimedLoop)
    async with ortoo.open() as one, ortoo.open() as other:
        small, large = _Side(one), _Side(other)
        await case.prepare(small, case.small)
        await case.prepare(large, case.large)
        await small.warm_up()
        await large.warm_up()
        Collector(int).collect_all()
        longest = 0.0
        for _ in range(rounds):
            for size, count in ((100, 10_000), (1, 1_000)):
                await small.round(size, count)
                await asyncio.sleep(0)
                loop.longest = 0.0
                await large.round(size, count)
                await asyncio.sleep(0)
                longest = max(longest, loop.longest)
        for poll in large.polls:
            poll.cancel()
        await asyncio.gather(*large.polls, return_exceptions=True)
        return small.costs, large.costs, longest


def _figures(case: Case, small: Costs, large: Costs, longest: float) -> Iterator[Figure]:
    for (operation, size), costs in small.items():
        what = f"{operation} in {size}s" if size > 1 else f"{operation} one by one"
        few, many = median(costs), median(large[operation, size])
        yield Figure(case.name, f"{what}, {case.small:,}", few, "ns/message")
        yield Figure(case.name, f"{what}, {case.large:,}", many, "ns/message")
        yield Figure(case.name, f"{what}, ratio", many / few, "ratio")
    yield Figure(case.name, "longest turn", longest * 1000, "ms")


def scenario(settings: Settings) -> list[Figure]:
    gc.callbacks.append(freeze_survivors)  # as in a server
    try:
        figures: list[Figure] = []
        for case in _cases(settings):
            with asyncio.Runner(loop_factory=TimedLoop) as runner:
                figures.extend(_figures(case, *runner.run(_measure(case, 5 * settings.repetitions))))
            gc.unfreeze()
        return figures
    finally:
        gc.callbacks.remove(freeze_survivors)
        gc.unfreeze()
