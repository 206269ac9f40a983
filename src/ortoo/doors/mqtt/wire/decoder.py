"""A stream of bytes to packets: all that a read completes at once, and nothing kept but the packet that is not whole.

What comes out depends on the bytes alone, never on how they were cut into reads. Each packet is judged as early as its bytes
allow: its first byte, then its declared length (so that one too large is refused before it is there), then the whole.
After an error there is no going on: `error` tells it, and the packets before it are given as usual.
"""

from __future__ import annotations

from typing import Final, Literal

from . import packets as p
from .codes import V5, V31, Code, MqttError, malformed, protocol_error
from .decoding import FROM_CLIENTS, FROM_SERVERS, RESENT_V31, decode_connect
from .fields import cut_short, to_text
from .properties import Kind, parse, read_properties
from .topics import check_topic

_CONNECT: Final = 0x10

# By the first byte of a PUBLISH: QoS, retain, dup. Neither QoS 3 nor a repetition at QoS 0 is there.
_PUBLISH: Final = {
    0x30 | dup << 3 | qos << 1 | retain: (qos, retain == 1, dup == 1)
    for qos in range(3)
    for retain in range(2)
    for dup in range(2 if qos else 1)
}

_ACKS: Final[dict[int, type[p.Ack]]] = {0x40: p.Puback, 0x50: p.Pubrec, 0x62: p.Pubrel, 0x70: p.Pubcomp}

# Topic names that were checked already: most traffic is on few of them.
_TOPICS: Final[dict[bytes, str]] = {}
_TOPICS_MAX: Final = 8_192
_TOPIC_BYTES_MAX: Final = 256


class Decoder:
    """`bytes_max` is the largest packet allowed, its head included; `connect_bytes_max` the same of a CONNECT."""

    def __init__(
        self,
        bytes_max: int,
        *,
        connect_bytes_max: int | None = None,
        side: Literal["server", "client"] = "server",
        version: int | None = None,
    ) -> None:
        self.bytes_max = bytes_max
        self.connect_bytes_max = bytes_max if connect_bytes_max is None else connect_bytes_max
        self.version = version  # None until a CONNECT has told it
        self.error: MqttError | None = None
        self._is_server = side == "server"
        self._others = FROM_CLIENTS if self._is_server else FROM_SERVERS
        self._rest = bytearray()  # of a packet that is not whole yet
        self._need = 0  # bytes of that packet, where its length is known

    @property
    def held(self) -> int:
        """Bytes of a packet that is not whole yet."""
        return len(self._rest)

    @property
    def is_begun(self) -> bool:
        """What comes next is not the beginning of a packet."""
        return bool(self._rest) or self.error is not None

    def feed(self, data: bytes) -> list[p.Packet]:
        """The packets that are whole now. Look at `error` afterwards."""
        if self.error is not None:
            return []
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return []
            data = bytes(self._rest)
            self._rest = bytearray()
        packets: list[p.Packet] = []
        try:
            at = self._take(data, packets)
        except MqttError as error:
            self.error = error
            if error.version is None:
                error.version = self.version
        else:
            if at < len(data):
                self._rest += data[at:]
        return packets

    def _take(self, data: bytes, packets: list[p.Packet]) -> int:  # noqa: PLR0915  # a call per PUBLISH would cost more
        """Appends what is whole, and tells where the rest begins."""
        at, end = 0, len(data)
        bytes_max, version = self.bytes_max, self.version
        forms: dict[int, tuple[int, bool, bool]] = {} if version is None else _PUBLISH
        topics, append, make = _TOPICS, packets.append, p.Publish
        self._need = 0
        while at < end:
            form = forms.get(data[at])
            if form is None:  # not PUBLISH, or not yet
                at, start = self._take_other(data, at, packets), at
                if at == start:
                    break
                version, forms = self.version, _PUBLISH
                continue
            body = at + 2
            if body > end:
                break
            size = data[at + 1]
            if size > 0x7F and body < end and 0 < data[body] < 0x80:  # two bytes
                size = size & 0x7F | data[body] << 7
                body += 1
            elif size > 0x7F:
                size, body = self._read_size(data, at, end)
                if size < 0:
                    break
            stop = body + size
            if stop - at > bytes_max:
                raise _too_large(stop - at, bytes_max)
            if stop > end:
                self._need = stop - at
                break
            after = body + 2
            if after > stop:
                raise cut_short()
            after += data[body] << 8 | data[body + 1]
            if after > stop:
                raise cut_short()
            raw_topic = data[body + 2 : after]
            topic = topics.get(raw_topic) or _to_topic(raw_topic)
            qos, retain, dup = form
            packet_id = 0
            if qos:
                if after + 2 > stop:
                    raise cut_short()
                packet_id = data[after] << 8 | data[after + 1]
                after += 2
                if packet_id == 0:
                    raise protocol_error("the packet identifier is 0")
            if version == V5:
                if after == stop or data[after]:
                    append(self._with_properties(data, after, stop, topic, packet_id, form))
                    at = stop
                    continue
                after += 1
            if not topic:
                raise protocol_error("a PUBLISH has no topic name")
            append(make(topic, data[after:stop], qos, retain, dup, packet_id))
            at = stop
        return at

    def _with_properties(
        self, data: bytes, at: int, end: int, topic: str, packet_id: int, form: tuple[int, bool, bool]
    ) -> p.Publish:
        raw, at = read_properties(data, at, end)
        properties = parse(raw, Kind.PUBLISH)
        if properties.subscription_ids and self._is_server:
            raise protocol_error("a client's PUBLISH has a subscription identifier")
        if not topic and properties.topic_alias is None:
            raise protocol_error("a PUBLISH has neither a topic name nor an alias")
        return p.Publish(topic, data[at:end], *form, packet_id, properties, raw)

    def _take_other(self, data: bytes, at: int, packets: list[p.Packet]) -> int:
        """One packet that is no PUBLISH, or a run of acks; the same place where it is not whole."""
        head, end = data[at], len(data)
        if head in _ACKS and self.version is not None and self.bytes_max >= 4:
            stop = _take_acks(data, at, end, packets)
            if stop > at:
                return stop
        head = self._check_head(head)
        size, body = self._read_size(data, at, end)
        if size < 0:
            return at
        stop = body + size
        bytes_max = self.connect_bytes_max if head == _CONNECT else self.bytes_max
        if stop - at > bytes_max:
            raise _too_large(stop - at, bytes_max)
        if stop > end:
            self._need = stop - at
            return at
        if head != _CONNECT:
            packets.append(self._others[head](data, body, stop, self.version or 0))
            return stop
        connect = decode_connect(data, body, stop)
        self.version = connect.version
        if data[body - 1] == 0 and connect.version == V5:
            raise malformed("a variable byte integer is longer than it need be")
        packets.append(connect)
        return stop

    def _check_head(self, head: int) -> int:
        """The one that it stands for, and only one that may come now."""
        if self.version is None:
            if head >> 4 != Kind.CONNECT:
                raise protocol_error("the first packet is not CONNECT")
            if head != _CONNECT:
                raise malformed("reserved flags of CONNECT are set")
            return head
        if head in self._others:
            return head
        if self.version == V31 and head in RESENT_V31 and RESENT_V31[head] in self._others:
            return RESENT_V31[head]
        kind = head >> 4
        if kind == Kind.CONNECT:
            raise protocol_error("CONNECT comes a second time")
        if kind == Kind.PUBLISH:
            raise malformed("a PUBLISH has QoS 3, or is marked as sent again at QoS 0")
        if any(known >> 4 == kind for known in self._others):
            raise malformed(f"reserved flags of {Kind(kind).name} are set")
        if kind == 0:
            raise malformed("there is no packet of type 0")
        raise protocol_error(f"{Kind(kind).name} does not come from this side")

    def _read_size(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """The declared length and the place after it; -1 where it is not whole."""
        size = shift = 0
        at += 1
        start = at
        while at < end:
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and at - start > 1 and self.version == V5:
                    raise malformed("a variable byte integer is longer than it need be")
                return size, at
            shift += 7
            if shift == 28:
                raise malformed("the remaining length has more than four bytes")
        return -1, at


def _take_acks(data: bytes, at: int, end: int, packets: list[p.Packet]) -> int:
    """Those of a run that have an identifier and nothing else, as nearly all; tells where it ends."""
    while at + 4 <= end and data[at + 1] == 2:
        make = _ACKS.get(data[at])
        packet_id = data[at + 2] << 8 | data[at + 3]
        if make is None or packet_id == 0:
            break
        packets.append(make(packet_id))
        at += 4
    return at


def read_alone(data: bytes, version: int) -> tuple[str, int] | None:
    """The topic of a PUBLISH that is all of `data`, and where its identifier stands, at QoS 0 the end of its topic. None where it
    has to be decoded: it has flags or properties, its topic was not seen before, or anything is wrong."""
    size, body, end = data[1], 2, len(data)
    if size > 0x7F:
        if end < 3 or not 0 < data[2] < 0x80:  # it is not two bytes
            return None
        size, body = size & 0x7F | data[2] << 7, 3
    if body + size != end or size < 5:
        return None
    at = body + 2 + (data[body] << 8 | data[body + 1])
    topic = _TOPICS.get(data[body + 2 : at])
    after = at + (2 if data[0] == 0x32 else 0)
    if not topic or after > end or (version == V5 and data[after : after + 1] != b"\0"):
        return None
    return topic, at


def _too_large(size: int, bytes_max: int) -> MqttError:
    return MqttError(Code.PACKET_TOO_LARGE, f"a packet has {size} bytes, at most {bytes_max} are taken here")


def _to_topic(raw: bytes) -> str:
    topic = to_text(raw)
    check_topic(topic)
    if len(raw) <= _TOPIC_BYTES_MAX:
        if len(_TOPICS) >= _TOPICS_MAX:
            _TOPICS.clear()
        _TOPICS[raw] = topic
    return topic
