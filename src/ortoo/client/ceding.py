"""Leaves a topic to others of its group when a handler that has a partition of it here may never end.

In partition order, and strictly, a partition belongs to one consumer for as long as that one asks for messages. One whose
handler hangs could only lease and give back what follows. So it leaves the group, and asks again when the handler has ended,
when nobody else is left, or after a while, for it may have better luck with other partitions. Leaving gives up all leases and
all partitions: only who holds nothing, and has nothing else to do there, leaves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from ortoo.model.errors import OrtooError

from .handler import Handler
from .queue import Queue

log = logging.getLogger("ortoo.worker")

_AWAY_SECONDS = 30.0  # at most; the others may be slow, or hang themselves


def may_cede(handler: Handler, handlers: Iterable[Handler]) -> bool:
    """Not by labels, where it would ask again with its next lease; nor where another handler of the worker leases, too."""
    others = [other for other in handlers if other is not handler and other.group == handler.group]
    return handler.topic is not None and all(other.topic not in (None, handler.topic) for other in others)


async def cede(
    queue: Queue,
    consumer: str,
    handler: Handler,
    is_over: Callable[[], bool],
    pause: Callable[[Callable[[], bool]], Awaitable[None]],
) -> None:
    """`pause` waits for a moment, or until that is so."""
    if is_over() or not await _has_company(queue, consumer, handler):
        return
    log.warning("%s leaves %s to others: what it has begun there does not end", handler.name, handler.source)
    try:
        await queue.leave(consumer, handler.topic, handler.group, namespace=handler.namespace)
    except OrtooError:
        pass  # without a server nothing is owned for long
    loop = asyncio.get_running_loop()
    end = loop.time() + _AWAY_SECONDS
    while loop.time() < end and not is_over() and await _has_company(queue, consumer, handler):
        await pause(is_over)


async def _has_company(queue: Queue, consumer: str, handler: Handler) -> bool:
    """Whether somebody else could have what is given up."""
    assert handler.topic is not None
    try:
        info = await queue.group(handler.topic, handler.group, namespace=handler.namespace)
    except OrtooError:
        return False
    return bool(info.consumers.keys() - {consumer})
