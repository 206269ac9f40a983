"""The window buffer: messages wait until there are enough of them, or it has been long enough."""

import pytest

from ortoo import ConfigError, Queue
from ortoo.testing import ManualClock

from .actors import poll, publish, take, values, waiters


async def test_messages_become_leasable_when_the_seconds_are_over(queue: Queue, clock: ManualClock) -> None:
    """Window buffer is a topic setting (count, seconds): new messages become leasable when the window closes."""
    await queue.create_topic("orders", partitions=1, window_seconds=5)
    await queue.publish("orders", b"1")
    await clock.advance(4)
    await queue.publish("orders", b"2")
    await clock.advance(0.999)
    assert await take(queue, "orders") == []
    await clock.advance(0.001)
    assert values(await take(queue, "orders")) == [b"1", b"2"]
    await queue.publish("orders", b"3")
    assert await take(queue, "orders") == []
    await clock.advance(5)
    assert values(await take(queue, "orders")) == [b"3"]


async def test_messages_become_leasable_when_the_count_is_reached(queue: Queue, clock: ManualClock) -> None:
    """Window buffer is a topic setting (count, seconds): new messages become leasable when the window closes."""
    await queue.create_topic("orders", window_seconds=60, window_count=3)
    await publish(queue, "orders", b"1", b"2")
    assert await take(queue, "orders") == []
    await queue.publish("orders", b"3")
    messages = await take(queue, "orders")
    assert sorted(values(messages)) == [b"1", b"2", b"3"]
    await queue.ack(messages)
    await queue.publish("orders", b"4")
    await clock.advance(59)
    assert await take(queue, "orders") == []
    await clock.advance(1)
    assert values(await take(queue, "orders")) == [b"4"]


async def test_redeliveries_bypass_the_window(queue: Queue, clock: ManualClock) -> None:
    """Redeliveries bypass it."""
    await queue.create_topic("orders", partitions=1, window_seconds=60, window_count=2)
    await publish(queue, "orders", b"1", b"2")
    first, second = await take(queue, "orders")
    await queue.publish("orders", b"3")
    await first.nack(delay=0)
    await second.release()
    assert values(await take(queue, "orders")) == [b"1", b"2"]


async def test_polls_simply_wait(queue: Queue, clock: ManualClock) -> None:
    """Polls simply wait."""
    await queue.create_topic("orders", partitions=1, window_seconds=5)
    waiting = await poll(queue, max_messages=100)
    await publish(queue, "orders", b"1", b"2")
    await clock.advance(4)
    assert await waiters(queue) == 1
    await clock.advance(1)
    assert values(await waiting) == [b"1", b"2"]


async def test_a_window_that_is_taken_away_frees_what_waits(queue: Queue) -> None:
    """Window buffer is a topic setting: it may be changed."""
    await queue.create_topic("orders", window_seconds=60)
    waiting = await poll(queue)
    await queue.publish("orders", b"1")
    await queue.update_topic("orders", window_seconds=0)
    assert values(await waiting) == [b"1"]


async def test_a_count_alone_might_never_close(queue: Queue) -> None:
    """Hold messages until a batch fills or N seconds pass."""
    with pytest.raises(ConfigError, match="window_seconds"):
        await queue.create_topic("orders", window_count=10)


async def test_a_message_asked_for_by_name_leaves_the_others_in_their_window(queue: Queue) -> None:
    """New messages become leasable when the window closes; retry now lets out that one alone."""
    await queue.create_topic("orders", partitions=1, window_seconds=60)
    await queue.publish("orders", b"0")
    assert await take(queue, "orders") == []
    sent = await publish(queue, "orders", b"1", b"2", b"3")
    await queue.retry_now(sent[1].id)
    assert values(await take(queue, "orders")) == [b"2"]
    assert await take(queue, "orders") == []


async def test_the_window_closes_for_the_others_as_if_nobody_had_asked(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1, window_seconds=60)
    await queue.publish("orders", b"0")
    assert await take(queue, "orders") == []
    sent = await publish(queue, "orders", b"1", b"2", b"3", key="k")
    await queue.retry_now(sent[2].id)
    [early] = await take(queue, "orders", lease=600)
    await clock.advance(61)
    assert values(await take(queue, "orders")) == [b"0"]  # its key is held
    await queue.ack(early)
    assert values(await take(queue, "orders")) == [b"1", b"2"]


async def test_giving_one_up_by_name_lets_none_out(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1, window_seconds=60, dlq=False)
    await queue.publish("orders", b"0")
    assert await take(queue, "orders") == []
    sent = await publish(queue, "orders", b"1", b"2")
    await queue.dead_letter(sent[1].id)
    assert await take(queue, "orders") == []
    assert (await queue.group("orders")).backlog == 2


@pytest.mark.parametrize("is_bounded", [False, True])
async def test_coming_back_to_what_was_gone_past_lets_none_out(
    queue: Queue, clock: ManualClock, is_bounded: bool
) -> None:
    """New messages become leasable when the window closes; a seek to the end and back is no reason to let them out."""
    await queue.create_topic("orders", partitions=1, window_seconds=60)
    await queue.create_group("orders", "default")
    await publish(queue, "orders", b"0", b"1", b"2")
    await queue.seek("orders", "default", "end")
    if is_bounded:
        await queue.seek("orders", "default", offset=0, to_offset=2)
    else:
        await queue.seek("orders", "default", "start")
    assert await take(queue, "orders") == []
    await clock.advance(60)
    assert values(await take(queue, "orders")) == ([b"0", b"1"] if is_bounded else [b"0", b"1", b"2"])


async def test_going_past_what_waits_in_a_window_is_for_good(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1, window_seconds=60)
    await queue.create_group("orders", "default")
    sent = await queue.publish("orders", b"0")
    await queue.seek("orders", "default", "end")
    assert (await queue.message(sent.id)).states == {"default": "done"}
    await clock.advance(60)
    assert await take(queue, "orders") == []


async def test_a_seek_lets_none_out_that_lie_before_one_that_was_delivered(queue: Queue, clock: ManualClock) -> None:
    """One that was asked for by name came in time, and returns; the others of its window still wait."""
    await queue.create_topic("orders", partitions=1, window_seconds=60, max_wait=10)
    await queue.publish("orders", b"0")
    assert await take(queue, "orders") == []
    await queue.publish("orders", b"1", delay=5)
    early = await queue.publish("orders", b"2")
    await queue.retry_now(early.id)
    assert values(await take(queue, "orders", lease=600)) == [b"2"]
    await clock.advance(11)  # too long for the first, and the second is due
    await queue.seek("orders", "default", "start")
    assert values(await take(queue, "orders")) == [b"2"]
