"""Connections are cut at any point, and nothing is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

import ortoo
from ortoo import LeaseLostError, Queue, Sent
from tests.client.proxy import Proxy
from tests.doors.tcp.home import Home, serving, until
from tests.semantics.stores import SlowStore


def cut_at_random(proxy: Proxy, seed: int, most: int = 4_000) -> None:
    random = Random(seed)
    proxy.patience = lambda: random.randint(150, most)


async def stored(home: Home, topic: str) -> list[bytes]:
    return [message.value async for message in home.queue.read(topic)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("seed", range(3))
async def test_single_publishes_happen_once_and_in_order(home: Home, proxy: Proxy, seed: int) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    cut_at_random(proxy, seed)
    async with ortoo.connect(proxy.url) as queue:
        for value in numbers(300):
            await queue.publish("jobs", value)
    assert await stored(home, "jobs") == numbers(300)
    assert proxy.connections > 5


@pytest.mark.parametrize("seed", range(3))
async def test_publishes_under_way_together_happen_once_and_in_order(home: Home, proxy: Proxy, seed: int) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    async with ortoo.connect(proxy.url) as queue:
        cut_at_random(proxy, seed, most=200_000)  # one may be enough for all that is under way, or not
        proxy.cut()
        work = [asyncio.create_task(publish_alone(queue, value)) for value in numbers(4000)]
        places = [await task for task in work]
    assert await stored(home, "jobs") == numbers(4000)
    assert [sent.offset for sent in places] == list(range(4000))
    assert proxy.connections > 2


async def publish_alone(queue: Queue, value: bytes) -> Sent:
    """Not gathered with others, so that many requests are under way."""
    async with queue.transaction() as tx:
        tx.publish("jobs", value)
    return tx.sent[0]


@pytest.mark.parametrize("seed", range(2))
async def test_transactions_happen_once(home: Home, proxy: Proxy, seed: int) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    await home.queue.create_topic("done", partitions=1)
    await home.queue.publish_many("jobs", numbers(60))
    async with ortoo.connect(proxy.url, consumer="c") as queue:
        held = await queue.lease("jobs", max_messages=100)
        cut_at_random(proxy, seed)
        proxy.cut()
        for message in held:
            async with queue.transaction() as tx:
                tx.ack(message)
                tx.publish("done", message.value)
            assert len(tx.sent) == 1
    assert await stored(home, "done") == numbers(60)
    assert (await home.queue.group("jobs", "default")).backlog == 0


@pytest.mark.parametrize("seed", range(2))
async def test_named_transactions_are_staged_and_committed_once(home: Home, proxy: Proxy, seed: int) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    cut_at_random(proxy, seed)
    async with ortoo.connect(proxy.url) as queue:
        for batch in range(10):
            transaction = await queue.begin(f"batch-{batch}")
            for number in range(5):
                await transaction.publish("jobs", b"%d" % (5 * batch + number))
            assert await transaction.commit() == 5
            assert await transaction.commit() == 0  # an answer of its own, though it is the same command
    assert await stored(home, "jobs") == numbers(50)


@pytest.mark.parametrize("seed", range(2))
async def test_administration_happens_once(home: Home, proxy: Proxy, seed: int) -> None:
    """What says that it was there already, or is gone already, would be wrong: nobody else did it."""
    cut_at_random(proxy, seed, most=1500)
    async with ortoo.connect(proxy.url) as queue:
        for number in range(30):
            await queue.create_topic(f"t{number}", exist_ok=False)
            await queue.create_group(f"t{number}", "g")
            await queue.publish(f"t{number}", b"x")
            assert (await queue.topic(f"t{number}")).messages == 1
            await queue.delete_group(f"t{number}", "g")
            await queue.delete_topic(f"t{number}")
    assert await home.queue.topics() == []
    assert proxy.connections > 5


@pytest.mark.parametrize("seed", range(2))
async def test_a_nack_counts_once(home: Home, proxy: Proxy, seed: int) -> None:
    await home.queue.create_topic("jobs", partitions=1, max_attempts=5, backoff_initial=0.0, backoff_max=0.0)
    await home.queue.publish_many("jobs", numbers(20))
    async with ortoo.connect(proxy.url) as queue:
        held = await queue.lease("jobs", max_messages=100, lease=60)
        cut_at_random(proxy, seed, most=1500)
        proxy.cut()
        for message in held:
            await message.nack("once", delay=3600)
    for message in await home.queue.messages("jobs", state="delayed"):
        await home.queue.retry_now(message.id)
    assert {m.attempt for m in await home.queue.lease("jobs", max_messages=100)} == {2}


async def consumed(queue: Queue, count: int, prefetch: int) -> tuple[set[bytes], list[bytes]]:
    """What was acked, and the deliveries of what had been acked already."""
    acked: set[bytes] = set()
    again: list[bytes] = []
    async with queue.consume("jobs", prefetch=prefetch) as messages:
        async for message in messages:
            if message.value in acked:
                again.append(message.value)
            try:
                await message.ack()
                acked.add(message.value)
            except LeaseLostError:
                pass
            if len(acked) == count:
                break
    return acked, again


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_while_messages_are_pushed(home: Home, proxy: Proxy, seed: int) -> None:
    await home.queue.create_topic("jobs", lease=0.3, max_attempts=1000, backoff_initial=0.0, backoff_max=0.0)
    await home.queue.publish_many("jobs", numbers(300))
    cut_at_random(proxy, seed, most=6_000)
    async with asyncio.timeout(300), ortoo.connect(proxy.url) as queue:
        acked, again = await consumed(queue, 300, prefetch=20)
    assert acked == set(numbers(300))
    assert again == []
    assert (await home.queue.group("jobs", "default")).backlog == 0
    assert proxy.connections > 3


async def test_a_subscription_that_has_used_up_its_credit_goes_on_after_a_cut(home: Home, proxy: Proxy) -> None:
    await home.queue.publish_many("jobs", numbers(10))
    async with ortoo.connect(proxy.url) as queue, queue.consume("jobs", prefetch=5) as messages:
        found = [await anext(messages)]
        await until(lambda: leased(home, 5))  # one is in our hands, four are on the table
        proxy.cut()
        await until(lambda: proxy.connections == 2)
        await queue.stats()  # whatever it had to say to the next server was said before
        assert (await home.queue.group("jobs", "default")).leased <= 6  # the prefetch, and the one in our hands
        found += [await asyncio.wait_for(anext(messages), 60) for _ in range(9)]
        assert sorted(message.value for message in found) == numbers(10)


async def test_a_subscription_that_ends_while_the_server_is_away_ends(home: Home, proxy: Proxy) -> None:
    await home.queue.publish_many("jobs", numbers(10))
    async with ortoo.connect(proxy.url) as queue:
        async with queue.consume("jobs", prefetch=5) as messages:
            await anext(messages)
            proxy.go_away()
            await until(lambda: home.gate.connections == 0)
            asyncio.get_running_loop().call_later(0.05, lambda: opening.append(asyncio.ensure_future(proxy.open())))
            opening: list[asyncio.Future[None]] = []
        await until(lambda: leased(home, 1))  # those that were on the table went back


async def leased(home: Home, count: int) -> bool:
    return (await home.queue.group("jobs", "default")).leased == count


async def test_requests_wait_for_a_server_that_is_away(home: Home, proxy: Proxy) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    async with ortoo.connect(proxy.url) as queue:
        proxy.go_away()
        await until(lambda: home.gate.connections == 0)
        work = [asyncio.create_task(queue.publish_many("jobs", [value])) for value in numbers(20)]
        polling = asyncio.create_task(queue.lease("jobs", max_messages=20, wait=10))
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in work)
        await proxy.open()
        await asyncio.gather(*work)
        assert await polling
    assert await stored(home, "jobs") == numbers(20)


async def test_a_server_that_stops_properly_answers_what_is_under_way() -> None:
    """Nobody need be left in doubt."""
    store = SlowStore()
    async with serving(store=store) as home:
        await home.queue.create_topic("jobs")
        async with home.connect(timeout=0.2) as queue:
            store.writing.clear()
            publishing = asyncio.create_task(queue.publish_many("jobs", [b"x"]))
            await until(lambda: home.gate.budget.bytes > 0)
            closing = asyncio.create_task(home.door.close(10))
            await asyncio.sleep(0.05)  # goodbye was said by now
            store.writing.set()
            assert len(await publishing) == 1
            await closing


async def test_a_consumer_that_is_busy_keeps_its_leases_across_a_cut(
    home: Home, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds a message and asks for no other; being connected is life enough."""
    monkeypatch.setattr("ortoo.model.limits.SESSION_TIMEOUT_MS", 3_600_000)  # however busy the machine is
    await home.queue.publish("jobs", b"x")
    async with ortoo.connect(proxy.url, consumer="busy") as queue:
        (message,) = await queue.lease("jobs", lease=60)
        proxy.cut()
        await until(lambda: proxy.connections == 2)
        await queue.stats()  # whatever it had to say to the next server was said before
        await until(lambda: home.gate.connections == 1)
        assert not home.gate.presence._absent
        await message.ack()
