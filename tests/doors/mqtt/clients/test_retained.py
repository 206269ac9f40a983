"""Are retained messages kept, replaced, cleared, and sent to those who ask for them?"""

from __future__ import annotations

import pytest

from .joining import SOME, Join, Kind, able


async def test_a_retained_message_is_set_replaced_and_cleared(join: Join, kind: Kind, name: str) -> None:
    alice = await join(kind)
    await alice.publish(name, b"1", retain=True)
    await alice.publish(name, b"2", retain=True)
    await alice.publish(name, b"3")
    first = await join(kind)
    await first.subscribe(name)
    found = await first.receive()
    assert (found.payload, found.retain, found.qos) == (b"2", True, 1)
    await alice.publish(name, b"", retain=True)
    assert (await first.receive()).payload == b""
    second = await join(kind)
    await second.subscribe(name)
    await alice.publish(name, b"4")
    assert (await second.receive()).payload == b"4"


@pytest.mark.parametrize("kind", SOME, ids=str)
async def test_the_flag_is_for_those_who_subscribe_later(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind), await join(kind)
    await bob.subscribe(f"{name}/+")
    await alice.publish(f"{name}/a", b"1", retain=True)
    assert not (await bob.receive()).retain
    await bob.subscribe(f"{name}/#")
    assert (await bob.receive()).retain
    await alice.publish(f"{name}/a", b"", retain=True)


@pytest.mark.parametrize("kind", able(versions=(5,)), ids=str)
async def test_retain_as_published(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind), await join(kind)
    await bob.subscribe(name, retain_as_published=True)
    await alice.publish(name, b"1", retain=True)
    await alice.publish(name, b"2")
    assert [message.retain for message in await bob.receive_many(2)] == [True, False]
    await alice.publish(name, b"", retain=True)


@pytest.mark.parametrize("kind", able(versions=(5,)), ids=str)
async def test_retain_handling(join: Join, kind: Kind, name: str) -> None:
    """0: always; 1: if the subscription is new; 2: never."""
    alice, bob = await join(kind), await join(kind)
    await alice.publish(name, b"kept", retain=True)
    await bob.subscribe(name, retain_handling=2)
    assert await bob.nothing_more()
    await bob.subscribe(name, retain_handling=1)
    assert await bob.nothing_more()
    await bob.subscribe(name, retain_handling=0)
    assert (await bob.receive()).retain
    await bob.unsubscribe(name)
    await bob.subscribe(name, retain_handling=1)
    assert (await bob.receive()).retain
    await alice.publish(name, b"", retain=True)
