"""When work fails: try again with a pause, give up in an orderly way, look at what failed, and send it again."""

import asyncio

import ortoo


def charge(message: ortoo.Received) -> None:
    match message.value:
        case b"card declined":
            raise ValueError("the card was declined")
        case b"bank offline" if message.attempt == 1:
            raise ConnectionError("the bank does not answer")


async def work(queue: ortoo.Queue) -> None:
    async for message in queue.consume("payments", wait=0.5):
        try:
            charge(message)
        except ConnectionError as error:  # may work later: again, after the topic's backoff
            print(f"attempt {message.attempt} failed: {error}")
            await message.nack(str(error))
        except ValueError as error:  # never will: straight to the dead letters
            print(f"rejected: {error}")
            await message.reject(str(error))
        else:
            print(f"charged on attempt {message.attempt}: {message.value.decode()}")
            await message.ack()


async def main(queue: ortoo.Queue) -> None:
    await queue.create_topic("payments", max_attempts=3, backoff_initial=0.05, backoff_factor=2)
    flaky = await queue.publish("payments", "bank offline")
    await queue.publish("payments", "card declined")
    await work(queue)

    # Everything that happened to a message can be asked for.
    trace = await queue.trace(flaky.id)
    print("trace: " + ", ".join(event.what for event in trace.events))

    # A dead letter is a message in a topic of its own; its headers say where it came from and why it is there.
    for letter in await queue.dead_letters("payments"):
        print(f"dead letter {letter.value.decode()!r}: {letter.headers['ortoo-error']}")

    # Once the cause is mended, the originals are delivered again to the group that failed them.
    print(f"redriven: {await queue.redrive('payments')}")
    for message in await queue.lease("payments"):
        print(f"back again on attempt {message.attempt}: {message.value.decode()}")
        await message.ack()


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
