"""Requests under way: each waits for its answer, and is sent again on the next connection when this one is lost.

That is safe: a lease that was not answered runs out, an ack may come twice, and everything else is numbered, so that the
server does it once (see `Once`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import msgspec

from ortoo.model.commands import (
    Aside,
    Extend,
    ExtendById,
    Heartbeat,
    Lease,
    Leave,
    Once,
    Publish,
    Settle,
    Stage,
    Transact,
)
from ortoo.model.errors import InvalidError, OrtooError, OutcomeUnknownError, UnavailableError
from ortoo.model.replies import LeasedRun
from ortoo.model.runs import runs_of
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame

_NUMBERED_MAX = 512  # under way; fewer than the server remembers of one producer
_SETTLING_MAX = 768  # the same, when what is asked next makes room for others; still fewer
_BYTES_MAX = 64 * 1024 * 1024
_REPEATABLE = Extend | ExtendById | Heartbeat | Leave  # to do these twice is to do them once
_ADDING = (Publish, p.PublishOrWait, Stage)  # what may have to wait for room

_leased_decoder = msgspec.msgpack.Decoder(list[LeasedRun] | None)


class Pending:
    """A request that was not answered yet."""

    __slots__ = ("changes", "frame", "future", "late", "sequence", "since", "was_sent")

    def __init__(self, frame: bytearray, changes: bool, sequence: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.frame = frame
        self.changes = changes
        self.sequence = sequence
        self.future: asyncio.Future[msgspec.Raw] = loop.create_future()
        self.since = loop.time()
        self.was_sent = False
        self.late: msgspec.Raw | None = None  # what was answered when the caller was cancelled, and had not run since

    def settle(self, outcome: msgspec.Raw | OrtooError) -> None:
        if self.future.done():
            if self.future.cancelled() and not isinstance(outcome, OrtooError):
                self.late = outcome
            return
        if isinstance(outcome, OrtooError):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)

    def answered(self) -> msgspec.Raw | None:
        """The answer, if it is there and is none of an error."""
        if self.future.cancelled():
            return self.late
        if not self.future.done() or self.future.exception() is not None:
            return None
        return self.future.result()

    def give_up(self, error: OrtooError) -> None:
        if self.was_sent and self.changes:
            error = OutcomeUnknownError(f"the server went away before it answered ({error}); it may have happened")
        elif not isinstance(error, UnavailableError):
            error = UnavailableError(str(error))
        self.settle(error)


class Requests:
    """`send` hands a frame to the connection, and says whether there is one."""

    def __init__(self, send: Callable[[bytearray], bool]) -> None:
        self.refusal: OrtooError | None = None  # why nothing may be asked now
        self._send = send
        self._id = 0
        self._pending: dict[int, Pending] = {}  # by id, oldest first
        self._bytes = 0
        self._producer = uuid4().hex
        self._sequence = 0
        self._numbered: dict[int, None] = {}  # sequences not answered yet, oldest first
        self._line = Line(self._is_crowded)
        self._settling = Line(lambda: len(self._numbered) >= _SETTLING_MAX or self._bytes >= 2 * _BYTES_MAX)
        self._abandoned: set[int] = set()  # leases nobody waits for any more; what they get goes back

    def next_id(self) -> int:
        self._id += 1
        return self._id

    async def ask(self, request: p.Request, changes: bool = False) -> msgspec.Raw:
        """The body of the answer. What changes something stands in line while too much of that is under way.

        What adds messages has a line of its own: it may wait for room, and would for ever if who makes room stood behind it.
        """
        if changes:
            await (self._line if _adds(request) else self._settling).enter()
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)  # else it would grow with each who is refused
        request, sequence = self._number(request) if changes else (request, None)
        request_id, pending = self._post(request, changes, sequence)
        self._admit()
        try:
            return await pending.future
        except asyncio.CancelledError:
            gives_back = isinstance(request, Lease) and not request.auto_ack
            if (body := pending.answered()) is None:
                self.tell(p.Cancel(request_id))
                if gives_back:
                    self._abandoned.add(request_id)
            elif gives_back:
                self._give_back(body)
            raise
        finally:
            self._forget(request_id)

    def _post(self, request: p.Request, changes: bool, sequence: int | None) -> tuple[int, Pending]:
        request_id = self.next_id()
        pending = Pending(_encode(request_id, request), changes, sequence)
        self._pending[request_id] = pending
        self._bytes += len(pending.frame)
        if sequence is not None:
            self._numbered[sequence] = None
        pending.was_sent = self._send(pending.frame)
        return request_id, pending

    def tell(self, request: p.Request, request_id: int = 0) -> bool:
        """Says what is not answered, or answered elsewhere. False when there is no connection."""
        return self._send(encode_frame((request_id, request)))

    def send_again(self) -> None:
        """There is a new connection."""
        self._abandoned.clear()  # the old one took them with it
        for pending in self._pending.values():  # in the order they were asked
            pending.was_sent = self._send(pending.frame) or pending.was_sent

    def answer(self, request_id: int, outcome: msgspec.Raw | OrtooError) -> None:
        if request_id in self._abandoned:
            self._abandoned.discard(request_id)
            if not isinstance(outcome, OrtooError):
                self._give_back(outcome)
        elif request_id in self._pending:
            self._pending[request_id].settle(outcome)

    def give_up(self, error: OrtooError, since: float) -> None:
        """Whoever has waited since then is told that the server is away."""
        for pending in self._pending.values():
            if pending.since <= since:
                pending.give_up(error)

    async def close(self, refusal: OrtooError) -> None:
        """Everyone is told; returns when they have heard it."""
        self.refusal = refusal
        for pending in self._pending.values():
            pending.give_up(refusal)
        while self._pending or self._line or self._settling:
            self._admit()
            await asyncio.sleep(0)

    def _number(self, request: Any) -> tuple[p.Request, int | None]:
        """Numbers what must not happen twice when it is sent again."""
        if isinstance(request, _REPEATABLE | Aside) or (isinstance(request, Settle) and request.outcome == "ack"):
            return request, None
        self._sequence += 1
        sequence = self._sequence
        done_below = next(iter(self._numbered), sequence)
        if isinstance(request, p.PublishOrWait):
            once = Once(self._producer, sequence, done_below, request.publish)  # type: ignore[arg-type]
            return p.PublishOrWait(once, request.wait_ms), sequence
        return Once(self._producer, sequence, done_below, request), sequence

    def _forget(self, request_id: int) -> None:
        pending = self._pending.pop(request_id)
        self._bytes -= len(pending.frame)
        if pending.sequence is not None:
            del self._numbered[pending.sequence]
        self._admit()

    def _forget_quietly(self, request_id: int, done: asyncio.Future[msgspec.Raw]) -> None:
        """Nobody asks how it went; what fails here returns when its lease runs out."""
        self._forget(request_id)
        done.exception()

    def _give_back(self, body: msgspec.Raw) -> None:
        """The lease was granted in the moment it was cancelled. This is sent again as others are, and nobody waits for it."""
        runs: list[LeasedRun] | None = p.decode_from_server(_leased_decoder, body)
        if runs and self.refusal is None:
            release = Settle("release", runs_of(run.taken for run in runs))
            request_id, pending = self._post(
                release, changes=False, sequence=None
            )  # twice is once: the receipts go stale
            pending.future.add_done_callback(lambda done: self._forget_quietly(request_id, done))

    def _is_crowded(self) -> bool:
        return len(self._numbered) >= _NUMBERED_MAX or self._bytes >= _BYTES_MAX

    def _admit(self) -> None:
        for line in (self._settling, self._line):
            line.admit(anyway=self.refusal is not None)


def _adds(request: p.Request) -> bool:
    return isinstance(request, _ADDING) or (isinstance(request, Transact) and not request.acks)


class Line:
    """Who waits until less is under way."""

    def __init__(self, is_crowded: Callable[[], bool]) -> None:
        self._is_crowded = is_crowded
        self._places: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._places)

    async def enter(self) -> None:
        if self._places or self._is_crowded():
            place = asyncio.get_running_loop().create_future()
            self._places.append(place)
            try:
                await place
            finally:
                self._places.remove(place)
                self.admit()

    def admit(self, anyway: bool = False) -> None:
        """The first in line, who stays there until he has gone in: nobody overtakes."""
        if self._places and not self._places[0].done() and (anyway or not self._is_crowded()):
            self._places[0].set_result(None)


def _encode(request_id: int, request: p.Request) -> bytearray:
    frame = encode_frame((request_id, request))
    if len(frame) > p.FRAME_BYTES_MAX:
        raise InvalidError(
            f"this request has {len(frame)} bytes; one has at most {p.FRAME_BYTES_MAX}: send smaller batches"
        )
    return frame
