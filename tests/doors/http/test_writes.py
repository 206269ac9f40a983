"""In how many writes does an answer leave, and is nothing of it kept back?"""

from __future__ import annotations

import asyncio

from ortoo.doors.http.connection import _Outlet


class Recorder(asyncio.Transport):
    """What reached the socket, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, parts: object) -> None:
        self.writes.append(b"".join(parts))  # type: ignore[arg-type]

    def close(self) -> None:
        self.is_closed = True


def outlet_with_head() -> tuple[Recorder, _Outlet]:
    recorder = Recorder()
    outlet = _Outlet(recorder)
    outlet.write(b"100 Continue")  # before there is an answer
    assert recorder.writes == [b"100 Continue"]
    recorder.writes.clear()
    outlet.is_head = True
    outlet.write(b"head")
    outlet.is_head = False
    assert not recorder.writes
    return recorder, outlet


def test_a_head_leaves_with_the_beginning_of_its_body() -> None:
    recorder, outlet = outlet_with_head()
    outlet.write(b"body")
    outlet.write(b"more")
    outlet.flush()
    assert recorder.writes == [b"headbody", b"more"]


def test_a_head_leaves_without_a_body() -> None:
    recorder, outlet = outlet_with_head()
    outlet.flush()
    outlet.flush()
    assert recorder.writes == [b"head"]


def test_a_head_leaves_before_its_connection_is_closed() -> None:
    recorder, outlet = outlet_with_head()
    outlet.close()
    assert recorder.writes == [b"head"]
    assert recorder.is_closed
