"""Publish and subscribe: every subscriber gets every message published while it listens."""

import asyncio
from collections.abc import AsyncIterator

import ortoo


async def listen(name: str, messages: AsyncIterator[ortoo.Received]) -> None:
    async for message in messages:  # nothing to acknowledge: each message is handed over once
        headline = message.value.decode()
        print(f"{name} heard: {headline}")
        if headline == "good night":
            return


async def main(queue: ortoo.Queue) -> None:
    await queue.create_topic("news", partitions=1)  # one partition: everybody hears everything in the same order
    await queue.publish("news", "nobody is listening yet")
    async with queue.subscribe("news") as ann, queue.subscribe("news") as bob, asyncio.TaskGroup() as tasks:
        tasks.create_task(listen("ann", ann))
        tasks.create_task(listen("bob", bob))
        await queue.publish("news", "tea is ready")
        await queue.publish("news", "good night")


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
