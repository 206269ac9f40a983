"""Messages for later: after a delay, at an instant, or not at all."""

import asyncio
import time

import ortoo


async def main(queue: ortoo.Queue) -> None:
    await queue.publish("reminders", "tea is ready", delay=0.5)
    await queue.publish("reminders", "put the kettle on", deliver_at=time.time() + 0.25)
    await queue.publish("reminders", "fetch a cup")
    mistake = await queue.publish("reminders", "buy coffee", delay=0.25)
    await queue.delete_message(mistake.id)  # until it is due it can be taken back, or hastened with retry_now

    for message in await queue.lease("reminders", max_messages=10):
        print(f"at once: {message.value.decode()}")
        await message.ack()
    print(f"later: {len(await queue.messages('reminders', state='delayed'))} messages")
    async for message in queue.consume("reminders", wait=1):
        print(f"when due: {message.value.decode()}")
        await message.ack()

    # The other way round: worth nothing after a while. `ttl` counts from the moment the message can be delivered.
    await queue.publish("offers", "cake at half price", ttl=0.01)
    await asyncio.sleep(0.02)
    print(f"offers in time: {await queue.lease('offers')}")


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
