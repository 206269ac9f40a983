"""How many things bytes in msgpack hold, before any is built.

Arrays and maps say first how many they hold, so that what they say, added up, is all there is to build; also when more is
announced than comes.
"""

from __future__ import annotations

import re
from typing import Final

_SCALARS = re.compile(  # nil, booleans, numbers and the empty text: as many as stand in a row
    rb"(?s:[\x00-\x7f\xe0-\xff\xc0\xc2\xc3\xa0]++|[\xcc\xd0].|[\xcd\xd1]..|[\xca\xce\xd2].{4}|[\xcb\xcf\xd3].{8})*+"
)
_FIXED: Final = {0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18}  # extensions, with their head
# Texts, bytes and extensions: how many bytes their length has, and how many stand before the rest.
_SIZED = {0xD9: (1, 2), 0xDA: (2, 3), 0xDB: (4, 5), 0xC4: (1, 2), 0xC5: (2, 3), 0xC6: (4, 5)}
_SIZED |= {0xC7: (1, 3), 0xC8: (2, 4), 0xC9: (4, 6)}
_HOLDING: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}  # arrays, and maps, which hold pairs


def count_elements(body: memoryview, most: int) -> int:
    """What all arrays and maps in there hold, together; `most` is counted, and not much more.

    What is not msgpack counts for nothing: whoever reads it will say so.
    """
    at, end, found, seen = 0, len(body), 0, 0
    while found <= most and seen <= found:  # with more to see than was announced, it is not msgpack
        seen += 1
        match = _SCALARS.match(body, at)
        at = match.end() if match is not None else end
        if at >= end:
            break
        head = body[at]
        if head < 0xA0:
            found += head & 0x0F if head >= 0x90 else 2 * (head & 0x0F)
            at += 1
        elif head < 0xC0:
            at += 1 + (head & 0x1F)
        elif head in _SIZED:
            size, before = _SIZED[head]
            at += before + int.from_bytes(body[at + 1 : at + 1 + size], "big")
        elif head in _HOLDING:
            size, each = _HOLDING[head]
            found += each * int.from_bytes(body[at + 1 : at + 1 + size], "big")
            at += 1 + size
        elif head in _FIXED:
            at += _FIXED[head]
        else:
            break
    return found


def count_held(raw: memoryview) -> int:
    """What the map or array that it is holds, without what is in there; 0 when it is neither."""
    head = raw[0]
    if head in _HOLDING:
        return int.from_bytes(raw[1 : 1 + _HOLDING[head][0]], "big")
    return head & 0x0F if 0x80 <= head < 0xA0 else 0
