"""A message may have a long story, in thousands of groups: who looks at it gets a bounded answer, and others run meanwhile."""

import pytest

from ortoo import Queue
from ortoo.model import limits
from ortoo.testing import ManualClock, open_manual
from tests.turns import counting_turns

from .actors import take

GROUPS = 40


async def make(queue: Queue, groups: int = GROUPS) -> str:
    await queue.create_topic("orders", partitions=1)
    sent = await queue.publish("orders", b"1")
    for number in range(groups):
        await queue.create_group("orders", f"g{number:02}")
    return sent.id


async def test_the_states_of_a_message_are_looked_up_in_turns(clock: ManualClock) -> None:
    async with open_manual(clock) as queue:
        message = await make(queue, 1_000)
        async with counting_turns() as turns:
            assert len((await queue.message(message)).states) == 1_000
        assert turns.count >= 1_000 // 200


async def test_a_trace_has_the_newest_events_and_says_how_many_are_left_out(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRACE_EVENTS_MAX", 5)
    await queue.create_topic("orders", partitions=1, max_attempts=99)
    sent = await queue.publish("orders", b"1")
    for number in range(10):
        await queue.nack(await take(queue, "orders", consumer=f"c{number}"), str(number), delay=0)
    trace = await queue.trace(sent.id)
    assert trace.omitted == 15
    assert [(event.what, event.consumer, event.attempt) for event in trace.events] == [
        ("published", None, None),
        ("nacked", "c7", 8),
        ("redelivered", "c8", 9),
        ("nacked", "c8", 9),
        ("redelivered", "c9", 10),
        ("nacked", "c9", 10),
    ]
    assert (await queue.trace((await queue.publish("orders", b"2")).id)).omitted == 0


async def test_others_run_while_a_trace_is_composed(clock: ManualClock) -> None:
    async with open_manual(clock) as queue:
        message = await make(queue)
        for _ in range(50):
            await queue.retry_now(message)
        async with counting_turns() as turns:
            assert len((await queue.trace(message)).events) == 1 + 50 * GROUPS
        assert turns.count >= 50 * GROUPS // 200
