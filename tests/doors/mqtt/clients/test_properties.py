"""MQTT 5: do messages carry their properties, and do subscriptions get what they ask for?"""

from __future__ import annotations

import asyncio

import pytest

from .client import Client, Message, Properties, Will
from .joining import TWO, Join, Kind, able
from .line import Line

FIVE = able(versions=(5,))


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_properties_are_carried(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind), await join(kind)
    await bob.subscribe(name, 2)
    user = (("z", "1"), ("a", "2"), ("ключ", "значение"), ("m", ""))
    sent = Properties(user, "application/json", 1, f"{name}/reply", b"\x00\xff", 100)
    for qos in (0, 1, 2):
        await alice.publish(name, b"{}", qos, properties=sent)
        found = (await bob.receive()).properties
        assert found.user == user
        assert (found.content_type, found.payload_format) == ("application/json", 1)
        assert (found.response_topic, found.correlation_data) == (f"{name}/reply", b"\x00\xff")
        assert found.message_expiry in (99, 100)


@pytest.mark.parametrize("kind", [Kind("paho", 5), Kind("aiomqtt", 5), Kind("gmqtt", 5)], ids=str)
async def test_user_properties_repeat_and_keep_their_order(join: Join, kind: Kind, name: str) -> None:
    """Not with MQTT.js, which keeps them by their names."""
    alice, bob = await join(kind), await join(kind)
    await bob.subscribe(name)
    user = (("b", "1"), ("a", "2"), ("b", "0"), ("a", "2"))
    await alice.publish(name, properties=Properties(user))
    assert (await bob.receive()).properties.user == user


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_a_request_is_answered(join: Join, kind: Kind, name: str) -> None:
    requester, responder = await join(kind), await join(kind)
    await responder.subscribe(f"{name}/requests")
    await requester.subscribe(f"{name}/replies")
    asked = Properties(response_topic=f"{name}/replies", correlation_data=b"7")
    await requester.publish(f"{name}/requests", b"6 * 7", properties=asked)
    request = await responder.receive()
    assert request.properties.response_topic is not None
    reply = Properties(correlation_data=request.properties.correlation_data)
    await responder.publish(request.properties.response_topic, b"42", properties=reply)
    found = await requester.receive()
    assert (found.payload, found.properties.correlation_data) == (b"42", b"7")


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_subscription_identifiers(join: Join, kind: Kind, name: str) -> None:
    """A message that several subscriptions match may come once for each, or once with all."""
    bob = await join(kind)
    await bob.subscribe(f"{name}/+", identifier=1)
    await bob.subscribe(f"{name}/#", identifier=268_435_455)
    await bob.subscribe(f"{name}/other")
    await bob.publish(f"{name}/a", b"1")
    await bob.publish(f"{name}/end", b"end")
    found: list[int] = []
    while (message := await bob.receive()).payload != b"end":
        found += message.properties.subscription_ids
    assert sorted(found) == [1, 268_435_455]


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_no_local(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind), await join(kind)
    await alice.subscribe(name, no_local=True)
    await alice.publish(name, b"mine")
    await bob.publish(name, b"yours")
    assert (await alice.receive()).payload == b"yours"


@pytest.mark.parametrize("kind", [*FIVE, Kind("paho", 4)], ids=str)
async def test_a_shared_subscription_gives_each_message_to_one_member(join: Join, kind: Kind, name: str) -> None:
    members = [await join(kind) for _ in range(3)]
    others = await join(kind)
    for member in members:
        await member.subscribe(f"$share/group/{name}/#")
    await others.subscribe(f"$share/others/{name}/#")
    for number in range(12):
        await others.publish(f"{name}/{number}", b"%d" % number)
    await others.receive_many(12)
    found = [message.payload for member in members for message in await _all_of(member)]
    assert sorted(found) == sorted(b"%d" % number for number in range(12))


async def _all_of(client: Client) -> list[Message]:
    await client.nothing_more()
    return [client.inbox.get_nowait() for _ in range(client.inbox.qsize())]


@pytest.mark.parametrize("kind", TWO, ids=str)
async def test_messages_expire_while_a_client_is_away(join: Join, kind: Kind, name: str, line: Line) -> None:
    """A will with a delay tells when the second is over; what does not expire yet is told how long it has left."""
    alice, bob = await join(kind), await join(kind, stays=True)
    await bob.subscribe(f"{name}/a")
    await bob.disconnect()
    await alice.publish(f"{name}/a", b"short", properties=Properties(message_expiry=1))
    await alice.publish(f"{name}/a", b"long", properties=Properties(message_expiry=1000))
    await alice.subscribe(f"{name}/clock")
    await join(kind, session_expiry=60, will=Will(f"{name}/clock", b"", delay=2), through=line)
    line.cut()
    await alice.receive()
    again = await join(kind, bob.options.client_id, stays=True)
    found = await again.receive()
    assert found.payload == b"long"
    assert found.properties.message_expiry is not None
    assert 900 < found.properties.message_expiry < 1000


async def test_many_at_once(join: Join, name: str) -> None:
    """More than the server lets one client have under way: the library waits."""
    kind = Kind("paho", 5)
    alice, bob = await join(kind), await join(kind)
    await bob.subscribe(name, 2)
    await asyncio.gather(*(alice.publish(name, b"%d" % number, 2) for number in range(500)))
    found = await bob.receive_many(500)
    assert [message.payload for message in found] == [b"%d" % number for number in range(500)]
