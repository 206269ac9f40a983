"""What is published to queues in one read: put there together, and answered one by one."""

from __future__ import annotations

from typing import Any

from ortoo.broker import Broker
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import Code
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.model.commands import START, CreateTopic
from ortoo.model.names import TopicName, parse_message_id
from ortoo.model.queries import GetTrace, Scan
from ortoo.model.topic import TopicConfig

from .wired import Wire, id_of, join, serving


async def make(broker: Broker, name: str, **settings: Any) -> None:
    await broker.call(CreateTopic(TopicName("default", name), TopicConfig(**settings)))


async def answers(wire: Wire, count: int) -> list[tuple[int, int]]:
    """The identifiers and reasons, in the order in which they came."""
    return [(packet.packet_id, packet.reason) for packet in [await wire.expect(p.Puback) for _ in range(count)]]


def publishes(topic: str, values: list[bytes], qos: int = 1, first: int = 1) -> list[p.Publish]:
    return [p.Publish(topic, value, qos, packet_id=first + row if qos else 0) for row, value in enumerate(values)]


async def test_each_is_answered_and_they_keep_their_order() -> None:
    async with serving() as server:
        wire = await join(server, "c")
        values = [b"%d" % number for number in range(300)]
        await make(server.broker, "t", partitions=1)
        wire.send(*publishes("$queue/t", values, first=1_000))
        assert await answers(wire, 300) == [(number, 0) for number in range(1_000, 1_300)]
        page = await server.broker.ask(Scan(TopicName("default", "t"), 0, START))
        assert page.columns.values == values


async def test_others_between_them_do_not_change_the_order() -> None:
    """At QoS 0 and 2, with properties, and for another queue."""
    async with serving() as server:
        wire = await join(server, "c")
        await make(server.broker, "t", partitions=1)
        await make(server.broker, "u", partitions=1)
        wire.send(
            *publishes("$queue/t", [b"1", b"2"]),
            *publishes("$queue/t", [b"3"], qos=0),
            *publishes("$queue/u", [b"other"], first=3),
            *publishes("$queue/t", [b"4"], qos=2, first=4),
            *publishes("$queue/t", [b"5"], first=5),
            p.Publish("$queue/t", b"6", 1, packet_id=6, properties=Properties(user=(("a", "b"),))),
            *publishes("$queue/t", [b"7"], first=7),
        )
        assert await answers(wire, 6) == [(number, 0) for number in (1, 2, 3, 5, 6, 7)]
        page = await server.broker.ask(Scan(TopicName("default", "t"), 0, START))
        assert page.columns.values == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
        page = await server.broker.ask(Scan(TopicName("default", "u"), 0, START))
        assert page.columns.values == [b"other"]


async def test_each_keeps_what_its_publisher_said_of_it() -> None:
    """Also one that makes no sense, at any place: it is refused, and nothing else."""
    async with serving() as server:
        wire = await join(server, "c")
        await make(server.broker, "t", partitions=1)
        said: list[dict[str, str]] = [{"priority": "x"}, {}, {"partition-key": "k"}, {}, {"priority": "x"}, {"a": "b"}]
        wire.send(
            *(
                p.Publish(
                    "$queue/t", b"%d" % row, 1, packet_id=row + 1, properties=Properties(user=tuple(user.items()))
                )
                for row, user in enumerate(said)
            )
        )
        found = await answers(wire, 6)
        assert [reason < 0x80 for _, reason in found] == [False, True, True, True, False, True]
        columns = (await server.broker.ask(Scan(TopicName("default", "t"), 0, START))).columns
        assert columns.values == [b"1", b"2", b"3", b"5"]
        assert columns.keys == [None, "k", None, None]
        assert columns.headers is not None
        assert [headers or {} for headers in columns.headers] == [said[1], said[2], said[3], said[5]]


async def test_one_that_is_refused_is_refused_alone() -> None:
    async with serving() as server:
        wire = await join(server, "c")
        await make(server.broker, "t", partitions=1, max_message_bytes=10)
        wire.send(*publishes("$queue/t", [b"1", b"too large for it", b"2", b"3"]))
        found = await answers(wire, 4)
        assert [(number, reason < 0x80) for number, reason in found] == [(1, True), (2, False), (3, True), (4, True)]
        page = await server.broker.ask(Scan(TopicName("default", "t"), 0, START))
        assert page.columns.values == [b"1", b"2", b"3"]


async def test_a_full_queue_takes_what_there_is_room_for() -> None:
    async with serving() as server:
        wire = await join(server, "c")
        await make(server.broker, "t", partitions=1, max_depth=3)
        wire.send(*publishes("$queue/t", [b"1", b"2", b"3", b"4", b"5"]), *publishes("$queue/u", [b"6"], first=6))
        found = await answers(wire, 6)
        assert [reason for _, reason in found] == [0, 0, 0, Code.QUOTA_EXCEEDED, Code.QUOTA_EXCEEDED, 0]


async def test_many_more_than_one_commit_takes() -> None:
    async with serving(receive_maximum=10_000) as server:
        wire = await join(server, "c")
        wire.send(*publishes("$queue/t", [b"x"] * 7_000))
        assert await answers(wire, 7_000) == [(number, 0) for number in range(1, 7_001)]
        info = server.broker.find_topic(TopicName("default", "t"))
        assert info is not None
        assert sum(log.end for log in info.partitions) == 7_000


async def test_traces_name_the_client_that_published_and_the_one_that_consumed() -> None:
    async with serving() as server:
        publisher, consumer = await join(server, "sensor-1"), await join(server, "worker-1")
        assert await consumer.subscribe("$queue/t", consumer_group="g") == (1,)
        await publisher.publish("$queue/t", b"1")
        [message] = await consumer.messages(1)
        trace = await server.broker.ask(GetTrace(parse_message_id(id_of(message))))
        said = {event.what: event.publisher or event.consumer for event in trace.events}
        assert (said["published"], said["delivered"]) == ("mqtt-sensor-1", "mqtt-worker-1")
