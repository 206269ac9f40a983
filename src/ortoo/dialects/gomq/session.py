"""One connection: lines in, a line out for each, in their order, and deliveries in between.

Reading stops while the client does not read, while much is to be done for it, and while all doors together hold too much.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from ortoo.broker.addresses import Visit
from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.budget import Share
from ortoo.broker.gate import Gate
from ortoo.doors.peer import address_of, peer_certificate
from ortoo.doors.unsent import unsent
from ortoo.model.errors import OrtooError

from .conversation import Conversation, error_line
from .lines import Line, Lines, parse
from .subscriptions import Reader

IDLE_SECONDS = 30.0
READ_AHEAD_BYTES = 256 * 1024  # while something is being done
TOGETHER_MAX = 1_000  # commands that are done at once
TOGETHER_BYTES = 1024 * 1024
AUTH_FAILURES_MAX = 3
PROGRESS_BYTES = 64 * 1024  # of a line that is not whole yet: so many more are a sign of life
_SAME = {"PUBLISH": 2, "ACK": 1}  # how many words have to be the same, for those to be done at once


class Sessions(Protocol):
    """The door."""

    gate: Gate
    present: Counter[str]

    def begun(self, session: Session) -> None: ...
    def ended(self, session: Session) -> None: ...


class Session(asyncio.Protocol):
    def __init__(self, door: Sessions) -> None:
        self._door = door
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until the connection is made
        self._visit: Visit | None = None
        self._lines = Lines()
        self._next: Line | None = None  # was read, and is not of those before
        self._doing = 0  # bytes of the commands under way
        self._share = Share(door.gate.budget, self._regulate, self._cut)
        self._worker: asyncio.Task[None] | None = None
        self._is_reading = True
        self._is_last = False  # nothing more comes
        self._is_leaving = False
        self._ended: asyncio.Task[None] | None = None
        self._out: list[bytes] = []
        self._writable = asyncio.Event()
        self._writable.set()
        self._auth_failures = 0
        self._unheard = 0  # bytes since the last sign of life
        self._unread = 0
        self.heard = self._loop.time()
        reader = Reader(self._ready, self._is_ready, self._write, asyncio.Lock())
        self._conversation = Conversation(door.gate, reader, self._admit, door.present)

    # -- the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._door.begun(self)
        certificate = peer_certificate(transport)
        try:
            self._visit = self._door.gate.enter(address_of(transport))
            if not self._door.gate.needs_token or certificate is not None:
                self._conversation.enter()
        except OrtooError as error:
            if self._visit is None or not self._door.gate.needs_token:
                self._close(error)

    def _admit(self, token: str | None) -> AuthorizedLink:
        try:
            return self._door.gate.connect(token, address_of(self._transport), peer_certificate(self._transport))
        except OrtooError:
            self._auth_failures += token is not None
            raise

    def eof_received(self) -> bool:
        """Whoever says no more may still listen for the answers to what it has said."""
        self._is_last = True
        return self._worker is not None and self._transport.get_extra_info("ssl_object") is None

    def connection_lost(self, error: Exception | None) -> None:
        self._is_leaving = True
        self._share.leave()
        if self._visit is not None:
            self._visit.leave()
        self._ended = self._loop.create_task(self._end())

    async def _end(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait((self._worker,))
        await self._conversation.leave()
        self._conversation.disconnect()
        self._share.close()
        self._door.ended(self)

    def data_received(self, data: bytes) -> None:
        if self._is_leaving:
            return
        self._lines.feed(data)
        self._unheard += len(data)
        if self._unheard >= PROGRESS_BYTES:
            self.heard, self._unheard = self._loop.time(), 0
        self._hold()
        if self._worker is None:
            self._work()
        self._regulate()

    def _hold(self) -> None:
        """What has come and is not done."""
        change = self._lines.held + self._doing - self._share.bytes
        if change > 0:
            self._share.take(change)
        elif change < 0:
            self._share.give_back(-change)

    def _regulate(self) -> None:
        if self._transport.is_closing():
            return
        is_busy = self._worker is not None and self._lines.held >= READ_AHEAD_BYTES
        is_open = not is_busy and self._writable.is_set()
        self._share.expect(self._lines.held > 0 and self._worker is None)
        is_wanted = is_open and self._share.may_go_on()
        if is_wanted != self._is_reading:
            self._is_reading = is_wanted
            (self._transport.resume_reading if is_wanted else self._transport.pause_reading)()

    def _cut(self) -> None:
        """Others need what is held here, and the rest does not come."""
        self._close(self._share.crowded())

    # -- commands

    def _work(self) -> None:
        try:
            said = self._gather()
        except OrtooError as error:  # a line that is too long
            self._close(error)
            return
        if said:
            self._worker = self._loop.create_task(self._answer(said))

    def _gather(self) -> list[Line]:
        """The next command, and those behind it that can be done together with it."""
        said: list[Line] = []
        size = 0
        while len(said) < TOGETHER_MAX and size < TOGETHER_BYTES:
            one = self._next or self._read()
            self._next = None
            if one is None:
                break
            if said and not _are_alike(said[0], one):
                self._next = one
                break
            said.append(one)
            size += one.size
        self._doing = size + (0 if self._next is None else self._next.size)
        return said

    def _read(self) -> Line | None:
        """What is no command is answered when its turn comes."""
        line = self._lines.next()
        if line is None:
            return None
        try:
            return parse(line)
        except OrtooError as error:
            return Line("", (), error_line(error), len(line))

    async def _answer(self, said: list[Line]) -> None:
        while said and not self._is_leaving:
            self.heard, self._unheard = self._loop.time(), 0
            for line in await self._answers(said):
                self._write(line)
            if said[0].verb == "QUIT" or self._auth_failures >= AUTH_FAILURES_MAX:
                self._close()
                return
            await self._ready()
            await asyncio.sleep(0)  # others, too
            try:
                said = self._gather()
            except OrtooError as error:
                self._close(error)
                return
            self._hold()
            self._regulate()
        self.heard = self._loop.time()
        self._doing = 0
        self._worker = None
        if self._is_last:
            self._close()
        self._hold()
        self._regulate()

    async def _answers(self, said: list[Line]) -> list[bytes]:
        if not said[0].verb:
            return [one.rest for one in said]
        assert self._visit is not None
        try:
            for _ in said:
                self._visit.ask()
        except OrtooError as error:
            return [error_line(error)] * len(said)
        return await self._conversation.answer(said)

    # -- writing

    def _write(self, line: bytes) -> None:
        if self._transport.is_closing():
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(line)

    def _flush(self) -> None:
        lines, self._out = self._out, []
        if lines and not self._transport.is_closing():
            self._transport.write(b"".join(lines))

    def pause_writing(self) -> None:
        self._writable.clear()
        self._regulate()

    def resume_writing(self) -> None:
        self._writable.set()
        self._regulate()

    def _is_ready(self) -> bool:
        if self._out:
            self._flush()
        return self._writable.is_set()

    async def _ready(self) -> None:
        if not self._is_ready():
            await self._writable.wait()

    def _close(self, error: OrtooError | None = None) -> None:
        if error is not None:
            self._write(error_line(error))
        self._is_leaving = True
        self._flush()
        self._transport.close()

    # -- what the door asks

    def is_silent(self, now: float, late: float) -> bool:
        """Whether nobody seems to be there: nothing is said, or nothing is read. `late`: so much later than it should does the
        server look."""
        self.heard = min(now, self.heard + late)
        unread = unsent(self._transport)
        is_stuck = unread > 0 and unread == self._unread
        self._unread = unread
        is_at_work = self._worker is not None or self._conversation.is_subscribed or not self._is_reading
        if is_at_work and not is_stuck:
            self.heard = now
        return now - self.heard > IDLE_SECONDS

    async def drain(self) -> None:
        """Finishes what was begun; deliveries end, and what was delivered goes back."""
        self._is_leaving = True
        if self._worker is not None:
            await asyncio.wait((self._worker,))
        await self._conversation.leave()
        self._close()
        if self._ended is not None:
            await asyncio.wait((self._ended,))

    def abort(self) -> None:
        self._is_leaving = True
        self._transport.abort()


def _are_alike(first: Line, other: Line) -> bool:
    count = _SAME.get(first.verb)
    return count is not None and other.verb == first.verb and other.words[:count] == first.words[:count]
