"""Leaves a partition to others of its group when the handler that has it here may never end.

In partition order, and strictly, a partition belongs to one consumer for as long as that one asks for messages. One whose
handler hangs could only lease and give back what follows. So it leaves the group, once its other handlers have settled what
they hold, for leaving gives up all leases; and asks again when the handler has ended, or when nobody else is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicName

from .queue import Queue

log = logging.getLogger("ortoo.worker")

_LOOK_SECONDS = 1.0


async def cede(
    queue: Queue,
    consumer: str,
    group: str,
    topics: set[TopicName],
    busy: Callable[[], list[asyncio.Task[Any]]],
    is_over: Callable[[], bool],
    pause: Callable[[], Awaitable[None]],
) -> None:
    """`busy` are the handlers that will still settle something, `pause` waits for a moment, or until `is_over`."""
    while tasks := busy():
        await asyncio.wait(tasks, timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")
        if is_over():
            return
    for topic in topics:
        log.warning("%s leaves group %r of %s to others: what it has begun there does not end", consumer, group, topic)
        try:
            await queue.leave(consumer, topic.name, group, namespace=topic.namespace)
        except OrtooError:
            pass  # without a server nothing is owned for long
    while not is_over() and await has_company(queue, consumer, group, topics):
        await pause()


async def has_company(queue: Queue, consumer: str, group: str, topics: set[TopicName]) -> bool:
    """Whether somebody else could have what is given up."""
    try:
        found = [await queue.group(topic.name, group, namespace=topic.namespace) for topic in topics]
    except OrtooError:
        return False
    return any(info.consumers.keys() - {consumer} for info in found)
