"""Are wills sent when a client is lost, and only then?"""

from __future__ import annotations

import pytest

from .client import Properties, Will
from .joining import TWO, Join, Kind, able
from .line import Line

DISCONNECT_WITH_WILL = 0x04


async def test_a_will_is_sent_for_a_client_that_is_cut_off(join: Join, kind: Kind, name: str, line: Line) -> None:
    watcher = await join(kind)
    await watcher.subscribe(name, 2)
    await join(kind, will=Will(name, b"gone", 2), through=line)
    line.cut()
    found = await watcher.receive()
    assert (found.payload, found.qos, found.retain) == (b"gone", 2, False)


async def test_no_will_is_sent_for_a_client_that_says_goodbye(join: Join, kind: Kind, name: str) -> None:
    watcher = await join(kind)
    await watcher.subscribe(name)
    polite = await join(kind, will=Will(name, b"gone"))
    await polite.disconnect()
    await watcher.publish(name, b"nothing before this")
    assert (await watcher.receive()).payload == b"nothing before this"


@pytest.mark.parametrize("kind", [Kind("paho", 4), Kind("mqttjs", 5)], ids=str)
async def test_a_will_may_be_retained(join: Join, kind: Kind, name: str, line: Line) -> None:
    watcher = await join(kind)
    await watcher.subscribe(name)
    await join(kind, will=Will(name, b"gone", retain=True), through=line)
    line.cut()
    assert not (await watcher.receive()).retain
    late = await join(kind)
    await late.subscribe(name)
    assert (await late.receive()).retain
    await late.publish(name, b"", retain=True)


@pytest.mark.parametrize("kind", able(versions=(5,)), ids=str)
async def test_a_will_has_properties(join: Join, kind: Kind, name: str, line: Line) -> None:
    watcher = await join(kind)
    await watcher.subscribe(name)
    properties = Properties(user=(("a", "1"), ("b", "2")), content_type="text/plain")
    await join(kind, will=Will(name, b"gone", properties=properties), through=line)
    line.cut()
    found = (await watcher.receive()).properties
    assert (found.user, found.content_type) == (properties.user, "text/plain")


@pytest.mark.parametrize("kind", TWO, ids=str)
async def test_a_will_waits_for_its_delay(join: Join, kind: Kind, name: str, line: Line) -> None:
    """Two are cut off at once: the one whose will has the shorter delay is heard of first."""
    watcher = await join(kind)
    await watcher.subscribe(name)
    await join(kind, session_expiry=60, will=Will(name, b"late", delay=1), through=line)
    await join(kind, session_expiry=60, will=Will(name, b"at once", delay=0), through=line)
    line.cut()
    assert [message.payload for message in await watcher.receive_many(2)] == [b"at once", b"late"]


@pytest.mark.parametrize("kind", TWO, ids=str)
async def test_a_client_that_is_back_in_time_has_no_will_sent(join: Join, kind: Kind, name: str, line: Line) -> None:
    watcher = await join(kind)
    await watcher.subscribe(name)
    lost = await join(kind, stays=True, will=Will(name, b"gone", delay=1), through=line)
    await join(kind, session_expiry=60, will=Will(name, b"a second has passed", delay=2), through=line)
    line.cut()
    await lost.wait_ended()
    await join(kind, lost.options.client_id, stays=True)
    assert (await watcher.receive()).payload == b"a second has passed"


@pytest.mark.parametrize("kind", [Kind("paho", 5), Kind("gmqtt", 5), Kind("mqttjs", 5)], ids=str)
async def test_a_client_may_ask_for_its_will_as_it_leaves(join: Join, kind: Kind, name: str) -> None:
    watcher = await join(kind)
    await watcher.subscribe(name)
    leaving = await join(kind, will=Will(name, b"as I said"))
    await leaving.disconnect(DISCONNECT_WITH_WILL)
    assert (await watcher.receive()).payload == b"as I said"


@pytest.mark.parametrize("version", [4, 5])
async def test_silence_counts_as_lost(join: Join, version: int, name: str, line: Line) -> None:
    """After one and a half times the keep-alive."""
    kind = Kind("paho", version)
    watcher = await join(kind)
    await watcher.subscribe(name)
    silent = await join(kind, keep_alive=1, will=Will(name, b"silent"), through=line)
    line.silence()
    assert (await watcher.receive()).payload == b"silent"
    await silent.wait_ended()
