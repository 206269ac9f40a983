"""Time: one clock that never runs backwards, one instant per command."""

from ortoo import Message, Queue
from ortoo.broker import Broker
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock

from .actors import publish, take, values


class RestlessClock(ManualClock):
    """Every look at it is a millisecond later."""

    def now_ms(self) -> int:
        self._now_ms += 1
        return self._now_ms


async def test_a_step_back_holds_still(queue: Queue, clock: ManualClock) -> None:
    """The broker's clock never runs backwards for decisions (a step back holds still)."""
    await queue.create_topic("orders", partitions=1)
    await queue.publish("orders", b"1")
    clock.jump(-3600)
    await publish(queue, "orders", b"2", b"3")
    times = [message.timestamp async for message in queue.read("orders")]
    assert times[0] == times[1] == times[2]


async def test_a_step_back_ends_no_lease_early_and_revives_none(queue: Queue, clock: ManualClock) -> None:
    """The broker's clock never runs backwards for decisions (a step back holds still)."""
    await publish(queue, "orders", b"1", b"2")
    [message] = await queue.lease("orders", lease=10)
    clock.jump(-3600)
    await clock.advance(3600)
    [other] = await queue.lease("orders", lease=10)
    await clock.advance(9.999)
    await queue.ack([message, other])


async def test_a_delayed_message_is_due_although_the_clock_was_set_back(queue: Queue, clock: ManualClock) -> None:
    """A step back holds still: what was due stays due."""
    await queue.publish("orders", b"1", delay=10)
    await clock.advance(10)
    clock.jump(-100)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_a_command_has_one_instant() -> None:
    """One instant per command."""
    async with Queue(Broker(MemoryStore(), RestlessClock())) as queue:
        await queue.publish_many("orders", [Message(b"%d" % number, key=f"k{number}") for number in range(100)])
        messages = await take(queue, "orders")
        assert len({message.partition for message in messages}) > 1
        assert len({message.timestamp for message in messages}) == 1
        traces = [await queue.trace(message.id) for message in messages]
        assert len({trace.events[-1].until for trace in traces}) == 1


async def test_a_transaction_has_one_instant() -> None:
    """One instant per command."""
    async with Queue(Broker(MemoryStore(), RestlessClock())) as queue:
        async with queue.transaction() as tx:
            for topic in ("a", "b", "c"):
                tx.publish(topic, b"1")
        times = {(await queue.message(one.id)).message.timestamp for one in tx.sent}
        assert len(times) == 1


async def test_a_forward_jump_rings_everything_that_became_due(queue: Queue, clock: ManualClock) -> None:
    """The clock may jump; what became due is due."""
    await queue.publish("orders", b"1", delay=10)
    await queue.publish("orders", b"2", delay=1000)
    clock.jump(5000)
    assert sorted(values(await take(queue, "orders"))) == [b"1", b"2"]
