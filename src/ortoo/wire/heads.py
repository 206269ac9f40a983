"""How a request begins: its id, and which kind it says it is. That takes no look at the rest, however large it is."""

from __future__ import annotations

import re
from typing import Final

from ortoo.model.errors import ProtocolError

ENVELOPES: Final = {
    "Once": "command",
    "PublishOrWait": "publish",
}  # kinds that say little themselves: what they hold, where
_FIELDS_MAX = 16  # looked at before that field of an envelope; there are fewer

# Here and below: as msgpack has it.
_PAIR = 0x92  # an array of two
_INTEGERS = {0xCC: (1, False), 0xCD: (2, False), 0xCE: (4, False), 0xCF: (8, False)}
_INTEGERS |= {0xD0: (1, True), 0xD1: (2, True), 0xD2: (4, True), 0xD3: (8, True)}
_PLAIN = {0xC0: 1, 0xC2: 1, 0xC3: 1, 0xCA: 5, 0xCB: 9} | {head: 1 + size for head, (size, _) in _INTEGERS.items()}
_MAP_HEADS = {0xDE: 3, 0xDF: 5} | dict.fromkeys(range(0x80, 0x90), 1)
_INTEGER = rb"(?:[\x00-\x7f\xe0-\xff]|\xcc.|\xcd..|\xce.{4}|\xcf.{8})"
_ONCE = rb"\x85\xa4type\xa4Once\xa8producer\xd9\x20.{32}\xa8sequence%b\xaadone_below%b\xa7command" % (
    _INTEGER,
    _INTEGER,
)
_PUBLISH = re.compile(rb"(?s:\x92%b(?:%b)?[\x80-\x8f]\xa4type(?:\xa7Publish|\xa5Stage))" % (_INTEGER, _ONCE))


def is_publish(body: memoryview) -> bool:
    """Whether it is a publish, or stages one, as our own client writes it; False says nothing.

    Nothing else can come of it: an envelope so written has each field once.
    """
    return _PUBLISH.match(body) is not None


def read_id(body: memoryview) -> int:
    """Of a request, whatever else it holds, without reading that. ProtocolError when it begins with none."""
    return _read_id(body)[0]


def _read_id(body: memoryview) -> tuple[int, int]:
    """The id, and where it ends."""
    head = bytes(body[:10])
    if len(head) < 2 or head[0] != _PAIR:
        raise ProtocolError("a request is an array of its id and a map")
    first = head[1]
    if first < 0x80 or first >= 0xE0:
        return (first if first < 0x80 else first - 0x100), 2
    if first not in _INTEGERS or len(head) < 2 + _INTEGERS[first][0]:
        raise ProtocolError("the id of a request is an integer")
    size, is_signed = _INTEGERS[first]
    return int.from_bytes(head[2 : 2 + size], "big", signed=is_signed), 2 + size


def read_kind(body: memoryview) -> str:
    """What it says first that it is; of an envelope, what is in there. Empty when it does not say so first.

    Only a hint: whoever writes a field twice may mean the other one.
    """
    at: int | None = _read_id(body)[1]
    kind = ""
    for _ in range(len(ENVELOPES) + 1):
        at = _inside(body, at)
        name, at = _text(body, at)
        kind, at = _text(body, at) if name == "type" else ("", None)
        if kind not in ENVELOPES:
            break
        at = _field(body, at, ENVELOPES[kind])
    return kind


def _inside(body: memoryview, at: int | None) -> int | None:
    """Where the first field of the map that begins there is. Here and below, None is nowhere."""
    if at is None or at >= len(body) or body[at] not in _MAP_HEADS:
        return None
    return at + _MAP_HEADS[body[at]]


def _text(body: memoryview, at: int | None) -> tuple[str, int | None]:
    """A short text, and where it ends."""
    if at is None or at >= len(body) or not 0xA0 <= body[at] < 0xC0:
        return "", None
    end = at + 1 + (body[at] & 0x1F)
    return bytes(body[at + 1 : end]).decode(errors="replace"), end


def _field(body: memoryview, at: int | None, wanted: str) -> int | None:
    """Where the value of that field is, if nothing but short texts and numbers stand before it."""
    for _ in range(_FIELDS_MAX):
        name, at = _text(body, at)
        if at is None or name == wanted:
            return at
        at = _behind(body, at)
    return None


def _behind(body: memoryview, at: int) -> int | None:
    head = body[at] if at < len(body) else 0
    if head < 0x80 or head >= 0xE0:
        return at + 1
    if head in _PLAIN:
        return at + _PLAIN[head]
    if head == 0xD9 and at + 1 < len(body):  # a text of less than 256 bytes
        return at + 2 + body[at + 1]
    return _text(body, at)[1]
