"""Do sessions outlive their connections as long as they should, with what came meanwhile, and belong to one client at a time?"""

from __future__ import annotations

import pytest

from .client import Will
from .joining import LIBRARIES, SOME, TWO, Join, Kind, able
from .line import Line

SESSION_TAKEN_OVER = 0x8E


async def test_a_session_is_resumed_with_what_came_meanwhile(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind), await join(kind, stays=True)
    await bob.subscribe(f"{name}/#", 2)
    await bob.disconnect()
    for number in range(10):
        await alice.publish(f"{name}/a", b"%d" % number, 1 + number % 2)
    again = await join(kind, bob.options.client_id, stays=True)
    found = await again.receive_many(10)
    assert sorted(message.payload for message in found) == [b"%d" % number for number in range(10)]
    assert {message.qos for message in found} == {1, 2}
    if "server terms" in LIBRARIES[kind.package].CAN:
        assert again.greeting.session_present
    await again.publish(f"{name}/b", b"to itself", 2)
    assert (await again.receive()).payload == b"to itself"


@pytest.mark.parametrize("kind", SOME, ids=str)
async def test_a_session_is_resumed_after_a_cut(join: Join, kind: Kind, name: str, line: Line) -> None:
    alice, bob = await join(kind), await join(kind, stays=True, through=line)
    await bob.subscribe(name)
    line.cut()
    await bob.wait_ended()
    await alice.publish(name, b"meanwhile")
    again = await join(kind, bob.options.client_id, stays=True)
    assert (await again.receive()).payload == b"meanwhile"


@pytest.mark.parametrize("kind", able("server terms"), ids=str)
async def test_a_clean_start_begins_anew(join: Join, kind: Kind, name: str) -> None:
    alice, bob = await join(kind), await join(kind, stays=True)
    assert not bob.greeting.session_present
    await bob.subscribe(name)
    await bob.disconnect()
    await alice.publish(name, b"lost on purpose")
    again = await join(kind, bob.options.client_id)
    assert not again.greeting.session_present
    await again.subscribe(f"{name}/other")
    await alice.publish(name, b"nobody has subscribed")
    assert await again.nothing_more()


@pytest.mark.parametrize("kind", TWO, ids=str)
async def test_a_session_expires(join: Join, kind: Kind, name: str, line: Line) -> None:
    """The will of a session that ends is sent then, however long its delay is: so the test knows when that is."""
    watcher = await join(kind)
    await watcher.subscribe(name)
    will = Will(name, b"my session is over", delay=3600)
    bob = await join(kind, clean=False, session_expiry=1, will=will, through=line)
    line.cut()
    assert (await watcher.receive()).payload == b"my session is over"
    again = await join(kind, bob.options.client_id, clean=False, session_expiry=1)
    assert not again.greeting.session_present


async def test_a_client_that_comes_again_takes_over(join: Join, kind: Kind, name: str) -> None:
    """mosquitto 2.0.11 closes the connection without a word."""
    first = await join(kind, stays=True)
    await first.subscribe(name)
    second = await join(kind, first.options.client_id, stays=True)
    ended = await first.wait_ended()
    if kind.version == 5 and not join.broker.is_mosquitto and "ended reason" in LIBRARIES[kind.package].CAN:
        assert ended.reason == SESSION_TAKEN_OVER
    await second.publish(name, b"still subscribed")
    assert (await second.receive()).payload == b"still subscribed"


@pytest.mark.parametrize("version", [4, 5])
async def test_what_was_not_acknowledged_comes_again_marked_as_such(
    join: Join, version: int, name: str, line: Line
) -> None:
    kind = Kind("paho", version)
    alice, bob = await join(kind), await join(kind, stays=True, through=line, acks_by_hand=True)
    await bob.subscribe(name)
    await alice.publish(name, b"once more")
    first = await bob.receive()
    assert not first.dup
    line.cut()
    await bob.wait_ended()
    again = await join(kind, bob.options.client_id, stays=True, acks_by_hand=True)
    second = await again.receive()
    assert (second.payload, second.dup, second.packet_id) == (b"once more", True, first.packet_id)
