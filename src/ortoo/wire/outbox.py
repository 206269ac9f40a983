"""Frames that leave together: what is said within one turn of the event loop is one write, not many."""

from __future__ import annotations

from collections.abc import Callable

_FRAMES_MAX = 64  # copied together; large ones would cost more to copy than a write costs
_LARGE_BYTES = 64 * 1024


class Outbox:
    """`soon` calls back in the next turn of the loop; `write` takes bytes to the wire."""

    def __init__(
        self, soon: Callable[[Callable[[], None]], object], write: Callable[[bytes | bytearray], None]
    ) -> None:
        self._soon = soon
        self._write = write
        self._frames: list[bytearray] = []

    def put(self, frame: bytearray) -> None:
        if not self._frames:
            self._soon(self.flush)
        self._frames.append(frame)
        if len(frame) > _LARGE_BYTES or len(self._frames) == _FRAMES_MAX:
            self.flush()

    def flush(self) -> None:
        frames, self._frames = self._frames, []
        if len(frames) == 1:
            self._write(frames[0])
        elif frames:
            self._write(b"".join(frames))
