"""The link to a server, through our own protocol. It connects again by itself; see requests.py for what that means.

What is asked while the server is away waits for it, for `timeout` seconds; then the callers are told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import msgspec

from ortoo.model.commands import AnyCommand, Lease, Publish
from ortoo.model.errors import ClosedError, OrtooError, UnauthenticatedError, UnavailableError
from ortoo.model.operations import answer_decoder
from ortoo.model.queries import Query
from ortoo.model.replies import LeasedRun, Placed
from ortoo.wire import protocol as p

from .address import Address
from .connection import Connection, connect_to
from .forking import keep, refusal
from .requests import Requests
from .subscribing import RemoteSubscription
from .tls import Contexts

log = logging.getLogger("ortoo.client")

_CONNECT_SECONDS = 5.0
_BACKOFF_FIRST, _BACKOFF_MAX = 0.05, 2.0
_PINGS_PER_SILENCE = 3  # before a server is taken for gone
_jitter = Random()  # noqa: S311  pauses, not secrets; of our own: a program's seeded `random` is not ours to advance
_CONSUMERS_MAX = 50  # that a hello names; those used last

A = TypeVar("A")


class RemoteLink:
    """Satisfies Link. One connection at a time, to whichever of the servers answers."""

    def __init__(
        self, address: Address, token: Callable[[], str | None], tls: Contexts | None, timeout: float, client: str
    ) -> None:
        self._address = address
        self._token = token
        self._tls = tls
        self._timeout = timeout
        self._client = client
        self._presented: str | None = None
        self._requests = Requests(self._send)
        self._requests.refusal = ClosedError("the queue is not open yet; use it in `async with`, or await its open()")
        self._subscriptions: dict[int, RemoteSubscription] = {}
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._consumers: dict[str, None] = {}  # that leases were asked for, the one used last at the end
        self._lost = asyncio.Event()
        self._loss: OrtooError | None = None  # of a connection through which nothing was heard
        self._is_heard = False
        self._away_since = 0.0
        self._backoff = _BACKOFF_FIRST

    # -- the connection

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    async def open(self) -> None:
        """UnavailableError when none of the servers answers; later on, a server that is away is waited for."""
        if self._keeper is None:
            self._away_since = asyncio.get_running_loop().time()
            await self._connect()
            self._requests.refusal = None
            self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="ortoo-connection")

    async def close(self) -> None:
        if self._keeper is None:
            return
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        self._keeper = None
        closed = ClosedError("the queue was closed")
        self._end_subscriptions(closed)
        await self._requests.close(closed)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _forked(self) -> None:
        """In a child process: the connection is the parent's, and nothing may be said through it."""
        keep(self._connection, self._keeper, self._requests)
        self._connection = self._keeper = None
        self._lost = asyncio.Event()
        self._requests = Requests(self._send)  # another producer, who numbers what it asks by itself
        self._requests.refusal = refusal()
        self._end_subscriptions(refusal())

    async def _connect(self) -> None:
        self._presented = self._token()
        hello = p.Hello(p.PROTOCOL, self._client, self._presented, list(self._consumers))
        errors: list[OrtooError] = []
        for host, port in self._address.servers:
            try:
                connection = await connect_to(
                    host,
                    port,
                    self._tls() if self._tls is not None else None,
                    lambda: Connection(self._receive, self._on_lost),
                    _CONNECT_SECONDS,
                )
                await connection.greet(hello, _CONNECT_SECONDS)
            except OrtooError as error:
                errors.append(error)
            else:
                self._begin(connection)
                return
        raise errors[0] if len(errors) == 1 else UnavailableError("; ".join(map(str, errors)))

    def _begin(self, connection: Connection) -> None:
        self._connection = connection
        self._is_heard = False
        self._lost.clear()
        self._requests.send_again()
        for request_id, subscription in list(self._subscriptions.items()):
            self._subscribe(request_id, subscription)

    def _on_lost(self, connection: Connection, reason: OrtooError) -> None:
        if connection is self._connection:
            self._connection = None
            self._lost.set()
            self._loss = None if self._is_heard else reason
            if self._is_heard:  # else it is as if it had never been there
                silent_since = connection.heard if connection.is_given_up else None
                self._away_since = silent_since or asyncio.get_running_loop().time()
                self._backoff = _BACKOFF_FIRST
            log.warning("%s; connecting again to %s", reason, self._address)

    async def _keep(self) -> None:
        """Connects again whenever the connection is lost."""
        while True:
            if self._connection is not None:
                await self._watch(self._connection)
            error = self._loss or await self._connect_again()
            self._loss = None
            if error is not None:
                self._give_up(error)
                await asyncio.sleep(self._backoff * _jitter.uniform(0.5, 1.0))
                self._backoff = min(2 * self._backoff, _BACKOFF_MAX)

    async def _connect_again(self) -> OrtooError | None:
        try:
            await self._connect()
        except OrtooError as error:
            return error
        log.info("connected to %s again", self._address)
        return None

    async def _watch(self, connection: Connection) -> None:
        """Says a word now and then, for the server to know that we are there; returns when the connection is lost."""
        loop = asyncio.get_running_loop()
        pause = connection.idle_seconds / _PINGS_PER_SILENCE
        while not self._lost.is_set():
            due = min(loop.time() + pause, connection.silent_at)
            try:
                async with asyncio.timeout_at(due):
                    await self._lost.wait()
            except TimeoutError:
                connection.missed += max(0.0, loop.time() - max(due, connection.heard))
                if connection.silent_at <= loop.time():
                    connection.give_up()
                    await self._lost.wait()
                else:
                    self._requests.tell(p.Ping(), self._requests.next_id())

    def _give_up(self, error: OrtooError) -> None:
        """Whoever has waited too long for a connection is told."""
        patient_since = asyncio.get_running_loop().time() - self._timeout
        if self._away_since <= patient_since:
            self._requests.give_up(error, patient_since)
            self._end_subscriptions(error)

    def _end_subscriptions(self, error: OrtooError) -> None:
        for subscription in self._subscriptions.values():
            subscription.end(error)
        self._subscriptions.clear()

    def _send(self, frame: bytearray) -> bool:
        if self._connection is None:
            return False
        self._connection.send(frame)
        return True

    def _receive(self, kind: int, request_id: int, body: msgspec.Raw) -> None:
        subscription = self._subscriptions.get(request_id)
        if kind == p.DELIVERY:
            self._is_heard = True
            if subscription is not None:
                subscription.deliver(p.decode_from_server(p.delivery_decoder, body))
            return
        error = p.to_error(p.decode_from_server(p.problem_decoder, body)) if kind == p.ERROR else None
        if isinstance(error, ClosedError) and self._connection is not None:
            self._connection.abort(error)  # it is stopping: what was asked is asked of the next
            return
        self._is_heard = True
        if isinstance(error, UnauthenticatedError) and self._connection is not None and self._is_renewed():
            self._connection.abort(error)  # nothing was done: it is asked again, with the new token
            return
        if subscription is not None:
            del self._subscriptions[request_id]
            subscription.end(error)
        else:
            self._requests.answer(request_id, error or body)

    def _is_renewed(self) -> bool:
        """Whether there is another token by now than the one that this connection presented."""
        try:
            return self._token() != self._presented
        except OrtooError:  # the file is not there, or empty, at this moment
            return False

    # -- what a Queue asks of its link

    async def call(self, command: AnyCommand) -> Any:
        return _decode(type(command), await self._requests.ask(command, changes=True))

    async def publish(self, command: Publish, wait_ms: int = 0) -> Placed:
        request = p.PublishOrWait(command, wait_ms) if wait_ms else command
        placed: Placed = _decode(Publish, await self._requests.ask(request, changes=True))
        return placed

    async def lease(self, command: Lease) -> list[LeasedRun]:
        self._note_consumer(command.consumer)
        runs: list[LeasedRun] = _decode(Lease, await self._requests.ask(command))
        return runs

    def _note_consumer(self, consumer: str) -> None:
        """The next server has to know whose leases are not given up."""
        self._consumers.pop(consumer, None)
        self._consumers[consumer] = None
        if len(self._consumers) > _CONSUMERS_MAX:
            del self._consumers[next(iter(self._consumers))]

    def subscribe(self, command: Lease, credit: int) -> RemoteSubscription:
        self._note_consumer(command.consumer)
        request_id = self._requests.next_id()
        subscription = RemoteSubscription(
            command,
            credit,
            tell_credit=lambda more: self._grant(request_id, more),
            tell_end=lambda: self._unsubscribe(request_id),
        )
        if self._requests.refusal is not None:
            subscription.end(self._requests.refusal)
        else:
            self._subscriptions[request_id] = subscription
            self._subscribe(request_id, subscription)
        return subscription

    def _grant(self, request_id: int, credit: int) -> None:
        subscription = self._subscriptions[request_id]
        if subscription.is_known:
            self._requests.tell(p.Credit(request_id, credit))
        else:
            self._subscribe(request_id, subscription)

    def _unsubscribe(self, request_id: int) -> bool:
        """Whether an answer will come."""
        if self._subscriptions[request_id].is_known and self._requests.tell(p.Unsubscribe(request_id)):
            return True
        del self._subscriptions[request_id]
        return False

    def _subscribe(self, request_id: int, subscription: RemoteSubscription) -> None:
        """Tells the server of it, or one of the next servers once there is something to grant."""
        subscription.is_known = False
        if subscription.is_ending:  # the connection took it with it
            del self._subscriptions[request_id]
            subscription.end(None)
        elif subscription.credit > 0:
            request = p.Subscribe(subscription.command, subscription.credit)
            subscription.is_known = self._requests.tell(request, request_id)

    async def ask(self, query: Query[A]) -> A:
        found: A = _decode(type(query), await self._requests.ask(query))  # type: ignore[arg-type]  # one of the union
        return found


def _decode(kind: type, body: msgspec.Raw) -> Any:
    return p.decode_from_server(answer_decoder(kind), body)
