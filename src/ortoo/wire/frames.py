"""Frames: where one ends and the next begins.

┌──────────────────┬─────────────┐
│ length (4, big   │ body        │
│ endian, of body) │ (msgpack)   │
└──────────────────┴─────────────┘
"""

from __future__ import annotations

from typing import Any

import msgspec

from ortoo.model.errors import InvalidError, ProtocolError
from ortoo.model.offsets import to_plain

HEAD_BYTES = 4
_TLS = (b"\x15\x03", b"\x16\x03")  # how an alert, or a handshake, begins

_encode_into = msgspec.msgpack.Encoder(enc_hook=to_plain).encode_into


def encode_frame(body: Any) -> bytearray:
    """InvalidError when a text in it is not valid Unicode, or a number too large."""
    frame = bytearray(256)
    try:
        _encode_into(body, frame, HEAD_BYTES)
    except (UnicodeEncodeError, OverflowError) as error:
        what = f"{error.object!r} is not valid Unicode" if isinstance(error, UnicodeEncodeError) else str(error)
        raise InvalidError(what) from None
    frame[:HEAD_BYTES] = (len(frame) - HEAD_BYTES).to_bytes(HEAD_BYTES, "big")
    return frame


class Splitter:
    """Bytes in, as they come; bodies of whole frames out. After a ProtocolError there is no going on."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max  # of a body
        self._rest = bytearray()  # of a frame whose end has not come yet
        self._need = 0  # bytes of that frame, its head included; 0 while the head is not whole

    @property
    def held(self) -> int:
        """Bytes of a frame whose end has not come yet."""
        return len(self._rest)

    def feed(self, data: bytes | bytearray) -> list[memoryview]:
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return []
            data, self._rest = self._rest, bytearray()
        bodies = []
        view = memoryview(data)
        at, end = 0, len(data)
        self._need = 0
        while end - at >= HEAD_BYTES:
            size = int.from_bytes(view[at : at + HEAD_BYTES], "big")
            if size > self.bytes_max:
                if bytes(view[at : at + HEAD_BYTES]) == b"HTTP":
                    raise ProtocolError("not the Ortoo protocol; is this the HTTP port?")
                if bytes(view[at : at + 2]) in _TLS:
                    raise ProtocolError(
                        "one side of the connection speaks TLS: use ortoos:// with TLS, ortoo:// without"
                    )
                raise ProtocolError(f"a frame of {size} bytes is too large, at most {self.bytes_max} are allowed here")
            upto = at + HEAD_BYTES + size
            if upto > end:
                self._need = upto - at
                break
            bodies.append(view[at + HEAD_BYTES : upto])
            at = upto
        if at < end:
            self._rest += view[at:]  # a copy: what it was cut from need not stay
        return bodies
