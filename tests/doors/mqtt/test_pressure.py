"""Much at once, slow clients, a server that stands still, a full disk: what is asked is answered, and nothing piles up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import monotonic

import pytest

from ortoo.app.server import Server
from ortoo.doors.mqtt import connection as connections
from ortoo.doors.mqtt import server as servers
from ortoo.doors.mqtt.namespace import Namespace
from ortoo.doors.mqtt.server import MqttDoor
from ortoo.doors.mqtt.storage import Storage
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import Code
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.model.commands import DeleteTopic, Publish, Run
from ortoo.model.errors import StoreFailedError
from ortoo.model.names import TopicName
from ortoo.model.replies import Placed

from .wired import join, serving


def door_of(server: Server) -> MqttDoor:
    found = server._doors["mqtt"]
    assert isinstance(found, MqttDoor)
    return found


def default_of(server: Server) -> Namespace:
    return door_of(server)._namespaces["default"]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)


async def test_many_requests_that_end_together_do_not_stop_the_reading() -> None:
    async with serving() as server:
        wire = await join(server, "c")
        await wire.publish("$queue/t", b"1")
        asked = [p.Publish("$admin/queue/t/stats", b"", 1, packet_id=number) for number in range(1, 301)]
        wire.send(*asked)
        for _ in asked:
            await wire.expect(p.Puback)
        wire.send(p.Pingreq())
        await wire.expect(p.Pingresp)


async def test_clients_that_have_gone_are_forgotten() -> None:
    async with serving() as server:
        for number in range(30):
            wire = await join(server, f"c-{number}", expiry=1 if number % 2 else 0)
            await wire.subscribe("t")
            await wire.disconnect(session_expiry=0)
        await until(lambda: not default_of(server).clients)


async def test_a_client_that_reconnects_often_is_looked_after_once() -> None:
    async with serving() as server:
        for _ in range(30):
            wire = await join(server, "c", clean=False, expiry=600)
            await wire.disconnect()
        assert len(default_of(server)._absences._deadlines) == 1


async def test_a_kept_client_that_does_not_read_takes_no_more_than_a_little_memory() -> None:
    async with serving(max_packet_bytes=2_000_000) as server:
        slow = await join(server, "slow", clean=False, expiry=600)
        await slow.subscribe("t")
        slow.stop_reading()
        sender = await join(server, "sender")
        for _ in range(100):
            await sender.publish("t", bytes(1_000_000))
        await asyncio.sleep(0.2)  # in which it would be sent everything
        assert door_of(server).services.unsent < 50_000_000


async def test_who_takes_nothing_is_cut_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLOSE_SECONDS", 0.1)
    async with serving(max_packet_bytes=2_000_000) as server:
        slow = await join(server, "slow", keep_alive=1)
        await slow.subscribe("t", qos=0)
        slow.stop_reading()
        sender = await join(server, "sender")
        for _ in range(10):
            await sender.publish("t", bytes(1_000_000))
        await until(lambda: len(door_of(server)._connections) == 1)


async def test_silence_while_the_server_stands_still_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_TICK_SECONDS", 0.2)
    async with serving() as server:
        wire = await join(server, "c", keep_alive=1)
        wire.send(p.Pingreq())
        await wire.expect(p.Pingresp)
        started = monotonic()
        while monotonic() < started + 2:  # the whole process does nothing else
            pass
        await asyncio.sleep(0.5)  # in which it is looked who has been silent
        wire.send(p.Pingreq())
        await wire.expect(p.Pingresp)


async def test_a_clean_start_that_cannot_be_stored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server:
        kept = await join(server, "c", clean=False, expiry=600)
        await kept.disconnect()

        async def failing(self: Storage, acks: list[Run], publishes: object) -> object:
            raise StoreFailedError("the disk is full")

        monkeypatch.setattr(Storage, "commit", failing)
        with pytest.raises(ConnectionRefusedError) as refused:
            await join(server, "c")
        assert refused.value.args == (Code.SERVER_UNAVAILABLE,)
        monkeypatch.undo()
        assert not (await join(server, "c")).session_present


async def test_what_was_received_at_qos_2_does_not_come_again_after_the_disk_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(str(tmp_path)) as server:
        wire = await join(server, "c", clean=False, expiry=600)
        await wire.subscribe("t", qos=2)
        sender = await join(server, "sender")
        sender.send(p.Publish("t", b"1", 2, packet_id=1))
        await sender.expect(p.Pubrec)
        sender.send(p.Pubrel(1))
        [message] = await wire.messages(1)
        commit, failures = Storage.commit, 3

        async def failing(self: Storage, acks: list[Run], publishes: list[object]) -> object:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise StoreFailedError("the disk is full")
            return await commit(self, acks, publishes)  # type: ignore[arg-type]

        monkeypatch.setattr(Storage, "commit", failing)
        wire.send(p.Pubrec(message.packet_id))
        await wire.expect(p.Pubrel)
        wire.send(p.Pubcomp(message.packet_id))
        await wire.disconnect()
        assert failures < 0
        back = await join(server, "c", clean=False, expiry=600)
        assert await back.rest() == []


async def test_a_kept_subscriber_gets_no_older_state_after_a_newer_one(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as server:
        sender = await join(server, "sender")
        watching = [await join(server, f"c-{number}", clean=False, expiry=600) for number in range(20)]
        numbers = count(1)

        def publish(some: int) -> None:
            sender.send(*(p.Publish("r", b"%d" % (n := next(numbers)), 1, True, packet_id=n) for _ in range(some)))

        publish(5)
        for wire in watching:
            wire.send(p.Subscribe(1, (p.Subscription("r", 1),)))
            publish(3)
            await asyncio.sleep(0)
        last = next(numbers) - 1
        for _ in range(last):
            await sender.expect(p.Puback)
        for wire in watching:
            states = [0]
            while states[-1] < last:
                message = await wire.expect(p.Publish)
                states.append(int(message.payload))
                wire.send(p.Puback(message.packet_id))
            states += [int(message.payload) for message in await wire.rest()]
            assert states == sorted(states)


async def test_what_is_retained_is_given_to_who_comes_while_it_is_being_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server:
        commit, may_go_on = Storage.commit, asyncio.Event()

        async def waiting(self: Storage, acks: list[Run], publishes: list[Publish]) -> list[Placed]:
            await may_go_on.wait()
            return await commit(self, acks, publishes)

        sender, late = await join(server, "sender"), await join(server, "late")
        monkeypatch.setattr(Storage, "commit", waiting)
        sender.send(p.Publish("r", b"1", 1, True, packet_id=1), p.Publish("r", b"2", 1, True, packet_id=2))
        await until(lambda: len(default_of(server).retained) == 1)
        late.send(p.Subscribe(1, (p.Subscription("r", 1),)))
        await late.expect(p.Suback)
        may_go_on.set()
        [message] = await late.rest()
        assert (message.payload, message.retain) == (b"2", True)


async def test_a_session_that_ends_at_once_leaves_no_inbox(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as server:
        sender = await join(server, "sender")
        for number in range(20):
            wire = await join(server, f"c-{number}", clean=False, expiry=600)
            await wire.subscribe("t")
            sender.send(p.Publish("t", b"1", 1, packet_id=number + 1))
            wire.send(p.Disconnect(properties=Properties(session_expiry=0)))
        for _ in range(20):
            await sender.expect(p.Puback)
        await until(lambda: len(default_of(server).clients) == 1)
        assert await door_of(server).services.storage.inboxes() == {}


# -- wills and captures


async def test_a_will_cannot_settle_messages() -> None:
    async with serving() as server:
        with pytest.raises(ConnectionRefusedError):
            await join(server, "c", will=p.Will("$queue/t/$ack", b"", 1, False, Properties()))


async def test_a_configured_capture_stays_when_a_client_captures_the_same(tmp_path: Path) -> None:
    async with serving(str(tmp_path), capture=["s/#=all"]) as server:
        wire = await join(server, "c")
        assert await wire.subscribe("$queue/all/s/#") == (1,)
        namespace = default_of(server)
        assert len(namespace.index.match("s/1").recipients) == 1
        await wire.publish("s/1", b"1")
        await wire.disconnect()
        await server.broker.call(DeleteTopic(TopicName("default", "all")))
        await namespace.captures.forget()
        sender = await join(server, "sender")
        await sender.publish("s/2", b"2")
        assert server.broker.find_topic(TopicName("default", "all")) is not None
