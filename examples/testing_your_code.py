"""Tests without waiting: a queue whose clock you move by hand.

`remind` and `send_due` are the code under test; the two tests below are what you would write for them with pytest and
pytest-asyncio. No test sleeps, and an hour passes in an instant.
"""

import asyncio

import ortoo
from ortoo.testing import ManualClock, open_manual


async def remind(queue: ortoo.Queue, text: str, hours: float) -> None:
    await queue.publish("reminders", text, delay=hours * 3600)


async def send_due(queue: ortoo.Queue) -> list[str]:
    messages = await queue.lease("reminders", max_messages=10)
    await queue.ack(messages)
    return [message.value.decode() for message in messages]


async def test_a_reminder_is_sent_when_its_time_has_come() -> None:
    clock = ManualClock()
    async with open_manual(clock) as queue:
        await remind(queue, "water the plants", hours=1)
        await clock.advance(3599)
        assert await send_due(queue) == []
        await clock.advance(1)
        assert await send_due(queue) == ["water the plants"]
    print("a reminder is sent when its time has come")


async def test_a_reminder_comes_back_if_the_sender_dies() -> None:
    clock = ManualClock()
    async with open_manual(clock) as queue:
        await queue.create_topic("reminders", lease=30, backoff_initial=0)
        await remind(queue, "call home", hours=0)
        assert len(await queue.lease("reminders")) == 1  # leased, and never heard of again
        await clock.advance(30)
        assert await send_due(queue) == ["call home"]
    print("a reminder comes back if the sender dies")


async def run() -> None:
    await test_a_reminder_is_sent_when_its_time_has_come()
    await test_a_reminder_comes_back_if_the_sender_dies()


if __name__ == "__main__":
    asyncio.run(run())
