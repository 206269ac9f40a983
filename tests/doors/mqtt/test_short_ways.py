"""What takes a short way for speed ends as it does on the long one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ortoo.app.server import Server
from ortoo.doors.mqtt import connection as connections
from ortoo.doors.mqtt import forwarding
from ortoo.doors.mqtt.connection import Connection
from ortoo.doors.mqtt.queues.consuming import QueueSubscription
from ortoo.doors.mqtt.rules.actions import Save
from ortoo.doors.mqtt.server import MqttDoor
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, V311
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.properties import NONE, Properties
from ortoo.doors.mqtt.wire.properties import encode as encode_properties

from .wired import serving
from .wiring import Wire

TURNS = 12  # of the event loop: enough for whatever a packet begins, where nothing is on a disk
TOPICS = ("a", "b/c", "b/d", "wide", "long/" * 30)
FILTERS = ("a", "a", "b/+", "b/d", "b/c", "wide", "wide", "$share/g/a", "long/#")


class Channel:
    """What would be a socket."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.out.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Peer:
    """A client that is driven by hand, and has seen what it was sent."""

    def __init__(self, door: MqttDoor, name: str, version: int, properties: Properties) -> None:
        self.version, self.channel = version, Channel()
        self.connection = Connection(door)
        self.connection.open(self.channel, "127.0.0.1", None)
        self.reader = Decoder(1 << 20, side="client", version=version)
        self.unanswered: list[p.Packet] = []
        self.ids: list[str] = []  # of messages of queues
        self.seen: list[bytes] = []
        self.send(p.Connect(name, version, properties=properties if version == V5 else Properties()))

    def send(self, *packets: p.Packet) -> None:
        if not self.channel.is_closed:
            self.connection.data_received(b"".join(encode(packet, self.version) for packet in packets))

    def look(self) -> bytes:
        data, self.channel.out = b"".join(self.channel.out), []
        for packet in self.reader.feed(data):
            if isinstance(packet, p.Publish):
                self.ids += [value for name, value in packet.properties.user if name == "message-id"]
            answer = _answer(packet)
            if answer is not None:
                self.unanswered.append(answer)
        self.seen.append(data)
        return data

    def close(self) -> None:
        self.channel.close()
        self.connection.connection_lost(None)


def _answer(packet: p.Packet) -> p.Packet | None:
    match packet:
        case p.Publish(qos=1):
            return p.Puback(packet.packet_id)
        case p.Publish(qos=2):
            return p.Pubrec(packet.packet_id)
        case p.Pubrec():
            return p.Pubrel(packet.packet_id)
        case p.Pubrel():
            return p.Pubcomp(packet.packet_id)
        case _:
            return None


def door_of(server: Server) -> MqttDoor:
    door = server._doors["mqtt"]
    assert isinstance(door, MqttDoor)
    return door


async def settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def publish(random: Random, number: int, version: int) -> p.Publish:
    raw = b""
    if version == V5 and random.random() < 0.2:
        raw = encode_properties(random.choice((Properties(user=(("k", "v"),)), Properties(message_expiry=60))))
    qos = random.choice((0,) * 8 + (1,) * 11 + (2,))
    return p.Publish(
        random.choice(TOPICS[:-1]) if random.random() < 0.9 else TOPICS[-1],
        random.randbytes(random.choice((0, 1, 100, 200, 300, 20_000))),
        qos,
        random.random() < 0.1,
        bool(qos) and random.random() < 0.1,
        number % 65_535 + 1 if qos else 0,
        raw=raw,
    )


async def act_out(seed: int) -> list[list[bytes]]:
    """What four clients were sent, after each of the things that they did, one at a time."""
    random = Random(seed)
    async with serving(port=0) as server:
        door, peers = door_of(server), []
        for name in range(4):
            properties = random.choice((Properties(), Properties(receive_maximum=3), Properties(topic_alias_maximum=2)))
            if random.random() < 0.2:
                properties = Properties(session_expiry=60)
            peers.append(Peer(door, f"c{name}", random.choice((V311, V5)), properties))
            await settle()
        for number in range(400):
            peer, chance = random.choice(peers), random.random()
            if chance < 0.6:
                peer.send(publish(random, number, peer.version))
            elif chance < 0.63:
                asked = p.Subscription(random.choice(FILTERS), random.choice((0, 1, 1, 2)))
                named = Properties(subscription_ids=(9,)) if peer.version == V5 and random.random() < 0.3 else NONE
                peer.send(p.Subscribe(number + 1, (asked,), named))
            elif chance < 0.70:
                peer.send(p.Unsubscribe(number + 1, (random.choice(FILTERS),)))
            elif chance < 0.97 and peer.unanswered:
                peer.send(peer.unanswered.pop(0))
            else:
                peer.send(p.Pingreq())
            await settle()
            for each in peers:
                each.look()
        for peer in peers:
            peer.close()
        return [peer.seen for peer in peers]


async def test_a_message_that_goes_the_short_way_is_delivered_and_answered_as_on_the_long_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = 0

    def counted(*args: Any) -> bytes | None:
        nonlocal taken
        answer = forwarding.forward(*args)
        taken += answer is not None
        return answer

    for seed in range(12):
        monkeypatch.setattr(connections, "forward", counted)
        short = await act_out(seed)
        monkeypatch.setattr(connections, "forward", lambda *args: None)
        assert await act_out(seed) == short, f"seed {seed}"
    assert taken > 50


def test_nothing_is_answered_at_once_before_a_client_was_greeted() -> None:
    """It is, once its session is saved: a PUBACK before the CONNACK would be nonsense."""
    wire = Wire(saves=False)
    wire.send(p.Connect("c", V5, properties=Properties(session_expiry=60)))
    wire.did()
    wire.session.accept("c", None, 0)
    [saving] = [action for action in wire.did() if isinstance(action, Save)]
    assert not wire.session.is_free
    wire.session.saved(saving.ticket)
    assert not wire.session.is_free
    wire.session.take()
    assert wire.session.is_free


async def consume(bursts: int, size: Callable[[int], int], properties: Properties) -> list[bytes]:
    """What a consumer of a queue is sent, which acks everything."""
    async with serving(port=0) as server:
        door = door_of(server)
        producer = Peer(door, "producer", V311, Properties())
        consumer = Peer(door, "consumer", V5, properties)
        await settle()
        consumer.send(p.Subscribe(1, (p.Subscription("$queue/jobs", 1),), Properties(subscription_ids=(7,))))
        await settle()
        for burst in range(bursts):
            ids = range(30 * burst + 1, 30 * burst + 31)
            producer.send(*(p.Publish("$queue/jobs", bytes([n % 256]) * size(n), 1, packet_id=n) for n in ids))
            await settle()
            while b"message-id" in consumer.look():
                answers, consumer.unanswered = consumer.unanswered, []
                named = Properties(user=tuple(("message-id", one) for one in consumer.ids))
                consumer.ids.clear()
                consumer.send(*answers, p.Publish("$queue/jobs/$ack", b"", properties=named))
                await settle()
        producer.close()
        consumer.close()
        return consumer.seen


@pytest.mark.parametrize(
    "properties", [Properties(), Properties(receive_maximum=2), Properties(maximum_packet_size=300)]
)
async def test_what_is_written_as_one_piece_is_what_would_be_written_one_by_one(
    properties: Properties, monkeypatch: pytest.MonkeyPatch
) -> None:
    def size(number: int) -> int:
        return (100, 100, 0, 127, 500)[number % 5]

    together = await consume(4, size, properties)
    monkeypatch.setattr(QueueSubscription, "_give", _one_by_one)
    assert await consume(4, size, properties) == together
    assert b"".join(together).count(b"message-id") >= 90


def _one_by_one(self: QueueSubscription, given: Any) -> None:
    self._client.deliver_leased([each for run, refs in given for each in self._renderer.deliveries(run, refs)])
