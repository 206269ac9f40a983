"""What a door adds to the rules: sessions over several connections, rights, bounds, and queues, with nothing in between."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import ortoo
from ortoo.app.server import Server
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.model.access import MQTT_NAMESPACE, Grant
from ortoo.model.commands import START
from ortoo.model.names import TopicName
from ortoo.model.queries import Scan

from .wired import Wire, id_of, join, limited, serving

FAILURE = 0x80


# -- sessions


async def test_a_session_that_will_not_be_kept_longer_still_gets_what_waited(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as server:
        away = await join(server, "away", clean=False, expiry=600)
        await away.subscribe("t/#")
        await away.disconnect()
        sender = await join(server, "sender")
        for number in range(3):
            await sender.publish("t/1", b"%d" % number)
        back = await join(server, "away", clean=False)
        assert back.session_present
        await sender.publish("t/1", b"3")
        assert [message.payload for message in await back.rest()] == [b"0", b"1", b"2", b"3"]


async def test_what_was_under_way_comes_again_under_its_identifier() -> None:
    async with serving() as server:
        first = await join(server, "c", clean=False, expiry=600)
        await first.subscribe("t", qos=1)
        sender = await join(server, "sender")
        await sender.publish("t", b"1")
        [message] = await first.messages(1)
        first.cut()
        second = await join(server, "c", clean=False, expiry=600)
        [again] = await second.messages(1)
        assert (again.payload, again.packet_id, again.dup) == (b"1", message.packet_id, True)


async def test_a_discarded_session_is_not_back_after_a_restart(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as server:
        kept = await join(server, "c", clean=False, expiry=600)
        await kept.subscribe("t/#")
        await kept.disconnect()
        await join(server, "c")  # a clean start, that ends with its connection
        records = await server.broker.ask(Scan(TopicName(MQTT_NAMESPACE, "sessions"), 0, START))
        assert records.columns.values[-1] == b""


async def test_connections_of_one_client_follow_each_other() -> None:
    """However many wait for the one before them to end, the last one is the client's."""
    async with serving() as server:
        first = await join(server, "c", clean=False, expiry=600)
        await first.subscribe("t")
        coming = await asyncio.gather(*(join(server, "c", clean=False, expiry=600) for _ in range(10)))
        assert all(wire.session_present for wire in coming)
        sender = await join(server, "sender")
        await sender.publish("t", b"1")
        found = [len(messages) for wire in coming if (messages := await _got(wire)) is not None]
        assert found == [1]


async def _got(wire: Wire) -> list[p.Publish] | None:
    """None where the connection was ended."""
    try:
        return await wire.rest()
    except ConnectionError:
        return None


async def test_expired_messages_take_nobody_s_room() -> None:
    async with serving(max_queued=5) as server:
        away = await join(server, "away", clean=False, expiry=600)
        await away.subscribe("t")
        await away.disconnect()
        sender = await join(server, "sender")
        for _ in range(5):
            await sender.publish("t", b"short", properties=Properties(message_expiry=1))
        await asyncio.sleep(1.2)  # as long as they live
        for number in range(5):
            await sender.publish("t", b"%d" % number)
        back = await join(server, "away", clean=False, expiry=600)
        assert [message.payload for message in await back.rest()] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_message_for_very_many_comes_once_to_each() -> None:
    async with serving() as server:
        many = [await join(server, f"c{number}", clean=False, expiry=600) for number in range(510)]
        for number, wire in enumerate(many):
            assert await wire.subscribe("wide", qos=number % 3) == (number % 3,)
        sender = await join(server, "sender")
        await sender.publish("wide", b"zero", qos=0)
        await sender.publish("wide", b"one", qos=1)
        for wire in many[::50]:
            assert sorted(message.payload for message in await wire.rest()) == [b"one", b"zero"]


async def test_subscribing_and_unsubscribing_keep_their_order() -> None:
    async with serving() as server:
        wire = await join(server, "c")
        wire.send(p.Subscribe(1, (p.Subscription("$queue/q", 1),)), p.Unsubscribe(2, ("$queue/q",)))
        assert (await wire.expect(p.Suback)).reasons == (1,)
        assert (await wire.expect(p.Unsuback)).reasons == (0,)
        await wire.publish("$queue/q", b"1")
        assert await wire.rest() == []


async def test_the_filters_of_a_session_are_bounded() -> None:
    async with serving() as server:
        wire = await join(server, "c", clean=False, expiry=600)
        reasons = [(await wire.subscribe("x" * 60_000 + str(number)))[0] for number in range(6)]
        assert reasons == [1, 1, 1, 1, 0x97, 0x97]


# -- retained messages


async def test_retained_messages_that_expired_make_room() -> None:
    async with serving(max_retained=12) as server:  # the server's own are among them
        wire = await join(server, "c")
        used = 0
        while await wire.publish(f"r/{used}", b"x", retain=True, properties=Properties(message_expiry=1)) == 0:
            used += 1
        assert 0 < used <= 12
        async with asyncio.timeout(20):
            while await wire.publish("r/new", b"x", retain=True) != 0:  # noqa: ASYNC110  time passes
                await asyncio.sleep(0.2)


async def test_retained_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as server:
        wire = await join(server, "c")
        for topic, payload in (("r/1", b"one"), ("r/2", b"two"), ("r/1", b"ONE"), ("r/2", b"")):
            await wire.publish(topic, payload, retain=True)
    async with serving(str(tmp_path)) as server:
        wire = await join(server, "c")
        await wire.subscribe("r/#")
        assert [(message.topic, message.payload, message.retain) for message in await wire.rest()] == [
            ("r/1", b"ONE", True)
        ]


# -- rights


async def test_a_read_only_client_cannot_have_answers_published(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(token="t" * 32) as server:
        limited(server, monkeypatch, Grant(("read",)))
        root = await join(server, "root", password="t" * 32)
        await root.subscribe("#", "$queue/pay")
        guest = await join(server, "guest", password="guest")
        for target in ("secret/cmd", "$queue/pay", "$SYS/x"):
            asked = Properties(response_topic=target, correlation_data=b"mine")
            assert await guest.publish("$admin/queue/pay/stats", properties=asked) >= FAILURE
        assert await root.rest() == []


async def test_a_capture_takes_only_what_its_subscriber_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(token="t" * 32) as server:
        limited(server, monkeypatch, Grant(("read", "write"), topics=("a/*", "mine")))
        guest = await join(server, "guest", password="guest")
        for captured in ("#", "b/#", "a/#"):  # the last one matches a itself
            assert (await guest.subscribe(f"$queue/mine/{captured}"))[0] >= FAILURE
        assert await guest.subscribe("$queue/mine/a/+") == (1,)


async def test_what_others_capture_is_not_the_publishers_business(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(token="t" * 32) as server:
        limited(server, monkeypatch, Grant(("read", "write"), topics=("s/*",)))
        root = await join(server, "root", password="t" * 32)
        async with ortoo.connect(_url(server), token="t" * 32) as queue:
            await queue.create_topic("all", max_depth=2)
        assert await root.subscribe("$queue/all/s/#") == (1,)
        kept = await join(server, "kept", clean=False, expiry=600, password="guest")
        await kept.subscribe("s/#")
        guest = await join(server, "guest", password="guest")
        strange = Properties(
            user=(("priority", "9999999"), ("ttl", "0"), ("deliver-at", "nan"), ("dedup-id", "x" * 5_000))
        )
        for number in range(6):
            assert await guest.publish("s/1", b"%d" % number, properties=strange if number % 2 else None) == 0
        assert [message.payload for message in await kept.rest()] == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert [message.payload for message in await root.messages(2)] == [b"0", b"1"]


@pytest.mark.parametrize("namespace", ["system", MQTT_NAMESPACE])
async def test_the_server_s_own_namespaces_are_for_nobody(namespace: str) -> None:
    async with serving(token="t" * 32) as server:
        with pytest.raises(ConnectionRefusedError):
            await join(server, "c", password="t" * 32, user=f"root@{namespace}")


async def test_what_may_not_be_read_any_more_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(token="t" * 32) as server:
        limited(server, monkeypatch, Grant(("read",), topics=("open/*",)))
        first = await join(server, "c", clean=False, expiry=600, password="t" * 32)
        await first.subscribe("open/+", "shut/+")
        sender = await join(server, "sender", password="t" * 32)
        await sender.publish("shut/1", b"secret")
        await first.messages(1)
        first.cut()
        second = await join(server, "c", clean=False, expiry=600, password="guest")
        await sender.publish("shut/1", b"secret, too")
        await sender.publish("open/1", b"1")
        assert [message.payload for message in await second.rest()] == [b"1"]


def _url(server: Server) -> str:
    host, port = server.addresses["tcp"]
    return f"ortoo://{host}:{port}"


# -- queues


async def test_a_capture_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as server:
        wire = await join(server, "c")
        for text in ("$queue/x/$share/+/a", "$queue/x/$queue/#", "$queue/+/a", "$queue/#"):
            assert (await wire.subscribe(text))[0] >= FAILURE
    async with serving(str(tmp_path)):
        pass  # it starts again


async def test_captures_survive_a_restart_and_end_with_their_queue(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as server:
        wire = await join(server, "c-1")
        await wire.subscribe("$queue/box/s/#")
    async with serving(str(tmp_path)) as server:
        wire = await join(server, "c-1")
        await wire.publish("s/1", b"1", qos=1)
        async with ortoo.connect(_url(server)) as queue:
            [message] = await queue.lease("box", group="audit", wait=5)
            assert (message.value, message.headers["mqtt-topic"]) == (b"1", "s/1")
            await queue.delete_topic("box")
            await wire.publish("s/1", b"2", qos=1)
            assert "box" not in [info.name for info in await queue.topics()]


async def test_a_queue_that_is_made_anew_is_consumed_again() -> None:
    async with serving() as server:
        worker, producer = await join(server, "w"), await join(server, "p")
        await worker.subscribe("$queue/q", consumer_group="g")
        async with ortoo.connect(_url(server)) as queue:
            await queue.delete_topic("q")
        assert await producer.publish("$queue/q", b"1") == 0
        assert (await worker.messages(1))[0].payload == b"1"


async def test_the_same_subscription_again_disturbs_nothing() -> None:
    async with serving() as server:
        worker, producer = await join(server, "w"), await join(server, "p")
        await worker.subscribe("$queue/q", consumer_group="g")
        await producer.publish("$queue/q", b"1")
        [message] = await worker.messages(1)
        await worker.subscribe("$queue/q", consumer_group="g")
        assert await worker.rest() == []
        assert await worker.settle("q", "ack", id_of(message)) == 0


async def test_two_subscriptions_to_a_queue_are_two_consumers() -> None:
    async with serving() as server:
        worker, producer = await join(server, "w"), await join(server, "p")
        await worker.subscribe("$queue/q", consumer_group="g")
        for number in range(4):
            await producer.publish(
                "$queue/q", b"%d" % number, properties=Properties(user=(("partition-key", str(number)),))
            )
        ids = [id_of(message) for message in await worker.rest()]
        await worker.subscribe("$share/g/$queue/q")
        assert await worker.rest() == []
        assert [await worker.settle("q", "ack", one) for one in ids] == [0] * len(ids)


async def test_each_group_of_a_client_is_settled_by_itself() -> None:
    async with serving() as server:
        worker = await join(server, "w")
        await worker.subscribe("$share/a/$queue/q", "$share/b/$queue/q")
        await worker.publish("$queue/q", b"1")
        copies = await worker.messages(2)
        for copy in copies:
            assert await worker.settle("q", "ack", id_of(copy)) == 0
        async with ortoo.connect(_url(server)) as queue:
            assert {group.name: group.backlog for group in await queue.groups("q")} == {"a": 0, "b": 0}


async def test_a_message_that_is_settled_by_puback_stays_with_its_client() -> None:
    """However short the lease of the queue is: MQTT does not send it twice on one connection."""
    async with serving() as server:
        async with ortoo.connect(_url(server)) as queue:
            await queue.create_topic("q", lease=0.2, partitions=1)
        worker = await join(server, "w")
        await worker.subscribe("$queue/q", ack_mode="puback")
        await worker.publish("$queue/q", b"1")
        [message] = await worker.messages(1)
        await asyncio.sleep(1.0)  # several leases of the queue
        worker.send(p.Puback(message.packet_id))
        assert await worker.rest() == []


async def test_a_nack_comes_before_its_puback() -> None:
    async with serving() as server:
        worker = await join(server, "w")
        await worker.subscribe("$queue/q")
        await worker.publish("$queue/q", b"1")
        [message] = await worker.messages(1)
        assert await worker.settle("q", "nack", id_of(message)) == 0
        [again] = await worker.messages(1)
        assert dict(again.properties.user)["attempt"] == "2"
        assert again.packet_id != message.packet_id


# -- what is seen of it


async def test_what_is_kept_is_not_listed(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as server:
        wire = await join(server, "c", clean=False, expiry=600)
        await wire.subscribe("t")
        await wire.publish("t", b"1")
        await wire.messages(1)
        async with ortoo.connect(_url(server)) as queue:
            assert await queue.topics() == []
            assert MQTT_NAMESPACE not in [info.name for info in await queue.namespaces()]
        assert MQTT_NAMESPACE.encode() not in await server._metrics.render(None)


async def test_a_port_that_was_asked_for_has_to_be_free() -> None:
    async with serving() as server:
        with pytest.raises(ortoo.ConfigError, match=r"mqtt\.port"):
            async with serving(port=server.addresses["mqtt"][1]):
                pass


async def test_a_default_port_that_is_taken_is_no_reason_not_to_serve() -> None:
    async with serving(port=None) as first, serving(port=None) as second:
        assert "mqtt" not in second.addresses or "mqtt" not in first.addresses
        async with ortoo.connect(_url(second)) as queue:
            await queue.publish("t", b"1")
