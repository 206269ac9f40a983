"""A client and a session, joined by bytes: what the client sends is decoded, what the session answers is decoded, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from ortoo.doors.mqtt.rules import actions as a
from ortoo.doors.mqtt.rules.messages import Delivery, Message
from ortoo.doors.mqtt.rules.session import Session
from ortoo.doors.mqtt.rules.state import Ref, SessionState
from ortoo.doors.mqtt.rules.terms import Terms
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.properties import Properties

A = TypeVar("A")
TERMS = Terms()


class Wire:
    """By default it saves what the session asks to be saved, at once; `saves=False` leaves that to the test."""

    def __init__(self, version: int = V5, terms: Terms = TERMS, *, now: int = 0, saves: bool = True) -> None:
        self.version, self.terms, self.now, self.saves = version, terms, now, saves
        self.session = Session(terms, now)
        self.decoder = Decoder(terms.packet_bytes_max)
        self.reader = Decoder(1 << 30, side="client", version=version)
        self.log: list[a.Action] = []

    def send(self, *packets: p.Packet) -> None:
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        self.session.receive(self.decoder.feed(data), self.decoder.error, self.now)

    def did(self) -> list[a.Action]:
        """The actions since the last time; saves are left out where they are answered here."""
        found = self.session.take_actions()
        if self.saves:
            for action in found:
                if isinstance(action, a.Save):
                    self.session.saved(action.ticket)
            found = [action for action in found if not isinstance(action, a.Save)]
        self.log += found
        return found

    def did_one(self, kind: type[A]) -> A:
        [found] = self.did()
        assert isinstance(found, kind), found
        return found

    def got(self) -> list[p.Packet]:
        """What the client was sent since the last time."""
        if self.saves:
            self.did()
        found = self.reader.feed(self.session.take())
        assert self.reader.error is None, self.reader.error
        return found

    def got_one(self, kind: type[A]) -> A:
        [found] = self.got()
        assert isinstance(found, kind), found
        return found

    def connect(self, connect: p.Connect, previous: SessionState | None = None) -> list[p.Packet]:
        self.send(connect)
        admit = self.did_one(a.Admit)
        self.session.accept(admit.connect.client_id or "assigned", previous, self.now)
        return self.got()

    def closed(self) -> a.Close:
        """It has to be."""
        [close] = [action for action in [*self.log, *self.did()] if isinstance(action, a.Close)]
        return close

    def deliver(self, *deliveries: Delivery) -> None:
        self.session.deliver(deliveries, self.now)


def connect(version: int = V5, client_id: str = "c", clean: bool = False, **rest: Any) -> p.Connect:
    """With a session that is kept, unless something else is asked for."""
    if version == V5:
        rest["properties"] = Properties(**{"session_expiry": 3600, **rest.pop("asked", {})})
    return p.Connect(client_id, version, clean, **rest)


def opened(version: int = V5, terms: Terms = TERMS, *, saves: bool = True, **rest: Any) -> Wire:
    wire = Wire(version, terms, saves=True)
    [connack] = wire.connect(connect(version, **rest))
    assert isinstance(connack, p.Connack)
    assert connack.reason == 0
    wire.log.clear()
    wire.saves = saves
    return wire


def resumed(before: Wire, **rest: Any) -> Wire:
    """The same client on a new connection; the old one is lost."""
    before.session.lost(before.now)
    wire = Wire(before.version, before.terms, now=before.now)
    wire.send(connect(before.version, **rest))
    wire.did_one(a.Admit)
    wire.session.accept("c", before.session.state, wire.now)
    return wire


def message(payload: bytes = b"x", qos: int = 1, topic: str = "t", **rest: Any) -> Message:
    return Message(topic, payload, qos, **rest)


def deliveries(refs: Iterable[Ref], qos: int = 1) -> list[Delivery]:
    return [Delivery(message(b"%d" % int(ref), qos), qos, ref) for ref in refs]
