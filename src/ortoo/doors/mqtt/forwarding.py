"""The short way of a message: a PUBLISH that comes alone, to one client that is connected, goes on as the bytes that it came as.

That is what clients send that wait for each answer, and those that tell something now and then. All that is not plain takes the
long way, through the decoder, the session and the namespace, and both ways end the same.
"""

from __future__ import annotations

from typing import Final

from .client import Client
from .wire.codes import V5
from .wire.decoder import read_alone

_QOS_0, _QOS_1 = 0x30, 0x32
_ID_BYTES: Final = 2


def forward(client: Client, data: bytes, now: int) -> bytes | None:
    """What the publisher is answered, at QoS 0 nothing; None where the message has to take the long way."""
    kind = data[0]
    version = client.session.version
    found = read_alone(data, version) if kind in (_QOS_0, _QOS_1) else None
    if found is None or client.rights.is_limited or not client.session.is_free:
        return None
    topic, at = found
    other: Client | None = client.namespace.only_subscriber(topic, kind == _QOS_1)
    if other is None or other is client or other.connection is None or other.rights.is_limited:
        return None
    if (version == V5) is not (other.session.version == V5):
        return None
    if kind == _QOS_0:
        if not other.connection.forward(data, None, now):
            return None
        answer = b""
    else:
        number = data[at : at + _ID_BYTES]
        if number == b"\0\0" or not other.connection.forward(data[:at], data[at + _ID_BYTES :], now):
            return None
        answer = b"\x40\x02" + number
    client.session.hear(now)
    client.namespace.received += 1
    client.services.meters.sent += 1
    return answer
