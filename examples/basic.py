"""Publish, lease, acknowledge: the whole idea in one file."""

import asyncio

import ortoo


async def main(queue: ortoo.Queue) -> None:
    # A topic is created by its first message. Values are bytes, text, or anything that fits into JSON.
    await queue.publish("orders", b"raw bytes", key="ann")
    await queue.publish("orders", "some text", key="ann")
    sent = await queue.publish("orders", {"item": "tea", "count": 2}, key="bob", headers={"source": "shop"})
    print(f"published {sent.id}")

    # A lease is yours for a limited time. A message that is not acknowledged by then is delivered again.
    for message in await queue.lease("orders", max_messages=2, lease=30):
        print(f"leased {message.value!r} of {message.key}")
        await message.ack()

    # The usual way: a loop. It would run forever; `wait` ends it when nothing has arrived for that many seconds.
    async for message in queue.consume("orders", wait=0):
        print(f"consumed {message.json()} from the {message.headers['source']}")
        await message.ack()

    # Acknowledged messages stay in the log until retention removes them, and can be read again at any time.
    values = [message.value async for message in queue.read("orders")]
    print(f"the log still has {len(values)} messages")


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
