"""How much of what was written to a client has not reached it."""

from __future__ import annotations

import asyncio
import struct

try:
    import fcntl
    import termios
except ImportError:  # not on Windows
    _ask = None
else:

    def _ask(number: int) -> bytes:
        return fcntl.ioctl(number, termios.TIOCOUTQ, bytes(4))


def unsent(transport: asyncio.WriteTransport) -> int:
    """In bytes: what waits here, and what the system has taken but the client's system has not.

    What waits here alone says little of a slow client: the system takes more only when a third of its own megabytes is free.
    """
    waiting = transport.get_write_buffer_size()
    if _ask is None:
        return waiting
    try:
        queued = _ask(transport.get_extra_info("socket").fileno())
    except (OSError, ValueError):  # it is closed, or this system does not tell
        return waiting
    return waiting + int(struct.unpack("i", queued)[0])
