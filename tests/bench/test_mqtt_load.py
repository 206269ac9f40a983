"""The clients of the MQTT benchmarks: do they send what they say, and count what comes?"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from bench.mqtt_live.links import Link, Loop
from bench.mqtt_live.queues import QueueConsumer
from bench.mqtt_live.traffic import Flow, Publisher, Subscriber
from ortoo.doors.mqtt.wire.codes import V5, V311
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.packets import Packet, Puback, Publish
from ortoo.doors.mqtt.wire.properties import Properties


@pytest.fixture
def loop() -> Iterator[Loop]:
    with Loop() as found:
        yield found


def read(connection: socket.socket, version: int, count: int) -> list[Packet]:
    decoder, found = Decoder(1 << 20, side="client", version=version), list[Packet]()
    while len(found) < count:
        found += decoder.feed(connection.recv(1 << 16))
    assert decoder.error is None
    return found


def pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    return ours, theirs


def hear(link: Link, data: bytes, cut: int) -> None:
    """In two pieces."""
    link.on_data(data[:cut])
    link.on_data(data[cut:])


def test_a_publisher_keeps_to_its_window(loop: Loop) -> None:
    server, client = pair()
    flow = Flow(1000)
    publisher = Publisher(loop, client, "a/b", 1, 3, flow)
    publisher.pump()
    assert [p.packet_id for p in read(server, V311, 3) if isinstance(p, Publish)] == [1, 2, 3]
    hear(publisher, encode(Puback(1), V311) + encode(Puback(2), V311), 5)
    assert [p.packet_id for p in read(server, V311, 2) if isinstance(p, Publish)] == [1, 2]
    assert (flow.sent, flow.received) == (5, 0)
    server.close()


def test_a_publisher_does_not_run_ahead_of_its_subscriber(loop: Loop) -> None:
    server, client = pair()
    flow = Flow(8)
    Publisher(loop, client, "a/b", 0, 1, flow).pump()
    assert len(read(server, V311, 8)) == 8
    flow.arrived(1)
    assert flow.sent == 8  # too few to send
    flow.arrived(1)
    assert flow.sent == 10
    flow.stop()
    flow.arrived(8)
    assert flow.sent == 10
    assert flow.is_drained
    server.close()


@pytest.mark.parametrize("cut", [1, 20, 107, 150])
def test_a_subscriber_counts_and_acknowledges(loop: Loop, cut: int) -> None:
    server, client = pair()
    flow = Flow(8)
    subscriber = Subscriber(loop, client, "a/b", 1, flow)
    ids = [7, 0x1234, 65_535]
    hear(subscriber, b"".join(encode(Publish("a/b", b"x" * 100, 1, packet_id=n), V311) for n in ids), cut)
    assert read(server, V311, 3) == [Puback(number) for number in ids]
    assert flow.received == 3
    server.close()


def test_something_else_than_was_published_is_noticed(loop: Loop) -> None:
    server, client = pair()
    subscriber = Subscriber(loop, client, "a/b", 0, Flow(8))
    with pytest.raises(RuntimeError, match="something else"):
        subscriber.on_data(encode(Publish("a/b/c", b"x" * 200), V311))
    server.close()


@pytest.mark.parametrize("cut", [1, 2, 3, 130, 200])
def test_a_consumer_of_a_queue_acks_by_message_id(loop: Loop, cut: int) -> None:
    server, client = pair()
    flow = Flow(8)
    consumer = QueueConsumer(loop, client, "$queue/q", flow)
    messages = [
        Publish("$queue/q", b"x" * 100, 1, packet_id=n, properties=Properties(user=(("message-id", f"1.0.{n}"),)))
        for n in (1, 2, 300)
    ]
    data = b"".join(encode(message, V5) for message in messages)
    hear(consumer, data, cut)
    found = list[Packet]()
    while sum(isinstance(packet, Puback) for packet in found) < 3 or len(_acked(found)) < 3:
        found += read(server, V5, 1)
    assert [packet.packet_id for packet in found if isinstance(packet, Puback)] == [1, 2, 300]
    assert _acked(found) == ["1.0.1", "1.0.2", "1.0.300"]
    assert flow.received == 0
    for packet in found:
        if isinstance(packet, Publish):
            consumer.on_data(encode(Puback(packet.packet_id), V5))
    assert flow.received == 3
    with pytest.raises(KeyError):
        consumer.on_data(encode(Puback(9), V5))
    server.close()


def _acked(found: list[Packet]) -> list[str]:
    acks = [packet for packet in found if isinstance(packet, Publish)]
    assert {packet.topic for packet in acks} <= {"$queue/q/$ack"}
    return [value for packet in acks for _, value in packet.properties.user]


def test_an_ack_that_fails_is_noticed(loop: Loop) -> None:
    server, client = pair()
    consumer = QueueConsumer(loop, client, "$queue/q", Flow(8))
    with pytest.raises(RuntimeError, match="0x83"):
        consumer.on_data(encode(Puback(1, 0x83), V5))
    server.close()
