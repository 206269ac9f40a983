"""Urgent things first: priorities of messages, and priorities of whole topics."""

import asyncio

import ortoo


async def main(queue: ortoo.Queue) -> None:
    # Lower is sooner: 0 is "high", 5 is "normal" and the default, 9 is "low". Equals keep their order.
    await queue.publish("jobs", "clean up", priority="low")
    await queue.publish("jobs", "send the newsletter")
    await queue.publish("jobs", "restart the database", priority="high")
    await queue.publish("jobs", "renew the certificate", priority=1)
    messages = await queue.lease("jobs", max_messages=10)
    print(", ".join(message.value.decode() for message in messages))
    await queue.ack(messages)

    # Topics have labels and priorities too: one consumer serves all of them, the most urgent topic first.
    await queue.create_topic("reports", labels={"task": "mail"}, priority=7)
    await queue.create_topic("alerts", labels={"task": "mail"}, priority=1)
    await queue.publish("reports", "last month's figures")
    await queue.publish("alerts", "the disk is full")
    messages = await queue.lease(labels={"task": "mail"}, max_messages=10)
    print(", ".join(f"{message.topic}: {message.value.decode()}" for message in messages))
    await queue.ack(messages)


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
