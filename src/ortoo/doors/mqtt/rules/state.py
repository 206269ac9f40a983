"""What a session is between connections: one value that can be saved, and read again after a restart.

A message is not in it, only a reference by which the door finds it again (`Ref`): in a persistent session its place in the inbox.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from ortoo.doors.mqtt.wire.packets import Subscription, Will

Ref = int | str
UNNAMED = -1  # a reference of what is nowhere but on its way: nobody wants to know what becomes of it


class Stage(IntEnum):
    """What a delivery waits for."""

    __hash__ = int.__hash__  # quicker than that of an Enum

    PUBACK = 1
    PUBREC = 2
    PUBCOMP = 3


class InFlight(msgspec.Struct, frozen=True, array_like=True):
    ref: Ref
    stage: Stage


class Subscribed(msgspec.Struct, frozen=True, array_like=True):
    """A filter with its options; `qos` of these is the one that was granted."""

    options: Subscription
    id: int | None = None
    user: tuple[tuple[str, str], ...] = ()  # properties of a subscription to a queue


class SessionState(msgspec.Struct):
    """`received` are identifiers of QoS 2 messages that were taken and not released; `in_flight` is in the order of sending.

    `will_at` and `expires_at` are milliseconds, and None while it is connected, or where there is nothing to wait for.
    """

    client_id: str
    expiry: int = 0  # seconds
    is_connected: bool = True
    subscriptions: dict[str, Subscribed] = msgspec.field(default_factory=dict)
    received: set[int] = msgspec.field(default_factory=set)
    in_flight: dict[int, InFlight] = msgspec.field(default_factory=dict)
    last_packet_id: int = 0
    will: Will | None = None
    will_at: int | None = None
    expires_at: int | None = None
    inbox: str = ""  # where messages wait for it; the door's own

    @property
    def filter_bytes(self) -> int:
        """Of its subscriptions, with what else is kept of them."""
        return sum(
            len(text) + sum(len(name) + len(value) for name, value in each.user)
            for text, each in self.subscriptions.items()
        )

    @property
    def levels(self) -> int:
        return sum(text.count("/") + 1 for text in self.subscriptions)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SessionState)


def save(state: SessionState) -> bytes:
    return _encoder.encode(state)


def restore(saved: bytes) -> SessionState:
    """Without what was nowhere but on its way."""
    state = _decoder.decode(saved)
    state.in_flight = {packet_id: flight for packet_id, flight in state.in_flight.items() if flight.ref != UNNAMED}
    return state
