"""Streams held in `async with`: when they begin, and what they give back."""

import asyncio

from ortoo.testing import open_manual


async def test_a_held_subscription_has_begun_when_the_block_begins() -> None:
    async with open_manual() as queue:
        await queue.create_topic("news")
        async with queue.subscribe("news", wait=0.0) as messages:
            await queue.publish("news", b"first")
            assert [message.value async for message in messages] == [b"first"]
        assert await queue.groups("news") == []


async def test_a_held_consumer_has_given_back_what_it_leased_ahead_when_the_block_ends() -> None:
    async with open_manual() as queue:
        for number in range(10):
            await queue.publish("orders", b"%d" % number)
        async with queue.consume("orders") as messages:
            async for message in messages:
                await message.ack()
                break
        info = await queue.group("orders")
        assert (info.leased, info.ready) == (0, 9)


async def test_a_whole_namespace_is_leased_from_without_its_dead_letters_and_answers() -> None:
    async with open_manual() as queue:
        await queue.publish("orders", b"bad")
        await queue.reject(await queue.lease("orders"))
        await queue.publish("mails", b"good")
        leased = await queue.lease(labels={}, group="all", max_messages=10)
        assert sorted(message.topic for message in leased) == ["mails", "orders"]


async def test_a_request_is_answered_from_another_namespace() -> None:
    async with open_manual() as queue:
        await queue.create_topic("auth", namespace="other")
        asked = asyncio.create_task(queue.request("auth", b"who?", timeout=5, namespace="other"))
        [request] = await queue.lease("auth", wait=5, namespace="other")
        await queue.reply(request, b"me")
        assert (await asked).value == b"me"
