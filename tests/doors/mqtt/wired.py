"""A bare client of MQTT 5 in the tests' own process, packet by packet, and a server for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from ortoo.app.server import Server
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.model.access import Grant, Principal
from ortoo.model.mqtt_settings import MqttSettings
from ortoo.model.settings import HttpSettings, Settings, TcpSettings

WAIT_SECONDS = 20.0
QUIET_SECONDS = 0.3  # without anything: then nothing more comes

P = TypeVar("P", bound=p.Packet)


@asynccontextmanager
async def serving(data: str = "memory", token: str | None = None, **mqtt: Any) -> AsyncIterator[Server]:
    settings = Settings(
        data=data,
        token=token,
        tcp=TcpSettings(port=0),
        http=HttpSettings(port=0),
        mqtt=MqttSettings(**{"port": 0, **mqtt}),
        drain_seconds=1.0,
    )
    server = Server(settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        for wire in _wires.pop(server.addresses.get("mqtt", ("", 0)), ()):
            wire.cut()


class Wire:
    """What comes is acknowledged by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self._reader, self._writer, self._version = reader, writer, version
        self._decoder = Decoder(16 * 1024 * 1024, side="client", version=version)
        self._come: list[p.Packet] = []
        self.session_present = False
        self._next_id = 0

    def send(self, *packets: p.Packet) -> None:
        self._writer.write(b"".join(encode(packet, self._version) for packet in packets))

    async def expect(self, kind: type[P]) -> P:
        """The next packet of that kind; others stay."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                for packet in self._come:
                    if isinstance(packet, kind):
                        self._come.remove(packet)
                        return packet
                await self._read()

    async def _read(self) -> None:
        data = await self._reader.read(65_536)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self._come += self._decoder.feed(data)
        assert self._decoder.error is None, self._decoder.error

    async def messages(self, count: int) -> list[p.Publish]:
        return [await self.expect(p.Publish) for _ in range(count)]

    async def rest(self) -> list[p.Publish]:
        """What more comes before it is quiet, acknowledged at QoS 1."""
        found: list[p.Publish] = []
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    message = await self.expect(p.Publish)
            except TimeoutError:
                self.send(p.Pingreq())
                await self.expect(p.Pingresp)
                if any(isinstance(packet, p.Publish) for packet in self._come):
                    continue  # it was the machine that stood still
                return found
            found.append(message)
            if message.qos == 1:
                self.send(p.Puback(message.packet_id))

    async def subscribe(self, *filters: str, qos: int = 1, **user: str) -> tuple[int, ...]:
        self._next_id += 1
        asked = tuple(p.Subscription(text, qos) for text in filters)
        self.send(p.Subscribe(self._next_id, asked, properties=_user(user)))
        return (await self.expect(p.Suback)).reasons

    async def publish(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 1,
        *,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> int:
        """The reason that it was answered with."""
        self._next_id += 1
        packet_id = self._next_id if qos else 0
        publish = p.Publish(topic, payload, qos, retain, packet_id=packet_id, properties=properties or Properties())
        self.send(publish)
        return (await self.expect(p.Puback)).reason if qos == 1 else 0

    async def settle(self, queue: str, how: str, *ids: str, **user: str) -> int:
        named = tuple(("message-id", one) for one in ids)
        properties = Properties(user=named + _user(user).user)
        return await self.publish(f"$queue/{queue}/${how}", properties=properties)

    def stop_reading(self) -> None:
        self._reader._transport.pause_reading()  # type: ignore[attr-defined]

    def cut(self) -> None:
        self._writer.transport.abort()

    async def disconnect(self, **properties: Any) -> None:
        self.send(p.Disconnect(properties=Properties(**properties)))
        await self._writer.drain()
        while await self._reader.read(65_536):
            pass
        self._writer.close()


_wires: dict[tuple[str, int], list[Wire]] = {}  # to be closed with their servers


def _user(pairs: dict[str, str]) -> Properties:
    return Properties(user=tuple((name.replace("_", "-"), value) for name, value in pairs.items()))


def id_of(message: p.Publish) -> str:
    return dict(message.properties.user)["message-id"]


async def join(
    server: Server,
    client_id: str,
    *,
    clean: bool = True,
    expiry: int = 0,
    password: str | None = None,
    user: str | None = None,
    will: p.Will | None = None,
    version: int = V5,
    window: int | None = None,
    keep_alive: int = 60,
) -> Wire:
    host, port = server.addresses["mqtt"]
    reader, writer = await asyncio.open_connection(host, port)
    wire = Wire(reader, writer, version)
    _wires.setdefault((host, port), []).append(wire)
    properties = Properties(session_expiry=expiry or None, receive_maximum=window)
    secret = None if password is None else password.encode()
    wire.send(p.Connect(client_id, version, clean, keep_alive, will, user, secret, properties))
    connack = await wire.expect(p.Connack)
    if connack.reason:
        wire.cut()
        raise ConnectionRefusedError(connack.reason)
    wire.session_present = connack.session_present
    return wire


def limited(server: Server, monkeypatch: pytest.MonkeyPatch, *grants: Grant) -> None:
    """Whoever says `guest` may do only that."""
    admit = server.authenticator.admit

    def admitting(token: str | None, certificate: object = None) -> Principal:
        return Principal("guest", grants) if token == "guest" else admit(token)

    monkeypatch.setattr(server.authenticator, "admit", admitting)
