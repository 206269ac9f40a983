"""One connection: hello, then requests, each answered when it is done, in whatever order that is.

Reading stops while too much is under way (requests, their bytes, answers the client does not read), so that TCP itself
tells the client to wait. A connection that ends takes its long polls with it; what they had just leased goes back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

from ortoo.broker.addresses import Visit
from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.budget import Share
from ortoo.broker.gate import Gate
from ortoo.broker.presence import Consumers, Presence
from ortoo.broker.subscription import Subscription
from ortoo.doors.peer import address_of, peer_certificate
from ortoo.doors.unsent import unsent
from ortoo.model import limits
from ortoo.model.checks import check_command
from ortoo.model.commands import Lease, Settle
from ortoo.model.errors import CapacityError, InvalidError, OrtooError, ProtocolError, TooManyError
from ortoo.model.queries import Query
from ortoo.model.replies import LeasedRun
from ortoo.model.runs import runs_of
from ortoo.wire import protocol as p
from ortoo.wire.frames import Splitter, encode_frame
from ortoo.wire.outbox import Outbox

from .answer import answer
from .cutting import Cutter
from .errors import HTTP_METHODS, NOT_HTTP, problem_of
from .hello import read_hello

REQUESTS_MAX = 2_048  # under way on one connection; who waits for messages does not count
BYTES_MAX = 128 * 1024 * 1024  # of them
WAITING_BYTES = 2_048  # what a publish that waits weighs beside what it brings; so many small ones would weigh nothing
SUBSCRIPTIONS_MAX = 10_000  # of one connection
POLLS_MAX = 10_000  # leases and publishes of one connection that wait
CREDIT_MAX = 1_000_000
HELLO_SECONDS = 10.0
IDLE_SECONDS = 30.0
BODIES_PER_TURN = 256  # frames taken in one turn of the event loop; the others follow in later turns
PROGRESS_BYTES = 64 * 1024  # of a frame that is not whole yet: so many more are a sign of life, fewer are none


class TcpServices(Protocol):
    """What a session needs of the door it belongs to."""

    gate: Gate
    presence: Presence
    server: str  # what it calls itself
    cutter: Cutter
    stalled: set[Session]  # those that have stopped reading

    def begun(self, session: Session) -> None: ...
    def ended(self, session: Session) -> None: ...


class Session(asyncio.Protocol):
    def __init__(self, services: TcpServices) -> None:
        self._services = services
        self._gate = services.gate
        self._splitter = Splitter(p.HELLO_BYTES_MAX)
        self._bodies: deque[memoryview] = deque()  # of whole frames that wait for their turn
        self._waiting = 0  # bytes of them
        self._is_due = False  # their turn will come
        self._is_held_up = False  # a heavy one waits for its own, and nothing overtakes it
        self._is_reading = True
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until the connection is made
        self._link: AuthorizedLink | None = None
        self._visit: Visit = None  # type: ignore[assignment]  # until it was let in
        self._is_fresh = True  # nothing was heard yet
        self._is_leaving = False  # goodbye was said
        self._tasks: set[asyncio.Task[None]] = set()
        self._polls: dict[int, asyncio.Task[None]] = {}  # by request: those that may wait long and can be cut short
        self._subscriptions: dict[int, Subscription] = {}
        self._share = Share(self._gate.budget, self.regulate, self._cut)
        self._held = 0  # of the share: frames that are not whole yet, or wait for their turn
        self._unheard = 0  # bytes of it since the last sign of life
        self._unread = 0  # bytes of answers that the client had not taken when last looked at
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = asyncio.Lock()  # large answers are made one at a time, as the client takes them
        self.heard = asyncio.get_running_loop().time()

    # -- the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self.peer = peer_certificate(transport)
        self._outbox = Outbox(asyncio.get_running_loop().call_soon, self._transport.write)
        self._services.begun(self)
        try:
            self._visit = self._gate.enter(address_of(transport))
        except OrtooError as error:
            self._end(error)  # the gate has logged it

    def eof_received(self) -> None:
        """Nobody is there to take what polls would lease."""
        self._is_leaving = True
        self._services.cutter.cut(self._polls.values())

    def connection_lost(self, error: Exception | None) -> None:
        self._is_leaving = True
        self._services.cutter.cut(self._tasks)
        self._share.give_back(self._held)
        self._share.leave()
        if self._visit is not None:
            self._visit.leave()
        if self._link is not None:
            self._consumers.went()
            self._link.disconnect()
        self._services.ended(self)

    def data_received(self, data: bytes) -> None:
        if self._is_leaving:
            return  # the client asks again, elsewhere or later
        if self._is_fresh and data.startswith(HTTP_METHODS):
            self._transport.write(NOT_HTTP)
            self._leave()
            return
        self._is_fresh = False
        try:
            bodies = self._splitter.feed(data)
        except OrtooError as error:
            self._end(error)
            return
        self._note_progress(len(data), is_whole=bool(bodies))
        self._bodies.extend(bodies)
        self._waiting += sum(map(len, bodies))
        if not self._is_due:
            self._take_bodies()

    def _take_bodies(self) -> None:
        """Some of them, so that many small ones keep nobody waiting; nothing more is read before all are taken."""
        self._is_due = False
        if self._is_leaving:
            return
        try:
            for _ in range(min(BODIES_PER_TURN, len(self._bodies))):
                if self._is_held_up:
                    break
                body = self._bodies.popleft()
                self._waiting -= len(body)
                self._receive(body)
            self._hold(self._splitter.held + self._waiting)
        except OrtooError as error:
            self._end(error)
        self.regulate()

    def _hold(self, size: int) -> None:
        """Of frames that are not whole yet, or wait for their turn, so much is here."""
        change, self._held = size - self._held, size
        if change > 0:
            self._share.take(change)
        elif change < 0:
            self._share.become(-change)

    def _note_progress(self, size: int, is_whole: bool) -> None:
        self._unheard += size
        if self._link is not None and (is_whole or self._unheard >= PROGRESS_BYTES):  # a hello has to be whole in time
            self.heard = asyncio.get_running_loop().time()
            self._unheard = 0
        if is_whole:
            self._share.expect(False)  # what comes after it is begun anew

    def pause_writing(self) -> None:
        self._writable.clear()
        self.regulate()

    def resume_writing(self) -> None:
        self._writable.set()
        self.regulate()

    def regulate(self) -> None:
        """Reads on, or stops reading, as there is room."""
        if self._transport.is_closing():
            return
        is_busy = (
            len(self._tasks) - len(self._polls) >= REQUESTS_MAX
            or self._share.bytes - self._held >= BYTES_MAX
            or not self._writable.is_set()
        )
        self._share.expect(self._splitter.held > 0 and not self._bodies and not is_busy)
        is_crowded = is_busy or not self._share.may_go_on()
        if is_crowded:
            self._services.stalled.add(self)
        else:
            self._services.stalled.discard(self)
        if self._is_reading != (not is_crowded and not self._bodies):
            self._is_reading = not self._is_reading
            (self._transport.resume_reading if self._is_reading else self._transport.pause_reading)()
        if self._bodies and not is_crowded and not self._is_due and not self._is_held_up:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._take_bodies)

    def _cut(self) -> None:
        """Others need what is held here, and the rest does not come."""
        self._end(self._share.crowded())

    def _end(self, error: OrtooError) -> None:
        """The one error after which there is no going on."""
        self._send(p.ERROR, 0, p.to_problem(error))
        self._leave()

    def _leave(self) -> None:
        self._is_leaving = True
        self._close()

    def _close(self) -> None:
        self._outbox.flush()
        self._transport.close()

    def _send(self, kind: int, request_id: int, body: Any) -> None:
        if self._transport.is_closing():
            return
        frame = encode_frame((kind, request_id, body))
        if len(frame) > p.FRAME_BYTES_MAX:
            raise InvalidError(f"the answer has {len(frame)} bytes, at most {p.FRAME_BYTES_MAX} fit; ask for less")
        self._outbox.put(frame)

    # -- requests

    def _receive(self, body: memoryview) -> None:
        if self._link is None:
            self._greet(body)
            return
        try:
            request_id, request = p.decode_request(body)
        except p.RefusedRequestError as error:
            self._send(p.ERROR, error.id, p.to_problem(error.reason))
            return
        match request:
            case p.Hello():
                raise ProtocolError("hello is said once")
            case p.Credit():
                self._grant(request)
            case p.Unsubscribe(cut) | p.Cancel(cut):
                if cut in self._polls:
                    self._polls[cut].cancel()
            case p.Subscribe():
                self._subscribe(request_id, request)
            case _:
                self._serve(request_id, request, len(body))

    def _greet(self, body: memoryview) -> None:
        request_id, hello = read_hello(body)
        self._visit.ask()
        self._link = self._gate.connect(hello.token, address_of(self._transport), self.peer)
        self.heard = asyncio.get_running_loop().time()
        self._splitter.bytes_max = p.FRAME_BYTES_MAX
        self._consumers = Consumers(self._services.presence, self._link.who)
        self._consumers.note_known(hello.consumers)
        welcome = p.Welcome(p.PROTOCOL, self._services.server, p.FRAME_BYTES_MAX, round(IDLE_SECONDS * 1000))
        self._send(p.ANSWER, request_id, welcome)

    def is_silent(self, now: float, late: float) -> bool:
        """`late`: so much later than it should does the server look. What was sent to it meanwhile may not be read yet."""
        self.heard = min(now, self.heard + late)
        unread = unsent(self._transport)
        if self in self._services.stalled and (self._writable.is_set() or unread != self._unread):
            self.heard = now  # it is we who do not listen; or it is busy taking what it asked for
        self._unread = unread
        return now - self.heard > (HELLO_SECONDS if self._link is None else IDLE_SECONDS)

    def reassure(self) -> None:
        """A ping behind a large frame, or before a door that does not read, is not answered in time: it is told otherwise."""
        is_busy = self in self._services.stalled or self._held > 0
        if self._link is not None and is_busy and self._writable.is_set():
            self._send(p.ANSWER, 0, None)

    def _serve(self, request_id: int, request: p.Request, size: int) -> None:
        assert self._link is not None
        may_wait = isinstance(request, Lease | p.PublishOrWait) and request.wait_ms > 0
        try:
            if type(request) is not p.Ping:
                self._visit.ask()
            if may_wait and len(self._polls) - len(self._subscriptions) >= POLLS_MAX:
                raise TooManyError(f"{POLLS_MAX} requests of this connection wait already; open another")
        except CapacityError as error:
            self._send(p.ERROR, request_id, p.to_problem(error))
            return
        if isinstance(request, p.PublishOrWait):
            size += WAITING_BYTES
        self._share.take(size)
        if self._link.is_heavy(request):
            self._is_held_up = True
            self._link.line_up(request, lambda: self._go_on(request_id, request, size))
        else:
            self._start(request_id, self._answer(request_id, request, size), may_wait, size)

    def _go_on(self, request_id: int, request: p.Request, size: int) -> None:
        self._is_held_up = False
        if self._is_leaving:  # the client asks again, elsewhere or later
            self._share.give_back(size)
            return
        self._start(request_id, self._answer(request_id, request, size), False, size)
        if self._bodies:
            self.regulate()

    async def _answer(self, request_id: int, request: p.Request, size: int) -> None:
        assert self._link is not None
        try:
            if isinstance(request, Query) or (isinstance(request, Lease) and not request.wait_ms):
                async with self._reading:
                    await self._writable.wait()
                    made = await answer(self._link, request, self._share, size, self._consumers.note)
                    self._send(p.ANSWER, request_id, made)
            elif isinstance(request, Lease):
                await self._writable.wait()
                runs = await answer(self._link, request, self._share, size, self._consumers.note)
                await self._hand_over(p.ANSWER, request_id, request, runs)
            else:
                self._send(p.ANSWER, request_id, await answer(self._link, request, self._share, size))
        except Exception as error:  # whatever it is, the client is told and the connection lives on
            self._send(p.ERROR, request_id, problem_of(error))

    async def _hand_over(self, kind: int, request_id: int, lease: Lease, runs: list[LeasedRun]) -> None:
        """What was leased; it goes back when it comes too late, because not everything is cut short at once."""
        assert self._link is not None
        if runs and self._transport.is_closing() and not lease.auto_ack:
            await self._link.call(Settle("release", runs_of(run.taken for run in runs)))
        else:
            self._send(kind, request_id, runs)

    def _start(self, request_id: int, work: Coroutine[Any, Any, None], may_wait: bool, size: int) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        if may_wait:
            self._polls.setdefault(request_id, task)
        task.add_done_callback(lambda done: self._finished(request_id, size, done))

    def _finished(self, request_id: int, size: int, task: asyncio.Task[None]) -> None:
        """However it ended. One that is cut short before it has begun comes here, too, and only here."""
        self._tasks.discard(task)
        if self._polls.get(request_id) is task:
            del self._polls[request_id]
            self._subscriptions.pop(request_id, None)
        if task.cancelled() and not self._is_leaving:
            self._send(p.ANSWER, request_id, None)  # the client said so
        self._share.give_back(size)
        if self in self._services.stalled:
            self.regulate()

    # -- subscriptions

    def _subscribe(self, request_id: int, request: p.Subscribe) -> None:
        assert self._link is not None
        try:
            self._visit.ask()
            check_command(request.lease)
            if request_id in self._polls or not 1 <= request.credit <= CREDIT_MAX:
                raise InvalidError(f"a subscription needs an id of its own and a credit of 1 to {CREDIT_MAX}")
            if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
                raise TooManyError(f"a connection has at most {SUBSCRIPTIONS_MAX} subscriptions; open another")
            self._link.check(request.lease)
        except OrtooError as error:
            self._send(p.ERROR, request_id, p.to_problem(error))
            return
        subscription = self._link.subscribe(request.lease, request.credit, self._consumers.note)
        self._subscriptions[request_id] = subscription
        delivering = self._deliver(request_id, request.lease, subscription)
        self._start(request_id, delivering, may_wait=True, size=0)

    def _grant(self, request: p.Credit) -> None:
        if request.subscription in self._subscriptions:  # else it has just ended
            if not 1 <= request.credit <= CREDIT_MAX:
                raise ProtocolError(f"credit is granted in 1 to {CREDIT_MAX}, not {request.credit}")
            self._subscriptions[request.subscription].grant(request.credit)

    async def _deliver(self, request_id: int, lease: Lease, subscription: Subscription) -> None:
        try:
            while not self._transport.is_closing():
                await self._writable.wait()
                runs = await subscription.next(limits.WAIT_MS_MAX)
                if runs:
                    await self._hand_over(p.DELIVERY, request_id, lease, runs)
        except Exception as error:  # as above: it ends the subscription and nothing else
            self._send(p.ERROR, request_id, problem_of(error))

    # -- the end

    async def drain(self) -> None:
        """Says goodbye and finishes what was begun; who waits is sent home."""
        self._is_leaving = True
        self._send(p.GOODBYE, 0, None)
        self._services.cutter.cut(self._polls.values())
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._close()

    def abort(self) -> None:
        self._is_leaving = True
        self._transport.abort()
