"""A consumer that leaves costs what it has to do with, whatever else there is. Counted, not timed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ortoo
from ortoo import Queue
from ortoo.broker import Broker
from ortoo.engine import admin
from ortoo.model import limits
from ortoo.model.access import Grant
from ortoo.model.commands import Leave
from ortoo.testing import ManualClock, open_manual


@pytest.fixture
async def queue(clock: ManualClock) -> AsyncIterator[Queue]:
    async with open_manual(clock) as queue:
        yield queue


def broker_of(queue: Queue) -> Broker:
    broker = queue._link
    assert isinstance(broker, Broker)
    return broker


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """At which topics grants were looked at, and in which groups something was left."""
    looks: list[str] = []
    allows, leave = Grant.allows, admin.leave

    def allowed(grant: Grant, scope: Any, topic: Any) -> bool:
        looks.append(f"may {topic.name}")
        return allows(grant, scope, topic)

    def left(draft: Any, topic: Any, group: Any, *rest: Any) -> bool:
        looks.append(f"left {topic.name.name}/{group.name}")
        return leave(draft, topic, group, *rest)

    monkeypatch.setattr(Grant, "allows", allowed)
    monkeypatch.setattr(admin, "leave", left)
    return looks


async def consume(queue: Queue, topic: str, consumer: str, namespace: str = "default") -> None:
    await queue.publish(topic, b"x", namespace=namespace)
    await queue.lease(topic, consumer=consumer, namespace=namespace)


async def test_leaving_looks_at_nothing_of_others(queue: Queue, looks: list[str]) -> None:
    for number in range(20):
        await consume(queue, f"t{number}", "ann", "theirs")
        await consume(queue, f"t{number}", "ben", "ours")
    await consume(queue, "mine", "ann", "ours")
    grants = tuple(Grant(("read",), f"n{number}") for number in range(5))
    await broker_of(queue).call(Leave("nobody"))
    await broker_of(queue).call(Leave("ann", grants=grants))
    assert looks == []
    await broker_of(queue).call(Leave("ann", grants=(*grants, Grant(("read",), "ours", ("m*",)))))
    assert [look for look in looks if look.startswith("left")] == ["left mine/default"]
    assert {look for look in looks if look.startswith("may")} == {"may mine"}
    assert [(await queue.group(f"t{number}", namespace="theirs")).leased for number in range(20)] == [1] * 20


async def test_who_has_left_or_whose_groups_are_gone_is_known_nowhere(queue: Queue, clock: ManualClock) -> None:
    state = broker_of(queue).engine.state
    joined, held = state.soft.joined, state.lease_groups.whereabouts
    await consume(queue, "left", "ann")
    await queue.leave("ann")
    await consume(queue, "deleted", "ann")
    await queue.delete_topic("deleted")
    await consume(queue, "ungrouped", "ann")
    await queue.delete_group("ungrouped", "default")
    await consume(queue, "purged", "ben")
    await queue.purge("purged")
    await queue.publish("acked", b"x")
    for message in await queue.lease("acked", consumer="ben"):
        await message.ack()
    assert [*held.namespaces("ann"), *joined.namespaces("ann"), *held.namespaces("ben")] == []
    assert list(joined.namespaces("ben")) == ["default"]
    await clock.advance(limits.SESSION_TIMEOUT_MS / 1000 + 1)
    await queue.publish("other", b"x")
    assert not list(joined.namespaces("ben"))


async def test_what_a_consumer_leased_before_a_restart_returns_when_it_leaves(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path) as queue:
        await consume(queue, "orders", "ann")
    async with ortoo.open(tmp_path) as queue:
        assert (await queue.group("orders")).leased == 1
        await queue.leave("ann")
        assert (await queue.group("orders")).leased == 0


async def test_leaving_very_many_groups_lets_others_run(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        await queue.publish(f"t{number}", b"x")
        for message in await queue.lease(f"t{number}", consumer="ann"):
            await message.ack()
    monkeypatch.setattr(limits, "DUE_PER_TURN", 200)
    left: list[Any] = []
    leave = admin.leave

    def counted(draft: Any, *rest: Any) -> bool:
        left.append(draft)
        return leave(draft, *rest)

    monkeypatch.setattr(admin, "leave", counted)
    await queue.leave("ann")
    assert len(left) == 50
    assert max(left.count(draft) for draft in left) <= 10
    assert not list(broker_of(queue).engine.state.soft.joined.namespaces("ann"))


async def test_deciding_that_the_last_consumer_leaves_forgets_nobody_yet(queue: Queue) -> None:
    """Deciding the same twice gives the same twice: an ephemeral group goes with the record, and its consumers with it."""
    await queue.create_topic("t", partitions=1)
    await queue.create_group("t", "eph", ephemeral=True)
    await queue.lease("t", group="eph", consumer="x")
    broker = broker_of(queue)
    now = broker.engine.state.now
    first, second = (broker.engine.decide(Leave("x"), now) for _ in range(2))
    assert len(first.records) == 1
    assert first.records == second.records


async def test_deciding_that_a_consumer_leaves_gives_the_same_twice(queue: Queue) -> None:
    """Whichever group it joined first, and took from first."""
    await queue.create_topic("t", partitions=1)
    await queue.publish("t", b"x")
    for group in ("b", "a"):
        await queue.create_group("t", group)
    for group in ("a", "b"):
        await queue.heartbeat("t", group, consumer="x")
    for group in ("b", "a"):
        await queue.lease("t", group=group, consumer="x")
    broker = broker_of(queue)
    now = broker.engine.state.now
    first, second = (broker.engine.decide(Leave("x"), now) for _ in range(2))
    assert len(first.records) == 2
    assert first.records == second.records
