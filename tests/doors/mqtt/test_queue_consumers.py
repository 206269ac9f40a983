"""Consumers of queues over MQTT: rights, groups, several subscriptions at once, and what comes again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ortoo.app.server import Server
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.model.access import Grant
from ortoo.model.names import TopicName
from ortoo.model.queries import GetTopic
from ortoo.model.replies import GroupInfo

from .wired import Wire, id_of, join, limited, serving


async def group(server: Server, topic: str, name: str) -> GroupInfo:
    info = await server.broker.ask(GetTopic(TopicName("default", topic)))
    return next(each for each in info.groups if each.name == name)


def subscribing(packet_id: int, filter: str, **user: str) -> p.Subscribe:
    pairs = tuple((name.replace("_", "-"), value) for name, value in user.items())
    return p.Subscribe(packet_id, (p.Subscription(filter, 1),), properties=Properties(user=pairs))


async def test_a_token_for_some_topics_gets_the_messages_of_its_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(token="t" * 32) as server:
        limited(server, monkeypatch, Grant(("read", "write"), topics=("mine",)))
        guest = await join(server, "guest", password="guest")
        assert await guest.subscribe("$queue/mine", consumer_group="g") == (1,)
        await guest.publish("$queue/mine", b"1")
        [message] = await guest.messages(1)
        assert await guest.settle("mine", "ack", id_of(message)) == 0
        assert (await group(server, "mine", "g")).backlog == 0


async def test_subscribing_many_times_at_once_leaves_one_consumer_that_ends_with_the_connection() -> None:
    async with serving() as server:
        wire = await join(server, "c")
        wire.send(*(subscribing(number, "$queue/t", consumer_group="g", tried=str(number)) for number in range(1, 9)))
        for _ in range(8):
            assert (await wire.expect(p.Suback)).reasons == (1,)
        await wire.disconnect()
        again = await join(server, "c")  # which has subscribed to nothing
        await again.publish("$queue/t", b"1")
        assert await again.rest() == []
        assert (await group(server, "t", "g")).ready == 1


async def test_a_puback_is_of_the_group_that_the_message_came_through() -> None:
    async with serving() as server:
        wire = await join(server, "c")
        for number, name in enumerate("ab", 1):
            asked = (p.Subscription(f"$share/{name}/$queue/t", 1),)
            user = (("ack-mode", "puback"),)
            wire.send(p.Subscribe(number, asked, properties=Properties(user=user, subscription_ids=(number,))))
            await wire.expect(p.Suback)
        await wire.publish("$queue/t", b"1")
        packets = {message.properties.subscription_ids[0]: message.packet_id for message in await wire.messages(2)}
        wire.send(p.Puback(packets[2], 0x83))  # refused: to the dead letters
        while (refused := await group(server, "t", "b")).dead == 0:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)
        assert refused.backlog == 0
        assert (await group(server, "t", "a")).leased == 1


async def test_what_was_under_way_is_looked_for_in_its_own_group(tmp_path: Path) -> None:
    """To look for it elsewhere would be to take everything there is."""
    async with serving(str(tmp_path)) as server:
        wire = await join(server, "c", clean=False, expiry=600)
        for filter in ("$share/a/$queue/t", "$share/b/$queue/t"):
            await wire.subscribe(filter, ack_mode="puback")
        await wire.publish("$queue/t", b"first")
        await wire.messages(2)
        wire.cut()
        sender = await join(server, "sender")
        for number in range(100):
            await sender.publish("$queue/t", b"%d" % number)
        back = await join(server, "c", clean=False, expiry=600, window=10)
        await back.messages(10)
        assert await within(back) == []
        for name in ("a", "b"):
            assert (await group(server, "t", name)).leased <= 20


async def within(wire: Wire) -> list[p.Publish]:
    """What comes while nothing is answered."""
    found: list[p.Publish] = []
    try:
        while True:
            async with asyncio.timeout(0.5):
                found.append(await wire.expect(p.Publish))
    except TimeoutError:
        return found
