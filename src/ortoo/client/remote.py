"""The queue of a server, through our own protocol. `connect` gives the same interface as `open`.

What is asked while the connection is away waits for the next one; what was asked and not answered is asked again there.
That is safe: a lease that was not answered runs out, an ack may come twice, and everything else is numbered, so that the
server does it once (see `Once`).
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import deque
from typing import Any
from uuid import uuid4

import msgspec

from ortoo.model.answers import ANSWERS
from ortoo.model.commands import Command, Extend, Heartbeat, Lease, Leave, Once, Position, Publish, Run, Settle
from ortoo.model.errors import ClosedError, InvalidError, OrtooError, OutcomeUnknownError, UnavailableError
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.replies import LeasedRun, MessageInfo, MessageState, Page, Placed, Stats, TopicInfo, Trace
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame

from .address import Address
from .connection import Connection, connect_to
from .subscribing import RemoteSubscription

log = logging.getLogger("ortoo.client")

_NUMBERED_MAX = 512  # under way; fewer than the server remembers of one producer
_BYTES_MAX = 64 * 1024 * 1024
_CONNECT_SECONDS = 5.0
_BACKOFF_FIRST, _BACKOFF_MAX = 0.05, 2.0
_REPEATABLE = (Settle, Extend, Heartbeat, Leave)  # to do these twice is to do them once
_decoders = {kind: msgspec.msgpack.Decoder(answer) for kind, answer in (ANSWERS | p.QUESTIONS).items()}
_abandoned_decoder = msgspec.msgpack.Decoder(list[LeasedRun] | None)


class Pending:
    """A request that was not answered yet."""

    __slots__ = ("changes", "frame", "future", "sequence", "since", "was_sent")

    def __init__(
        self, frame: bytearray, future: asyncio.Future[msgspec.Raw], since: float, sequence: int | None, changes: bool
    ) -> None:
        self.frame = frame
        self.future = future
        self.since = since
        self.sequence = sequence
        self.changes = changes
        self.was_sent = False


class RemoteLink:
    """Satisfies Link. One connection at a time, to whichever of the servers answers."""

    def __init__(
        self, address: Address, token: str | None, tls: ssl.SSLContext | None, timeout: float, client: str
    ) -> None:
        self._address = address
        self._token = token
        self._tls = tls
        self._timeout = timeout
        self._client = client
        self._producer = uuid4().hex
        self._sequence = 0
        self._numbered: dict[int, None] = {}  # sequences not answered yet, oldest first
        self._id = 0
        self._pending: dict[int, Pending] = {}  # oldest first
        self._abandoned: set[int] = set()  # leases nobody waits for; what they get goes back
        self._bytes = 0
        self._line: deque[asyncio.Future[None]] = deque()  # who waits until less is under way
        self._subscriptions: dict[int, RemoteSubscription] = {}
        self._connection: Connection | None = None
        self._is_closed = True
        self._away_since = 0.0
        self._keeper: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._refusal: OrtooError = ClosedError(
            "the queue is not open yet; use it in `async with`, or await its open()"
        )

    # -- the connection

    async def open(self) -> None:
        """UnavailableError when none of the servers answers; later on, a server that is away is waited for."""
        if self._keeper is not None:
            return
        await self._connect()
        self._is_closed = False
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="ortoo-connection")

    async def close(self) -> None:
        if self._keeper is None:
            return
        self._is_closed = True
        self._refusal = ClosedError("the queue was closed")
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        self._keeper = None
        self._fail_all(self._refusal)
        while self._pending or self._line:  # each tells its caller
            self._admit()
            await asyncio.sleep(0)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connect(self) -> None:
        errors: list[OrtooError] = []
        for host, port in self._address.servers:
            try:
                connection = await connect_to(
                    host, port, self._tls, lambda: Connection(self._receive, self._on_lost), _CONNECT_SECONDS
                )
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await connection.greet(self._client, self._token)
            except TimeoutError:
                errors.append(UnavailableError(f"{host}:{port} took the connection and then said nothing"))
            except OrtooError as error:
                errors.append(error)
            else:
                self._begin(connection)
                return
        raise errors[0] if len(errors) == 1 else UnavailableError("; ".join(map(str, errors)))

    def _begin(self, connection: Connection) -> None:
        self._connection = connection
        self._lost.clear()
        self._abandoned.clear()  # the old connection took them with it
        for pending in self._pending.values():  # in the order they were asked
            self._send(pending)
        for request_id, subscription in self._subscriptions.items():
            self._subscribe(request_id, subscription)

    def _on_lost(self, connection: Connection, reason: OrtooError) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._away_since = asyncio.get_running_loop().time()
        self._lost.set()
        if not self._is_closed:
            log.warning("%s; connecting again to %s", reason, self._address)

    async def _keep(self) -> None:
        """Connects again whenever the connection is lost, and says a word when there was silence."""
        backoff = _BACKOFF_FIRST
        while True:
            if self._connection is not None:
                await self._watch(self._connection)
                backoff = _BACKOFF_FIRST
            try:
                await self._connect()
                log.info("connected to %s again", self._address)
            except OrtooError as error:
                self._give_up_old(error)
                await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
                backoff = min(2 * backoff, _BACKOFF_MAX)

    async def _watch(self, connection: Connection) -> None:
        """Returns when the connection is lost."""
        loop = asyncio.get_running_loop()
        while not self._lost.is_set():
            pause = connection.idle_seconds / 3
            try:
                async with asyncio.timeout(pause):
                    await self._lost.wait()
            except TimeoutError:
                if loop.time() - connection.heard > connection.idle_seconds:
                    connection.abort(UnavailableError("the server fell silent"))
                elif loop.time() - connection.heard >= pause:
                    connection.send(encode_frame((self._next_id(), p.Ping())))

    def _give_up_old(self, error: OrtooError) -> None:
        """Whoever has waited too long for a connection is told."""
        now = asyncio.get_running_loop().time()
        for request_id, pending in list(self._pending.items()):
            if now - max(pending.since, self._away_since) >= self._timeout:
                self._settle(request_id, _given_up(pending, error))
        if now - self._away_since >= self._timeout:
            for request_id, subscription in list(self._subscriptions.items()):
                del self._subscriptions[request_id]
                subscription.fail(error)

    def _fail_all(self, error: OrtooError) -> None:
        for request_id, pending in list(self._pending.items()):
            self._settle(request_id, _given_up(pending, error))
        for subscription in self._subscriptions.values():
            subscription.fail(error)
        self._subscriptions.clear()

    # -- asking

    def _next_id(self) -> int:
        self._id += 1
        return self._id

    async def _ask(self, request: p.Request, changes: bool = False) -> msgspec.Raw:
        """The body of the answer. What changes something stands in line while too much of that is under way."""
        if changes:
            await self._enter()
        if self._is_closed:
            raise self._refusal
        loop = asyncio.get_running_loop()
        request_id = self._next_id()
        request, sequence = self._numbered_once(request) if changes else (request, None)
        pending = Pending(self._encode(request_id, request), loop.create_future(), loop.time(), sequence, changes)
        self._pending[request_id] = pending
        self._bytes += len(pending.frame)
        if sequence is not None:
            self._numbered[sequence] = None
        self._send(pending)
        self._admit()
        try:
            return await pending.future
        except asyncio.CancelledError:
            if isinstance(request, Lease) and not request.auto_ack:
                self._abandoned.add(request_id)
            self._tell(p.Cancel(request_id))
            raise
        finally:
            self._forget(request_id)

    def _encode(self, request_id: int, request: p.Request) -> bytearray:
        frame = encode_frame((request_id, request))
        if len(frame) > p.FRAME_BYTES_MAX:
            raise InvalidError(
                f"this request has {len(frame)} bytes; one has at most {p.FRAME_BYTES_MAX}: send smaller batches"
            )
        return frame

    def _numbered_once(self, request: Any) -> tuple[p.Request, int | None]:
        """Numbers what must not happen twice when it is sent again."""
        if isinstance(request, _REPEATABLE):
            return request, None
        self._sequence += 1
        sequence = self._sequence
        done_below = next(iter(self._numbered), sequence)
        if isinstance(request, p.PublishOrWait):
            once = Once(self._producer, sequence, done_below, request.publish)  # type: ignore[arg-type]
            return p.PublishOrWait(once, request.wait_ms), sequence
        return Once(self._producer, sequence, done_below, request), sequence

    async def _enter(self) -> None:
        if self._line or self._is_crowded():
            place = asyncio.get_running_loop().create_future()
            self._line.append(place)
            try:
                await place
            finally:
                self._line.remove(place)
                self._admit()

    def _is_crowded(self) -> bool:
        return len(self._numbered) >= _NUMBERED_MAX or self._bytes >= _BYTES_MAX

    def _admit(self) -> None:
        """The first in line, who stays there until he has gone in: nobody overtakes."""
        if self._line and not self._line[0].done() and (self._is_closed or not self._is_crowded()):
            self._line[0].set_result(None)

    def _send(self, pending: Pending) -> None:
        if self._connection is not None:
            pending.was_sent = True
            self._connection.send(pending.frame)

    def _forget(self, request_id: int) -> None:
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            self._bytes -= len(pending.frame)
            if pending.sequence is not None:
                self._numbered.pop(pending.sequence, None)
            self._admit()

    def _settle(self, request_id: int, outcome: msgspec.Raw | OrtooError) -> None:
        pending = self._pending.get(request_id)
        if pending is not None and not pending.future.done():
            if isinstance(outcome, OrtooError):
                pending.future.set_exception(outcome)
            else:
                pending.future.set_result(outcome)

    def _receive(self, kind: int, request_id: int, body: msgspec.Raw) -> None:
        subscription = self._subscriptions.get(request_id)
        if kind == p.DELIVERY:
            if subscription is not None:
                subscription.deliver(p.decode_from_server(p.delivery_decoder, body))
            return
        outcome: msgspec.Raw | OrtooError = body
        if kind == p.ERROR:
            outcome = p.to_error(p.decode_from_server(p.problem_decoder, body))
            if isinstance(outcome, ClosedError) and self._connection is not None:
                self._connection.abort(outcome)  # it is stopping: what was asked is asked of the next
                return
        if subscription is not None:
            del self._subscriptions[request_id]
            subscription.fail(outcome if isinstance(outcome, OrtooError) else None)
        elif request_id in self._abandoned:
            self._abandoned.discard(request_id)
            if kind == p.ANSWER:
                self._give_back(body)
        else:
            self._settle(request_id, outcome)

    def _give_back(self, body: msgspec.Raw) -> None:
        """The lease was granted in the moment it was cancelled."""
        runs: list[LeasedRun] | None = p.decode_from_server(_abandoned_decoder, body)
        if runs:
            given = [Run(t.topic_id, t.group_id, t.lease, t.partition, t.offsets) for t in (run.taken for run in runs)]
            self._tell(Settle("release", given))

    # -- what a Queue asks of its link

    async def call(self, command: Command) -> Any:
        return self._decode(type(command), await self._ask(command, changes=True))

    async def publish(self, command: Publish, wait_ms: int = 0) -> Placed:
        request = p.PublishOrWait(command, wait_ms) if wait_ms else command
        placed: Placed = self._decode(Publish, await self._ask(request, changes=True))
        return placed

    async def lease(self, command: Lease) -> list[LeasedRun]:
        runs: list[LeasedRun] = self._decode(Lease, await self._ask(command))
        return runs

    def subscribe(self, command: Lease, credit: int) -> RemoteSubscription:
        request_id = self._next_id()
        subscription = RemoteSubscription(
            command,
            credit,
            grant=lambda more: self._tell(p.Credit(request_id, more)),
            end=lambda: self._tell(p.Unsubscribe(request_id)),
        )
        if self._is_closed:
            subscription.fail(self._refusal)
        else:
            self._subscriptions[request_id] = subscription
            self._subscribe(request_id, subscription)
        return subscription

    def _subscribe(self, request_id: int, subscription: RemoteSubscription) -> None:
        if self._connection is None:
            return
        if subscription.is_ending:
            subscription.fail(None)
        elif subscription.credit > 0:
            self._connection.send(encode_frame((request_id, p.Subscribe(subscription.command, subscription.credit))))

    def _tell(self, request: p.Request) -> bool:
        """Says what needs no answer. False when there is no connection."""
        if self._connection is None:
            return False
        self._connection.send(encode_frame((0, request)))
        return True

    async def topics(self, namespace: str | None = None) -> list[TopicInfo]:
        found: list[TopicInfo] = await self._question(p.ListTopics(namespace))
        return found

    async def topic(self, name: TopicName) -> TopicInfo:
        found: TopicInfo = await self._question(p.GetTopic(name))
        return found

    async def stats(self) -> Stats:
        found: Stats = await self._question(p.GetStats())
        return found

    async def scan(
        self, name: TopicName, partition: int, start: Position, until: Position | None = None, count: int = 1000
    ) -> Page:
        found: Page = await self._question(p.Scan(name, partition, start, until, count))
        return found

    async def message(self, ref: MessageRef) -> MessageInfo:
        found: p.MessageFound = await self._question(p.GetMessage(ref))
        return MessageInfo(found.page.to_messages()[0], found.states)

    async def messages(self, name: TopicName, group: str, state: MessageState, count: int = 100) -> list[Page]:
        found: list[Page] = await self._question(p.ListMessages(name, group, state, count))
        return found

    async def trace(self, ref: MessageRef) -> Trace:
        found: Trace = await self._question(p.GetTrace(ref))
        return found

    async def _question(self, question: p.Question) -> Any:
        return self._decode(type(question), await self._ask(question))

    def _decode(self, kind: type, body: msgspec.Raw) -> Any:
        return p.decode_from_server(_decoders[kind], body)


def _given_up(pending: Pending, error: OrtooError) -> OrtooError:
    if pending.was_sent and pending.changes:
        return OutcomeUnknownError(f"the server went away before it answered ({error}); it may have happened or not")
    return error if isinstance(error, UnavailableError) else UnavailableError(str(error))
