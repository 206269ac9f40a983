"""The loop behind `consume`: leases ahead, hands out, and gives back what is left when it ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from ortoo.model.commands import Lease
from ortoo.model.errors import LeaseLostError, UnavailableError

from .late_acks import LateAcks
from .prefetched import Prefetched
from .receiving import Receiving
from .settling import Receipts
from .tracing import active

T = TypeVar("T")


async def consume(
    queue: Receiving, command: Lease, ends: bool, prefetch: Callable[[LateAcks], Prefetched[T]]
) -> AsyncGenerator[T, None]:
    """`ends`: when nothing came for as long as the command waits."""
    # Deliveries that are pushed come when they come; who wants to know that there is nothing now has to ask.
    subscription = None if ends else queue._link.subscribe(command, command.max_messages)
    late = queue._late_acks()
    ahead = prefetch(late)
    queue._prefetched[id(ahead)] = ahead.forget
    try:
        while True:
            await late.wait_for_room()
            tracing = active(queue._tracing)
            began = 0 if tracing is None else tracing.now()
            if subscription is None:
                runs = await queue._link.lease(command)
            else:
                runs = await subscription.next(command.wait_ms)
            ahead.add(runs)
            if tracing is not None:
                tracing.received(command, runs, began)
            if not ahead and ends:
                return
            while ahead:
                if late.has_failed:
                    late.raise_failure()
                taken, count = ahead.take()
                if subscription is not None:
                    subscription.grant(count)
                yield taken
    finally:
        del queue._prefetched[id(ahead)]
        if subscription is not None:
            ahead.add(await subscription.close())
        if ahead and not command.auto_ack:
            await _give_back(queue, ahead.rest())
        await late.drain()
        queue._unconfirmed.discard(late)
        late.raise_failure()


async def _give_back(queue: Receiving, messages: Receipts) -> None:
    try:
        await queue.release(messages)
    except (LeaseLostError, UnavailableError):
        pass  # they return by themselves
