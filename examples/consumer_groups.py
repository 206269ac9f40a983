"""Groups: each group gets every message, and the consumers of one group share them."""

import asyncio

import ortoo


async def work(queue: ortoo.Queue, consumer: str) -> list[str]:
    """What this consumer got. `prefetch` is small here so that both workers get something."""
    done: list[str] = []
    async for message in queue.consume("orders", group="billing", consumer=consumer, prefetch=2, wait=0):
        await asyncio.sleep(0)  # the work itself; meanwhile the other worker takes its turn
        done.append(message.value.decode())
        await message.ack()
    return done


async def main(queue: ortoo.Queue) -> None:
    await queue.publish_many("orders", [ortoo.Message(f"order {number}") for number in range(6)])

    first, second = await asyncio.gather(work(queue, "worker-1"), work(queue, "worker-2"))
    print(f"two workers shared {len(first) + len(second)} orders, none twice: {not set(first) & set(second)}")

    # Another group has its own place in the same log.
    shipped = await queue.lease("orders", group="shipping", max_messages=4)
    await queue.ack(shipped)
    for info in await queue.groups("orders"):
        print(f"{info.name} has {info.backlog} orders left")

    # A group can be moved: here back to the start, so that everything is delivered to it again.
    await queue.seek("orders", "billing", "start")
    print(f"after a seek billing has {(await queue.group('orders', 'billing')).backlog} orders left")


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
