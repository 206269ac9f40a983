"""Messages through the queue: publish, lease, ack and live traffic in batches, fan-out, and publishing one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter

import ortoo

from .loads import VALUE_BYTES, Load, warm_up
from .timing import Rates, Stopwatch

TOPIC = "bench"
LEASE_SECONDS = 600.0  # no lease may run out while a slow machine is measured
WAIT_SECONDS = 10.0
FAN_OUT_GROUPS = 10
SINGLE_TASKS = 256
WORKER_PLACES = (16, 100)  # messages handled at a time


async def publish_all(queue: ortoo.Queue, load: Load, size: int, count: int) -> float:
    """Returns messages per second."""
    began = perf_counter()
    for start in range(0, count, size):
        await queue.publish_many(TOPIC, load(start, size))
    return count / (perf_counter() - began)


def look_at(messages: Sequence[ortoo.Received]) -> None:
    """Reads what every consumer reads."""
    if not messages:
        raise RuntimeError("a lease came back empty although messages are pending")
    for message in messages:
        _ = message.value, message.key, message.receipt


async def lease_and_ack_all(queue: ortoo.Queue, size: int, count: int) -> Rates:
    """By turns, because in key order a key waits for the ack of what was leased before."""
    leasing, acking, left = Stopwatch(), Stopwatch(), count
    while left > 0:
        with leasing:
            messages = await queue.lease(TOPIC, max_messages=min(size, left), lease=LEASE_SECONDS)
            look_at(messages)
        with acking:
            await queue.ack(messages)
        left -= len(messages)
    return {
        "lease": count / leasing.seconds,
        "ack": count / acking.seconds,
        "lease+ack": count / (leasing.seconds + acking.seconds),
    }


async def cycle(load: Load, size: int, count: int) -> Rates:
    """Publishes everything, then leases and acks everything."""
    warm_up(load, size)
    async with ortoo.open() as queue:
        await queue.create_topic(TOPIC)
        published = await publish_all(queue, load, size, count)
        return {"publish": published, **await lease_and_ack_all(queue, size, count)}


async def consume_all(queue: ortoo.Queue, group: str, size: int, count: int) -> None:
    while count > 0:
        messages = await queue.lease(TOPIC, group=group, max_messages=size, wait=WAIT_SECONDS, lease=LEASE_SECONDS)
        look_at(messages)
        await queue.ack(messages)
        count -= len(messages)


async def live(load: Load, size: int, count: int, groups: int = 1) -> float:
    """A producer and a consumer per group at the same time; deliveries per second."""
    warm_up(load, size)
    async with ortoo.open() as queue:
        await queue.create_topic(TOPIC)
        began = perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for group in range(groups):
                tasks.create_task(consume_all(queue, f"group-{group}", size, count))
            tasks.create_task(publish_all(queue, load, size, count))
        return groups * count / (perf_counter() - began)


async def loops(count: int) -> Rates:
    """The loops that people write first: one message, one ack. What is leased and acked as a whole is in the other scenarios."""
    return {
        "await ack": await _timed(count, _await_acks),
        "ack_nowait": await _timed(count, _ack_nowait),
        **{f"worker of {places}": await _timed(count, partial(_work, places)) for places in WORKER_PLACES},
    }


async def _timed(count: int, consume: Callable[[ortoo.Queue, int], Awaitable[None]]) -> float:
    async with ortoo.open() as queue:
        await queue.create_topic(TOPIC)
        for _ in range(0, count, 1000):
            await queue.publish_many(TOPIC, [bytes(VALUE_BYTES)] * 1000)
        began = perf_counter()
        await consume(queue, count)
        return count / (perf_counter() - began)


async def _await_acks(queue: ortoo.Queue, left: int) -> None:
    async with queue.consume(TOPIC, lease=LEASE_SECONDS) as messages:
        async for message in messages:
            await message.ack()
            left -= 1
            if not left:
                return


async def _ack_nowait(queue: ortoo.Queue, left: int) -> None:
    async with queue.consume(TOPIC, lease=LEASE_SECONDS) as messages:
        async for message in messages:
            message.ack_nowait()
            left -= 1
            if not left:
                return


async def _work(concurrency: int, queue: ortoo.Queue, left: int) -> None:
    worker, is_done = ortoo.Worker(queue), asyncio.Event()

    @worker.on(TOPIC, concurrency=concurrency, lease=LEASE_SECONDS)
    async def handle(message: ortoo.Received) -> None:
        nonlocal left
        left -= 1
        if not left:
            is_done.set()

    async with worker:
        await is_done.wait()


async def one_by_one(count: int) -> Rates:
    """Tasks that publish single messages, each waiting for its own answer; the queue gathers them."""
    each = count // SINGLE_TASKS
    async with ortoo.open() as queue:
        await queue.create_topic(TOPIC)
        began = perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(SINGLE_TASKS):
                tasks.create_task(_publish_singles(queue, each))
        return {"publish": each * SINGLE_TASKS / (perf_counter() - began)}


async def _publish_singles(queue: ortoo.Queue, count: int) -> None:
    value = bytes(VALUE_BYTES)
    for _ in range(count):
        await queue.publish(TOPIC, value)
