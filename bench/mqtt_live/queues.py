"""Consumers of a durable queue, which ack what they get: many messages with one `$ack`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import cycle

from bench.loads import VALUE_BYTES
from ortoo.doors.mqtt.wire.codes import V5
from ortoo.doors.mqtt.wire.encoding import publish_parts

from .links import Link, Loop
from .traffic import Flow

_MESSAGE_ID = b"\x26\x00\x0amessage-id"  # how the user property begins
_ACKED_AT_ONCE = 100
_PUBLISH, _PUBACK = 0x30, 0x40


class QueueConsumer(Link):
    def __init__(
        self, loop: Loop, connection: socket.socket, queue: str, flow: Flow, look: Callable[[bytes], None] | None = None
    ) -> None:
        """`look` is shown each payload."""
        super().__init__(loop, connection)
        self._topic = f"{queue}/$ack"
        self._flow = flow
        self._look = look
        self._rest = b""
        self._ids = cycle(range(1, 60_000))
        self._unconfirmed: dict[int, int] = {}  # messages by the packet that acks them

    def on_data(self, data: bytes) -> None:
        data = self._rest + data
        at, end = 0, len(data)
        found: list[bytes] = []
        pubacks: list[bytes] = []
        done = 0
        while end - at >= 3:
            start, size = at + 2, data[at + 1]
            if size & 0x80:
                start, size = at + 3, size & 0x7F | data[at + 2] << 7
            stop = start + size
            if stop > end:
                break
            if data[at] & 0xF0 == _PUBLISH:
                id_at = start + 2 + (data[start] << 8 | data[start + 1])
                pubacks.append(data[id_at : id_at + 2])
                if self._look is not None:
                    self._look(data[stop - VALUE_BYTES : stop])
                begin = data.index(_MESSAGE_ID, id_at, stop)
                value = begin + len(_MESSAGE_ID)
                found.append(data[begin : value + 2 + (data[value] << 8 | data[value + 1])])
            elif data[at] == _PUBACK:
                if size > 2 and data[start + 2] >= 0x80:
                    raise RuntimeError(f"an ack failed with 0x{data[start + 2]:02X}")
                done += self._unconfirmed.pop(data[start] << 8 | data[start + 1])
            else:
                raise RuntimeError(f"something else came than a message: 0x{data[at]:02X}")
            at = stop
        self._rest = data[at:]
        if found:
            self._ack(found, pubacks)
        if done:
            self._flow.arrived(done)

    def _ack(self, found: list[bytes], pubacks: list[bytes]) -> None:
        parts = [b"\x40\x02" + number for number in pubacks]
        for start in range(0, len(found), _ACKED_AT_ONCE):
            some = found[start : start + _ACKED_AT_ONCE]
            number = next(self._ids)
            self._unconfirmed[number] = len(some)
            before, after = publish_parts(self._topic, b"", V5, 1, False, raw=b"".join(some))
            parts += [before, number.to_bytes(2, "big"), after]
        self.send(b"".join(parts))
