"""Publishers and subscribers of ordinary topics, and how far the ones may be ahead of the others."""

from __future__ import annotations

import socket
from collections.abc import Callable

from bench.loads import VALUE_BYTES, values
from ortoo.doors.mqtt.wire.codes import V311
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.packets import Publish

from .links import Link, Loop

_ACK_BYTES = 4
_QOS_0_RING = 4_096


class Flow:
    """What was sent, and what of it has come: senders wait while too much is on its way.

    Nobody is measured by how much they lose, or by how much memory they fill.
    """

    def __init__(self, ahead_max: int, copies: int = 1) -> None:
        """`copies`: how many subscribers get each message."""
        self.ahead_max = ahead_max
        self.copies = copies
        self.sent = 0
        self.received = 0
        self.senders: list[Publisher] = []
        self._is_stopped = False

    @property
    def room(self) -> int:
        return 0 if self._is_stopped else self.ahead_max - self.sent + self.received // self.copies

    @property
    def is_drained(self) -> bool:
        return self.received == self.sent * self.copies

    def stop(self) -> None:
        """What was sent may still come."""
        self._is_stopped = True

    def arrived(self, count: int) -> None:
        self.received += count
        for sender in self.senders:
            sender.pump()


class Publisher(Link):
    """Sends one message after the other, as fast as it may; `window` is how many wait for their PUBACK."""

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        topic: str,
        qos: int,
        window: int,
        flow: Flow,
        *,
        is_alone: bool = False,
    ) -> None:
        super().__init__(loop, connection)
        count = window if qos else _QOS_0_RING
        packets = [
            encode(Publish(topic, value, qos, packet_id=number + 1 if qos else 0), V311)
            for number, value in enumerate(values(0, count))
        ]
        self._ring, self._count, self._bytes = b"".join(packets), count, len(packets[0])
        self._at = 0
        self._qos = qos
        self._free = window  # identifiers
        self._flow = flow
        self._is_alone = is_alone  # nobody else tells that a message has come
        self._rest = b""
        flow.senders.append(self)

    def pump(self) -> None:
        if self._qos == 0 and self._flow.room < self._flow.ahead_max // 4:
            return  # until there are some to send together: nothing else sets the pace
        room = min(self._flow.room, self._free if self._qos else self._count, self._count - self._at)
        if room <= 0:
            return
        self._flow.sent += room
        self.send(self._ring[self._at * self._bytes : (self._at + room) * self._bytes])
        self._at = (self._at + room) % self._count
        if self._qos:
            self._free -= room
        if self._at == 0:
            self.pump()  # from the beginning of the ring

    def on_data(self, data: bytes) -> None:
        data = self._rest + data
        count = len(data) // _ACK_BYTES
        whole = count * _ACK_BYTES
        if data[:whole:_ACK_BYTES] != b"\x40" * count:
            raise RuntimeError("something else came than PUBACK")
        self._rest = data[whole:]
        self._free += count
        if self._is_alone:
            self._flow.arrived(count)
        else:
            self.pump()


class Subscriber(Link):
    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        topic: str,
        qos: int,
        flow: Flow,
        look: Callable[[bytes], None] | None = None,
    ) -> None:
        """`look` is shown each payload."""
        super().__init__(loop, connection)
        packet = encode(Publish(topic, bytes(VALUE_BYTES), qos, packet_id=1 if qos else 0), V311)
        self._bytes, self._length = len(packet), packet[1:2]
        self._id_at = 4 + len(topic.encode())
        self._qos = qos
        self._flow = flow
        self._look = look
        self._rest = b""

    def on_data(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        count = len(data) // self._bytes
        whole = count * self._bytes
        self._rest = data[whole:]
        if not count:
            return
        if data[1 : whole : self._bytes] != self._length * count:
            raise RuntimeError("something else came than was published")
        if self._qos:
            self.send(_acks(data[self._id_at : whole : self._bytes], data[self._id_at + 1 : whole : self._bytes]))
        if self._look is not None:
            for end in range(self._bytes, whole + 1, self._bytes):
                self._look(data[end - VALUE_BYTES : end])
        self._flow.arrived(count)


def _acks(high: bytes, low: bytes) -> bytes:
    """PUBACK for each identifier."""
    made = bytearray(b"\x40\x02\0\0" * len(high))
    made[2::4], made[3::4] = high, low
    return bytes(made)
