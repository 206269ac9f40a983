"""What MQTT costs before anything is sent: reading packets."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from ortoo.doors.mqtt.wire.codes import V5, V311
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.packets import Publish
from ortoo.doors.mqtt.wire.properties import NONE, Properties
from ortoo.doors.mqtt.wire.properties import encode as encode_properties

from .figures import Figure, rates
from .settings import Settings
from .timing import Rates, Stopwatch, best_of

PACKETS = "MQTT, packets"
_READ_BYTES = 64 * 1024  # of a connection, at once
_PAYLOAD = b"x" * 100


def packets(settings: Settings) -> list[Figure]:
    """PUBLISH packets read in a second; with properties that differ from one to the next, and with the same ones."""
    total = settings.messages[1000]
    ids = count()
    same = Properties(content_type="application/json", message_expiry=60, user=(("unit", "celsius"),))
    cases: dict[str, tuple[int, int, Callable[[], Properties]]] = {
        "3.1.1, QoS 0": (V311, 0, lambda: NONE),
        "3.1.1, QoS 1": (V311, 1, lambda: NONE),
        "5, QoS 0": (V5, 0, lambda: NONE),
        "5, QoS 1": (V5, 1, lambda: NONE),
        "5, QoS 1, the same three properties": (V5, 1, lambda: same),
        "5, QoS 1, three properties that differ": (V5, 1, lambda: _differing(next(ids))),
    }

    async def measure() -> Rates:
        found = {}
        for what, (version, qos, properties) in cases.items():
            one = [_publish(number, qos, properties()) for number in range(4_000)]
            reads = _reads(b"".join(encode(each, version) for each in one))
            found[what] = _rate(version, reads, total // len(one) * len(one), len(one))
        return found

    return rates(PACKETS, best_of(settings.repetitions, measure))


def _differing(number: int) -> Properties:
    return Properties(content_type="application/json", correlation_data=b"%d" % number, user=(("unit", "celsius"),))


def _publish(number: int, qos: int, properties: Properties) -> Publish:
    topic = f"plant/{number % 10}/line/{number % 7}/temperature"
    raw = encode_properties(properties)
    return Publish(topic, _PAYLOAD, qos, packet_id=number + 1 if qos else 0, properties=properties, raw=raw)


def _reads(data: bytes) -> list[bytes]:
    return [data[at : at + _READ_BYTES] for at in range(0, len(data), _READ_BYTES)]


def _rate(version: int, reads: list[bytes], total: int, each: int) -> float:
    decoder, watch, taken = Decoder(1 << 20, version=version), Stopwatch(), 0
    while taken < total:
        with watch:
            for read in reads:
                taken += len(decoder.feed(read))
    assert decoder.error is None
    assert taken % each == 0
    return taken / watch.seconds
