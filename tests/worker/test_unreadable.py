"""What becomes of a message that is not what its handler reads it as?"""

import msgspec

import ortoo
from tests.worker.conftest import MakeWorker, until


class Order(msgspec.Struct):
    item: str


async def test_it_is_dead_lettered_at_once(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    """No retry would change it."""
    worker = make_worker()

    @worker.on("orders")
    async def handle(message: ortoo.Received) -> None:
        message.json(Order)

    await queue.publish("orders", {"item": 5})
    async with worker:
        await until(lambda: worker.stats.rejected == 1)
    [letter] = await queue.dead_letters("orders")
    assert letter.headers["ortoo-attempts"] == "1"
    assert "does not fit Order: item must be a string, not a whole number" in letter.headers["ortoo-error"]


async def test_the_others_of_its_batch_come_again_uncounted(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker, loaded = make_worker(), list[tuple[str, int]]()

    @worker.on_batch("orders", max_messages=10)
    def handle(messages: list[ortoo.Received]) -> None:
        orders = [message.json(Order) for message in messages]
        loaded.extend((order.item, message.attempt) for order, message in zip(orders, messages, strict=True))

    await queue.create_topic("orders", partitions=1, max_attempts=2)
    await queue.publish_many("orders", [{"item": "a"}, b"?", {"item": "b"}, {}, {"item": "c"}, [], 5])
    async with worker:
        await until(lambda: worker.stats.rejected == 4 and worker.stats.handled == 3)
    assert sorted(loaded) == [("a", 1), ("b", 1), ("c", 1)]
    assert worker.stats.failed == 0


async def test_another_message_than_its_own_is_no_reason(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()
    other = await queue.publish("others", b"?")

    @worker.on("orders")
    async def handle(message: ortoo.Received) -> None:
        (await queue.message(other.id)).message.json(Order)

    await queue.publish("orders", {"item": "tea"})
    async with worker:
        await until(lambda: worker.stats.failed == 1)
    assert worker.stats.rejected == 0


async def test_a_handler_may_retry_it_all_the_same(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("orders")
    def handle(message: ortoo.Received) -> None:
        try:
            message.json(Order)
        except ortoo.InvalidValueError as error:
            raise RuntimeError("not yet") from error

    await queue.publish("orders", b"?")
    async with worker:
        await until(lambda: worker.stats.failed == 1)
    assert worker.stats.rejected == 0
