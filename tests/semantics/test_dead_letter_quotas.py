"""Dead letters count like all that is stored: whoever consumes makes as many as it likes. None is lost for want of room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ortoo import FullError, Queue, TooManyError
from ortoo.broker import Broker
from ortoo.engine.copies import QUOTA_SHORT_MS
from ortoo.model.commands import Run, Settle
from ortoo.model.names import parse_receipt
from ortoo.testing import ManualClock, open_manual

from .actors import settle
from .refusing import refused

SHOP = "shop"
LATER = QUOTA_SHORT_MS / 1000 + 1


async def hold_one(queue: Queue, **settings: Any) -> Any:
    await queue.create_topic("orders", namespace=SHOP, partitions=1, ordering="none", **settings)
    await queue.publish("orders", b"x" * 1_000, namespace=SHOP)
    [message] = await queue.lease("orders", namespace=SHOP)
    return message


async def topics(queue: Queue) -> list[str]:
    return [topic.name for topic in await queue.topics(namespace=SHOP)]


GIVING_UP: dict[str, Callable[[Queue, Any], Any]] = {
    "reject": lambda queue, message: queue.reject(message, error="no tea"),
    "nack": lambda queue, message: queue.nack(message),
    "dead letter": lambda queue, message: queue.dead_letter(message.id),
}


@pytest.mark.parametrize("how", GIVING_UP)
async def test_a_dead_letter_that_is_asked_for_needs_room_in_the_quotas(queue: Queue, how: str) -> None:
    give_up = GIVING_UP[how]
    message = await hold_one(queue, max_attempts=1)
    await queue.set_namespace(SHOP, stored_bytes=2_000)
    await refused(queue, lambda queue: give_up(queue, message), FullError, "may store 2000 bytes, its quota")
    await queue.set_namespace(SHOP, topics=1)
    await refused(queue, lambda queue: give_up(queue, message), TooManyError, "may have 1 topics, its quota")
    group = await queue.group("orders", namespace=SHOP)
    assert (group.leased, group.dead, await topics(queue)) == (1, 0, ["orders"])
    await queue.set_namespace(SHOP, topics=2, stored_bytes=3_000)
    await give_up(queue, message)
    assert await topics(queue) == ["orders", "orders.dlq"]
    [info] = await queue.namespaces()
    assert (info.messages, 2_000 < info.bytes < 3_000) == (2, True)


async def test_acks_and_retries_need_no_room(queue: Queue) -> None:
    message = await hold_one(queue)
    await queue.set_namespace(SHOP, stored_bytes=0, topics=0)
    await queue.nack(message, delay=0)
    [again] = await queue.lease("orders", namespace=SHOP, wait=5)
    await queue.ack(again)


@pytest.mark.parametrize("quota", [{"stored_bytes": 2_000}, {"topics": 1}])
async def test_a_lease_that_runs_out_waits_for_the_quota(
    queue: Queue, clock: ManualClock, quota: dict[str, int]
) -> None:
    await hold_one(queue, max_attempts=1, lease=10)
    await queue.set_namespace(SHOP, **quota)
    for _ in range(3):
        await clock.advance(LATER)
        await settle()
        group = await queue.group("orders", namespace=SHOP)
        assert (group.leased, group.dead, await topics(queue)) == (1, 0, ["orders"])
    await queue.set_namespace(SHOP)
    await clock.advance(LATER)
    await settle()
    [dead] = await queue.dead_letters("orders", namespace=SHOP)
    assert dead.headers["ortoo-reason"] == "attempts"


@pytest.mark.parametrize("quota", [{"stored_bytes": 4_000}, {"topics": 1}])
async def test_a_message_whose_time_is_over_waits_for_the_quota(
    queue: Queue, clock: ManualClock, quota: dict[str, int]
) -> None:
    await queue.create_topic("orders", namespace=SHOP, partitions=1, on_expire="dlq")
    for group in ("a", "b"):
        await queue.create_group("orders", group, namespace=SHOP)
    await queue.publish("orders", b"x" * 2_000, namespace=SHOP, ttl=10)
    await queue.set_namespace(SHOP, **quota)
    for _ in range(3):
        await clock.advance(LATER)
        await settle()
        assert await topics(queue) == ["orders"]
        assert (await queue.group("orders", "a", namespace=SHOP)).ready == 1
    await queue.set_namespace(SHOP)
    await clock.advance(LATER)
    await settle()
    assert {dead.headers["ortoo-reason"] for dead in await queue.dead_letters("orders", namespace=SHOP)} == {"ttl"}
    assert (await queue.group("orders", "a", namespace=SHOP)).ready == 0


async def test_copies_whose_values_are_on_their_way_count(clock: ManualClock) -> None:
    """Nothing is durable in between: each is decided on what was drafted before."""
    async with open_manual(clock) as queue:
        broker = queue._link
        assert isinstance(broker, Broker)
        await queue.create_topic("orders", namespace=SHOP, partitions=1, ordering="none")
        await queue.publish_many("orders", [b"x" * 1_000] * 20, namespace=SHOP)
        messages = await queue.lease("orders", namespace=SHOP, max_messages=20)
        await queue.set_namespace(SHOP, stored_bytes=25_000)
        refusals = 0
        for message in messages:
            ref = parse_receipt(message.receipt)
            try:
                broker.submit(Settle("reject", [Run(ref.topic, ref.group, ref.lease, ref.partition, [ref.offset])]))
            except FullError:
                refusals += 1
        await asyncio.wait_for(broker.flush(), 60)
        [info] = await queue.namespaces()
        assert refusals == 17
        assert info.bytes <= 25_000


async def test_redriving_what_has_to_be_copied_needs_room(queue: Queue) -> None:
    message = await hold_one(queue)
    await queue.reject(message)
    await queue.purge("orders", namespace=SHOP)
    await queue.set_namespace(SHOP, stored_bytes=2_000)
    await refused(queue, lambda queue: queue.redrive("orders", namespace=SHOP), FullError, "may store 2000 bytes")
    assert len(await queue.dead_letters("orders", namespace=SHOP)) == 1
    await queue.set_namespace(SHOP)
    assert await queue.redrive("orders", namespace=SHOP) == 1
