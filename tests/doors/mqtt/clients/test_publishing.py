"""Do messages get from client to client, at each quality of service, over each transport, with every library?"""

from __future__ import annotations

import pytest

from .joining import KINDS, SOME, TWO, Join, Kind, able


async def test_messages_arrive_at_each_quality_of_service(join: Join, kind: Kind, name: str) -> None:
    """In each direction: what is published at one QoS arrives at the lower one of it and the subscription's."""
    alice, bob = await join(kind), await join(kind)
    for granted in (0, 1, 2):
        assert await bob.subscribe(f"{name}/{granted}/+", granted) == granted
        for qos in (0, 1, 2):
            assert await alice.publish(f"{name}/{granted}/{qos}", b"m%d" % qos, qos) in (0, 0x10)
            found = await bob.receive()
            assert (found.topic, found.payload, found.qos) == (
                f"{name}/{granted}/{qos}",
                b"m%d" % qos,
                min(granted, qos),
            )
            assert not found.retain
            assert not found.dup


@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_tls(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind, transport="tls"), await join(kind, transport="tls")
    await bob.subscribe(name)
    await alice.publish(name, b"x" * 100_000)
    assert (await bob.receive()).payload == b"x" * 100_000


@pytest.mark.parametrize("kind", TWO, ids=str)
async def test_websocket_over_tls(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind, transport="websocket+tls"), await join(kind, transport="tls")
    await bob.subscribe(name)
    await alice.publish(name, b"x" * 100_000)
    assert (await bob.receive()).payload == b"x" * 100_000


@pytest.mark.parametrize("kind", able("websocket"), ids=str)
async def test_websocket(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind, transport="websocket"), await join(kind)
    await alice.subscribe(f"{name}/to/alice", 2)
    await bob.subscribe(f"{name}/to/bob", 2)
    await alice.publish(f"{name}/to/bob", b"x" * 100_000, 2)
    assert (await bob.receive()).payload == b"x" * 100_000
    await bob.publish(f"{name}/to/alice", b"y" * 100_000, 2)
    assert (await alice.receive()).payload == b"y" * 100_000


@pytest.mark.parametrize("kind", [Kind("paho", 4), Kind("gmqtt", 5)], ids=str)
async def test_messages_of_one_publisher_keep_their_order(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind), await join(kind)
    await bob.subscribe(f"{name}/#", 2)
    for number in range(60):
        await alice.publish(f"{name}/a", b"%d" % number, number % 3)
    found = await bob.receive_many(60)
    for qos in (0, 1, 2):
        assert [m.payload for m in found if m.qos == qos] == [b"%d" % n for n in range(60) if n % 3 == qos]


@pytest.mark.parametrize("kind", SOME, ids=str)
async def test_what_is_not_subscribed_to_any_more_does_not_come(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind), await join(kind)
    await bob.subscribe(f"{name}/a")
    await bob.subscribe(f"{name}/b")
    await bob.unsubscribe(f"{name}/a")
    await alice.publish(f"{name}/a", b"no")
    await alice.publish(f"{name}/b", b"yes")
    assert (await bob.receive()).payload == b"yes"


async def test_every_version_hears_the_other(join: Join, name: str) -> None:
    old, new = await join(Kind("paho", 4)), await join(Kind("mqttjs", 5))
    await old.subscribe(f"{name}/to/old")
    await new.subscribe(f"{name}/to/new")
    await old.publish(f"{name}/to/new", b"1")
    await new.publish(f"{name}/to/old", b"2")
    assert (await new.receive()).payload == b"1"
    assert (await old.receive()).payload == b"2"
