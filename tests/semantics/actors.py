"""What the tests of this folder do again and again: publish a few values, lease all there is, look at the values."""

from collections.abc import Iterable
from typing import Any

from ortoo import LeaseLostError, Queue, Received, Sent
from ortoo.testing.clock import settle

__all__ = ["is_stale", "publish", "settle", "take", "values"]


def values(messages: Iterable[Received]) -> list[bytes]:
    return [message.value for message in messages]


async def publish(queue: Queue, topic: str, *values: bytes, **fields: Any) -> list[Sent]:
    """One after the other, so that each has its own place."""
    return [await queue.publish(topic, value, **fields) for value in values]


async def take(queue: Queue, topic: str, max_messages: int = 100, **options: Any) -> list[Received]:
    return await queue.lease(topic, max_messages=max_messages, **options)


async def is_stale(queue: Queue, message: Received) -> bool:
    try:
        await queue.ack(message)
    except LeaseLostError:
        return True
    return False
