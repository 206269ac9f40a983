"""A client of MQTT that keeps its side of a session over any number of connections, as the specifications ask, and counts."""

from __future__ import annotations

import asyncio
from collections import Counter

from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.properties import Properties

_WINDOW = 100


class Gone(Exception):
    """The server went away."""


class SessionClient:
    """`unconfirmed` are messages that were sent and not answered for; `got` what came, counted once per message by the rules of
    its QoS."""

    def __init__(self, client_id: str, *, will: p.Will | None = None) -> None:
        self.client_id = client_id
        self.will = will
        self.unconfirmed: dict[int, tuple[p.Publish, bool]] = {}  # and whether it is released
        self.confirmed: set[bytes] = set()
        self.got: Counter[bytes] = Counter()
        self.resumed = 0
        self._taken: set[int] = set()  # QoS 2 identifiers of what came, until it is released
        self._next_id = 0
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._subscribed = asyncio.Event()
        self._early: list[p.Packet] = []  # came with the CONNACK

    async def connect(self, port: int, *filters: p.Subscription) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._decoder = Decoder(1024 * 1024, side="client", version=V5)
        connect = p.Connect(self.client_id, V5, False, 60, self.will, properties=Properties(session_expiry=3_600))
        self._send(connect)
        connack = await self._one()
        assert isinstance(connack, p.Connack), connack
        assert connack.reason == 0, connack
        self.resumed += connack.session_present
        if not connack.session_present:
            self.unconfirmed = {number: (publish, False) for number, (publish, _) in self.unconfirmed.items()}
            self._taken.clear()
        for number, (publish, is_released) in self.unconfirmed.items():
            if is_released:
                self._send(p.Pubrel(number))
            else:
                self._send(_again(publish))
        if filters and not connack.session_present:
            self._send(p.Subscribe(60_000, filters))

    async def run(self) -> None:
        """Answers what comes, until the server is gone."""
        try:
            while True:
                for packet in self._early or await self._read():
                    self._take(packet)
                self._early = []
        except (Gone, ConnectionError):
            return

    async def publish_retained(self, topic: str, payload: bytes) -> None:
        await self.publish(topic, payload, 1, retain=True)

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        while len(self.unconfirmed) >= _WINDOW:  # noqa: ASYNC110  there is no more to it
            await asyncio.sleep(0.001)
        while True:
            self._next_id = self._next_id % 60_000 + 1
            if self._next_id not in self.unconfirmed:
                break
        publish = p.Publish(topic, payload, qos, retain, packet_id=self._next_id)
        self.unconfirmed[publish.packet_id] = (publish, False)
        self._send(publish)

    def close(self) -> None:
        self._writer.transport.abort()

    # -- packets

    async def _one(self) -> p.Packet:
        self._early = []
        packets = await self._read()
        self._early = packets[1:]
        return packets[0]

    async def _read(self) -> list[p.Packet]:
        while True:
            data = await self._reader.read(65_536)
            if not data:
                raise Gone
            packets = self._decoder.feed(data)
            assert self._decoder.error is None, self._decoder.error
            if packets:
                return packets

    def _send(self, packet: p.Packet) -> None:
        self._writer.write(encode(packet, V5))

    def _take(self, packet: p.Packet) -> None:
        match packet:
            case p.Publish(qos=2):
                if packet.packet_id not in self._taken:
                    self._taken.add(packet.packet_id)
                    self.got[packet.payload] += 1
                self._send(p.Pubrec(packet.packet_id))
            case p.Publish():
                self.got[packet.payload] += 1
                if packet.qos:
                    self._send(p.Puback(packet.packet_id))
            case p.Pubrel():
                self._taken.discard(packet.packet_id)
                self._send(p.Pubcomp(packet.packet_id))
            case p.Pubrec():
                if packet.packet_id in self.unconfirmed:
                    self.unconfirmed[packet.packet_id] = (self.unconfirmed[packet.packet_id][0], True)
                self._send(p.Pubrel(packet.packet_id))
            case p.Puback() | p.Pubcomp():
                if packet.packet_id in self.unconfirmed:
                    self.confirmed.add(self.unconfirmed.pop(packet.packet_id)[0].payload)
            case p.Suback():
                assert all(reason < 0x80 for reason in packet.reasons)
                self._subscribed.set()

    async def wait_subscribed(self) -> None:
        await self._subscribed.wait()


def _again(publish: p.Publish) -> p.Publish:
    return p.Publish(publish.topic, publish.payload, publish.qos, publish.retain, True, publish.packet_id)
