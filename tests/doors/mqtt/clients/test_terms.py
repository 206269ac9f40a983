"""MQTT 5: do server and client keep to what they told each other when they met?"""

from __future__ import annotations

import asyncio

import pytest

from .brokers import KEEP_ALIVE_MAX, PACKET_BYTES_MAX, Broker
from .client import Properties
from .joining import Join, Kind, able

FIVE = able(versions=(5,))
PAHO = Kind("paho", 5)
PACKET_TOO_LARGE = 0x95


@pytest.mark.parametrize("kind", able("assigned id", versions=(5,)), ids=str)
async def test_a_client_without_an_identifier_is_given_one(join: Join, kind: Kind, name: str) -> None:
    first, second = await join(kind, ""), await join(kind, "")
    assert first.greeting.assigned_id
    assert second.greeting.assigned_id
    assert first.greeting.assigned_id != second.greeting.assigned_id
    again = await join(kind, first.greeting.assigned_id)
    assert again.greeting.assigned_id is None
    await first.wait_ended()


async def test_an_old_client_without_an_identifier_is_welcome_for_one_connection(join: Join, name: str) -> None:
    kind = Kind("paho", 4)
    alice = await join(kind, "")
    await alice.subscribe(name)
    await alice.publish(name, b"1")
    assert (await alice.receive()).payload == b"1"


@pytest.mark.parametrize("kind", able("server terms", versions=(5,)), ids=str)
async def test_the_server_says_what_it_allows(join: Join, kind: Kind) -> None:
    alice = await join(kind, keep_alive=2 * KEEP_ALIVE_MAX)
    assert alice.greeting.server_keep_alive == KEEP_ALIVE_MAX
    assert alice.greeting.packet_bytes_max == PACKET_BYTES_MAX
    assert alice.greeting.aliases_max
    assert alice.greeting.receive_maximum is None or alice.greeting.receive_maximum > 0


async def test_the_window_of_the_client_is_kept(broker: Broker, join: Join, name: str) -> None:
    """mosquitto 2.0.11 keeps to it once: after the first PUBACK it sends three more."""
    alice, bob = await join(PAHO), await join(PAHO, receive_maximum=3, acks_by_hand=True)
    await bob.subscribe(name)
    for number in range(10):
        await alice.publish(name, b"%d" % number)
    held = await bob.receive_many(3)
    assert await bob.nothing_more()
    for expected in range(3, 4 if broker.is_mosquitto else 10):
        await bob.ack(held.pop(0))
        held.append(await bob.receive())
        assert held[-1].payload == b"%d" % expected
        assert broker.is_mosquitto or await bob.nothing_more()


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_what_is_too_large_for_a_client_does_not_reach_it(join: Join, kind: Kind, name: str) -> None:
    alice, bob, carol = await join(kind), await join(kind, packet_bytes_max=500), await join(kind)
    await bob.subscribe(name)
    await carol.subscribe(name)
    for size in (100, 1000, 101):
        await alice.publish(name, b"x" * size)
    assert [len(message.payload) for message in await bob.receive_many(2)] == [100, 101]
    assert [len(message.payload) for message in await carol.receive_many(3)] == [100, 1000, 101]


async def test_what_is_too_large_for_the_server_ends_the_connection(join: Join, name: str) -> None:
    alice, bob = await join(PAHO), await join(Kind("paho", 4))
    await bob.subscribe(name)
    publishing = asyncio.create_task(alice.publish(name, b"x" * 2 * PACKET_BYTES_MAX, 0))
    ended = await alice.wait_ended()
    publishing.cancel()  # it may have been cut off in the middle
    assert ended.reason in (PACKET_TOO_LARGE, None)  # None: the connection was closed with bytes still on their way
    await bob.publish(name, b"others go on")
    assert (await bob.receive()).payload == b"others go on"


async def test_topic_aliases_of_a_client(join: Join, name: str) -> None:
    alice, bob = await join(PAHO), await join(PAHO)
    await bob.subscribe(f"{name}/#")
    await alice.publish(f"{name}/a", b"1", properties=Properties(topic_alias=1))
    await alice.publish("", b"2", 0, properties=Properties(topic_alias=1))
    await alice.publish(f"{name}/b", b"3", properties=Properties(topic_alias=1))
    await alice.publish("", b"4", 2, properties=Properties(topic_alias=1))
    found = await bob.receive_many(4)
    assert [(message.topic, message.payload) for message in found] == [
        (f"{name}/a", b"1"),
        (f"{name}/a", b"2"),
        (f"{name}/b", b"3"),
        (f"{name}/b", b"4"),
    ]


@pytest.mark.parametrize("kind", [Kind("gmqtt", 5), Kind("mqttjs", 5)], ids=str)
async def test_a_library_that_knows_aliases_gives_topics(join: Join, kind: Kind, name: str) -> None:
    """MQTT.js uses them for what it sends, too."""
    alice, bob = await join(kind), await join(kind, aliases_max=5)
    await bob.subscribe(f"{name}/#")
    topics = [f"{name}/{number % 8}" for number in range(24)]
    for topic in topics:
        await alice.publish(topic, b"")
    assert [message.topic for message in await bob.receive_many(24)] == topics


async def test_topic_aliases_of_the_server(broker: Broker, join: Join, name: str) -> None:
    """paho-mqtt shows them as they came."""
    if broker.is_mosquitto:
        pytest.skip("mosquitto 2.0 uses no aliases")
    alice, bob = await join(PAHO), await join(PAHO, aliases_max=1)
    await bob.subscribe(f"{name}/#")
    for topic in ("a", "a", "b", "b"):
        await alice.publish(f"{name}/{topic}", b"")
    found = await bob.receive_many(4)
    assert [message.topic for message in found] == [f"{name}/a", "", f"{name}/b", f"{name}/b"]
    assert [message.properties.topic_alias for message in found] == [1, 1, None, None]


async def test_who_is_sent_away_is_told_why_in_words(broker: Broker, join: Join) -> None:
    if broker.is_mosquitto:
        pytest.skip("mosquitto 2.0 sends no reason strings")
    first = await join(PAHO)
    await join(PAHO, first.options.client_id)
    assert (await first.wait_ended()).reason_string


async def test_the_state_of_the_server_is_published(join: Join) -> None:
    kind = Kind("paho", 5)
    curious, other = await join(kind), await join(kind)
    await other.subscribe("#", 0)
    await curious.subscribe("$SYS/broker/version", 0)
    found = await curious.receive()
    assert found.topic == "$SYS/broker/version"
    assert found.payload
    await other.nothing_more()
    topics = [other.inbox.get_nowait().topic for _ in range(other.inbox.qsize())]
    assert not [topic for topic in topics if topic.startswith("$")]
