"""A worker: functions that are called with messages, side by side, and tried again when they fail.

Here it shares a queue in memory. A program that only works would name a server and run until it gets a signal:

    worker = ortoo.Worker("ortoo://localhost:7632")
    worker.run()
"""

import asyncio

import ortoo


def add_handlers(worker: ortoo.Worker, done: asyncio.Event) -> None:
    stored: list[str] = []

    @worker.on("emails", group="senders", concurrency=8)
    async def send(message: ortoo.Received) -> None:
        address = message.value.decode()
        if "@" not in address:
            raise ortoo.Reject("that is no address")  # permanent failure: dead-letter it
        if address == "bob@busy.example" and message.attempt == 1:
            raise ConnectionError("the mail server is busy")  # temporary failure: retry after the topic's backoff
        print(f"sent to {address} on attempt {message.attempt}")
        await worker.queue.publish("events", f"sent to {address}")  # returning acks the message

    @worker.on_batch("events", group="loader", max_messages=500)
    async def load(messages: list[ortoo.Received]) -> None:  # a plain function would run in a thread
        stored.extend(message.value.decode() for message in messages)
        if len(stored) == 2:
            print(f"stored: {', '.join(stored)}")
            done.set()


async def main(queue: ortoo.Queue) -> None:
    await queue.create_topic("emails", max_attempts=5, backoff_initial=0.05)
    await queue.create_topic("events")
    await queue.publish_many("emails", ["ann@example.org", "bob@busy.example", "nowhere"])

    worker, done = ortoo.Worker(queue), asyncio.Event()
    add_handlers(worker, done)
    async with worker:  # on leaving, handlers finish and waiting messages are released
        await done.wait()

    print(f"handled {worker.stats.handled}, failed {worker.stats.failed}, rejected {worker.stats.rejected}")
    for letter in await queue.dead_letters("emails"):
        print(f"dead letter {letter.value.decode()!r}: {letter.headers['ortoo-error']}")


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
