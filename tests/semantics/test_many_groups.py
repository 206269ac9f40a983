"""A topic may have thousands of groups: what is asked for all of them keeps nobody else waiting for all of it."""

import asyncio
from typing import Any

import pytest

from ortoo import InvalidError, Queue
from ortoo.broker import Broker, following
from ortoo.engine import Engine
from ortoo.model import commands as c
from ortoo.model import limits
from ortoo.model.names import parse_message_id
from ortoo.testing import ManualClock, open_manual
from tests.turns import counting_turns

from .actors import take, values, watch

GROUPS = 40


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUPS_AT_ONCE", 10)
    monkeypatch.setattr(following, "_PER_TURN", 5)


async def make(queue: Queue, count: int = GROUPS) -> str:
    await queue.create_topic("orders", partitions=1, max_attempts=9)
    sent = await queue.publish("orders", b"1")
    for number in range(count):
        await queue.create_group("orders", f"g{number:02}")
    return sent.id


def decided(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each decision has."""
    found: list[int] = []
    decide = Engine.decide

    def counted(engine: Engine, command: Any, now: int) -> Any:
        decision = decide(engine, command, now)
        found.append(len(decision.records))
        return decision

    monkeypatch.setattr(Engine, "decide", counted)
    return found


async def test_many_that_retry_for_all_groups_share_the_turns(
    queue: Queue, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "GROUP_UNITS", 400)  # as much as one turn has, for as few as these
    await make(queue)
    sent = await queue.publish_many("orders", [b"1"] * 10)
    async with counting_turns() as turns:
        await asyncio.gather(*(queue.retry_now(one.id) for one in sent))
    assert turns.count >= 10 * (GROUPS - 10) // 5


async def test_retrying_for_all_groups_is_done_in_turns(
    queue: Queue, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await make(queue)
    for number in range(GROUPS):
        await queue.nack(await take(queue, "orders", group=f"g{number:02}"), delay=600)
    records = decided(monkeypatch)
    async with counting_turns() as turns:
        await queue.retry_now(message)
    assert turns.count >= (GROUPS - 10) // 5
    assert max(records) <= 11  # one of a connection is remembered
    for number in range(GROUPS):
        assert values(await take(queue, "orders", group=f"g{number:02}")) == [b"1"]


async def test_giving_up_for_all_groups_is_done_in_turns(
    queue: Queue, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await make(queue)
    for number in range(15):
        await queue.ack(await take(queue, "orders", group=f"g{number:02}"))
    records = decided(monkeypatch)
    await queue.dead_letter(message, error="no")
    assert max(records) <= 13
    letters = await queue.dead_letters("orders")
    assert [letter.headers["ortoo-group"] for letter in letters] == [f"g{number:02}" for number in range(15, GROUPS)]
    with pytest.raises(InvalidError, match="pending in no group"):
        await queue.dead_letter(message)


async def test_the_answer_counts_all_groups(few: None, clock: ManualClock) -> None:
    async with open_manual(clock) as queue:
        message = parse_message_id(await make(queue))
        broker: Any = queue._link
        await queue.ack(await take(queue, "orders", group="g07"))
        assert await broker.call(c.RetryNow(message)) == GROUPS
        await queue.ack(await take(queue, "orders", group="g07"))
        await queue.ack(await take(queue, "orders", group="g30"))
        assert await broker.call(c.DeadLetter(message)) == GROUPS - 2


async def test_a_group_that_goes_meanwhile_is_left_out(
    few: None, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_manual(clock) as queue:
        message = await make(queue)
        flush = Broker.flush

        async def deleting(broker: Broker) -> None:
            await flush(broker)
            if "g33" in {group.name for group in await queue.groups("orders")}:
                await queue.delete_group("orders", "g33")

        monkeypatch.setattr(Broker, "flush", deleting)
        await queue.dead_letter(message)
        assert len(await queue.dead_letters("orders")) == GROUPS - 1


async def test_few_large_messages_are_copied_at_a_time(
    few: None, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COPIED_BYTES_MAX", 2_500)
    async with open_manual(clock) as queue:
        await make(queue)
        await clock.advance(1)
        large = await queue.publish("orders", b"x" * 1_000)
        flushes = watch(monkeypatch, Broker, "flush", lambda broker: 1)
        await queue.dead_letter(large.id)
        assert len(flushes) >= (GROUPS - 10) // 2
