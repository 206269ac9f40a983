"""Publish and subscribe: every subscriber gets every message published while it listens."""

import asyncio

import ortoo


async def listen(queue: ortoo.Queue, name: str) -> None:
    async for message in queue.subscribe("news"):  # nothing to acknowledge: each message is handed over once
        headline = message.value.decode()
        print(f"{name} heard: {headline}")
        if headline == "good night":
            return


async def subscribers(queue: ortoo.Queue, count: int) -> None:
    """Returns once so many listen. A subscription is a group of its own, which vanishes with its subscriber."""
    while len(await queue.groups("news")) < count:  # noqa: ASYNC110 - the subscribers may be in other programs
        await asyncio.sleep(0.001)


async def main(queue: ortoo.Queue) -> None:
    await queue.create_topic("news", partitions=1)  # one partition: everybody hears everything in the same order
    await queue.publish("news", "nobody is listening yet")
    async with asyncio.TaskGroup() as tasks:
        for name in ("ann", "bob"):
            tasks.create_task(listen(queue, name))
        await subscribers(queue, 2)
        await queue.publish("news", "tea is ready")
        await queue.publish("news", "good night")


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
