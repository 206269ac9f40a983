"""What the tests of this folder do again and again: publish a few values, lease all there is, wait for something."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from ortoo import LeaseLostError, Messages, Queue, Received, Sent
from ortoo.testing.clock import ManualClock, settle

__all__ = [
    "crowd",
    "is_stale",
    "lose_one_of_two",
    "poll",
    "publish",
    "publish_apart",
    "settle",
    "take",
    "until",
    "values",
    "waiters",
    "watch",
]

_PATIENCE = 300  # real seconds: what has not happened by then will not


def values(messages: Iterable[Received]) -> list[bytes]:
    return [message.value for message in messages]


async def publish(queue: Queue, topic: str, *values: bytes, **fields: Any) -> list[Sent]:
    """One after the other, so that each has its own place."""
    return [await queue.publish(topic, value, **fields) for value in values]


async def publish_apart(queue: Queue, clock: ManualClock) -> float:
    """Four messages in one partition, ten seconds apart. Returns when the first one was published."""
    await queue.create_topic("orders", partitions=1)
    start = clock.time()
    for number in range(4):
        await queue.publish("orders", b"%d" % number)
        await clock.advance(10)
    return start


async def take(queue: Queue, topic: str, max_messages: int = 100, **options: Any) -> Messages:
    return await queue.lease(topic, max_messages=max_messages, **options)


async def lose_one_of_two(queue: Queue, clock: ManualClock, topic: str) -> tuple[Received, Received]:
    """The lease of the first message has just ended, that of the second goes on."""
    await publish(queue, topic, b"1", b"2")
    [lost] = await queue.lease(topic, lease=1)
    [held] = await queue.lease(topic, lease=60)
    await clock.advance(1)
    return lost, held


async def is_stale(queue: Queue, message: Received) -> bool:
    try:
        await queue.ack(message)
    except LeaseLostError:
        return True
    return False


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Lets work settle until something holds, however many turns that takes through the door at hand."""
    async with asyncio.timeout(_PATIENCE):
        while not await holds():
            await settle()


async def waiters(queue: Queue) -> int:
    """How many wait in line, in the broker itself: whatever a door may still carry."""
    return (await queue.stats()).waiters


async def poll(
    queue: Queue, topic: str | None = "orders", *, wait: float = 30, **options: Any
) -> asyncio.Task[Messages]:
    """A long poll that has taken its place in line."""
    before = await waiters(queue)
    polling = asyncio.create_task(queue.lease(topic, wait=wait, **options))

    async def is_in_line() -> bool:
        return polling.done() or await waiters(queue) > before

    await until(is_in_line)
    assert not polling.done(), "answered at once"
    return polling


async def crowd(queue: Queue, count: int) -> list[asyncio.Task[Messages]]:
    """So many long polls, all in line."""
    polling = [asyncio.create_task(queue.lease("orders", wait=30)) for _ in range(count)]

    async def is_complete() -> bool:
        return await waiters(queue) == count

    await until(is_complete)
    return polling


def watch(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, tell: Callable[..., Any]) -> list[Any]:
    """What there is to tell of each call of a method from now on, by its arguments."""
    told: list[Any] = []
    method = getattr(owner, name)

    def watched(*args: Any) -> Any:
        told.append(tell(*args))
        return method(*args)

    monkeypatch.setattr(owner, name, watched)
    return told
