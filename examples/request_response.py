"""Ask and get an answer: a request is a message, and so is the reply."""

import asyncio

import ortoo


async def serve(queue: ortoo.Queue) -> None:
    async for request in queue.consume("length"):
        await queue.reply(request, {"length": len(request.value)})
        await request.ack()


async def main(queue: ortoo.Queue) -> None:
    await queue.create_topic("length")
    server = asyncio.create_task(serve(queue))

    reply = await queue.request("length", "how long is this?", timeout=5)
    print(f"one answer: {reply.json()}")

    # Many at a time; each answer finds the one who asked.
    replies = await asyncio.gather(*(queue.request("length", "x" * number) for number in range(1, 6)))
    print(f"many answers: {[reply.json()['length'] for reply in replies]}")

    server.cancel()
    try:
        await queue.request("length", "is anybody there?", timeout=0.05)
    except ortoo.NoReplyError as error:
        print(f"no answer: {error}")


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
