"""One request on its way to a handler, and what all requests of a door share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.budget import Share
from ortoo.broker.gate import Gate
from ortoo.client import Queue
from ortoo.model.analytics import Report
from ortoo.model.message import Message, Received
from ortoo.model.names import DEFAULT_NAMESPACE, TopicName
from ortoo.model.peer import PeerCertificate
from ortoo.model.queries import GetMetrics
from ortoo.model.settings import HttpSettings

T = TypeVar("T")
# For somebody who may see only some topics, or for everybody.
Metrics = Callable[[AuthorizedLink | None, GetMetrics], Awaitable[bytes]]
Ready = Callable[[], str | None]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Scope = dict[str, Any]
ForeignSocket = Callable[[Scope, Receive, Send], Awaitable[None]]  # a WebSocket of another door


class ClientGone(Exception):
    """The client went away; there is nobody to answer."""


class Caller(Protocol):
    """The client's end of a request."""

    @property
    def receive(self) -> Receive: ...

    @property
    def is_gone(self) -> bool: ...


class Described(Protocol):
    """The description of the door, for programs and for people."""

    @property
    def json(self) -> bytes: ...

    @property
    def asyncapi(self) -> bytes: ...

    @property
    def html(self) -> bytes: ...


class Reported(Protocol):
    """What the analytics job found."""

    async def report(self) -> Report: ...


class ReplyInboxes(Protocol):
    """Where the answers to requests come in."""

    async def ask(
        self, link: AuthorizedLink, namespace: str, message: Message, topic: str, timeout: float
    ) -> Received: ...

    async def close(self) -> None: ...


class HttpServices:
    """The gate, the settings, the long polls that wait, and what else handlers need."""

    def __init__(
        self,
        gate: Gate,
        settings: HttpSettings,
        metrics: Metrics,
        ready: Ready,
        description: Described,
        analytics: Reported,
        inboxes: ReplyInboxes,
    ) -> None:
        self.gate = gate
        self.settings = settings
        self.metrics = metrics
        self.ready = ready
        self.description = description
        self.analytics = analytics
        self.inboxes = inboxes
        self.is_closing = False
        self._waiting: set[asyncio.Task[Any]] = set()

    async def wait_for(
        self, caller: Caller, work: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]]
    ) -> T | None:
        """Waits for work that may take long. None when the door closed first; ClientGone when the client left.

        `undo` takes back what was done for a client that had left by then.
        """
        task = asyncio.create_task(work)
        watch = asyncio.create_task(_until_gone(caller.receive))
        self._waiting.add(task)
        try:
            await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                raise ClientGone
            return None if task.cancelled() else task.result()
        finally:
            self._waiting.discard(task)
            watch.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
            if caller.is_gone and not task.cancelled() and task.exception() is None:
                await undo(task.result())

    def end_waiting(self) -> None:
        """Ends what waits; from now on nothing waits."""
        self.is_closing = True
        for task in self._waiting:
            task.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class SocketCall:
    """A WebSocket of a dialect that was let in, and not accepted yet. Its handler accepts it, and ends when it does."""

    __slots__ = ("link", "receive", "scope", "send", "services")

    def __init__(
        self, services: HttpServices, link: AuthorizedLink, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self.services = services
        self.link = link
        self.scope = scope
        self.receive = receive
        self.send = send


class InNamespace(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The query parameters that every route takes."""

    namespace: str = DEFAULT_NAMESPACE


class Call:
    """What a handler is given. `body` and `query` are of the types that its route declares."""

    __slots__ = ("body", "headers", "link", "params", "query", "receive", "scope", "services", "share")

    def __init__(self, services: HttpServices, scope: Scope, receive: Receive, headers: dict[bytes, bytes]) -> None:
        self.services = services
        self.scope = scope
        self.receive = receive
        self.headers = headers
        self.link: AuthorizedLink = None  # type: ignore[assignment] # until the caller was let in; open routes never look
        self.params: dict[str, str] = {}
        self.share: Share = None  # type: ignore[assignment] # of what all doors may hold; of a request that has a body
        self.query: Any = None
        self.body: Any = None

    @property
    def namespace(self) -> str:
        name: str = self.query.namespace
        return name

    @property
    def topic(self) -> TopicName:
        return TopicName(self.namespace, self.params["topic"])

    @property
    def queue(self) -> Queue:
        """The checked interface, for whatever is not worth a shortcut."""
        return Queue(self.link, namespace=self.namespace, consumer=self.consumer)

    @property
    def consumer(self) -> str:
        """The name of a consumer that gives none: the same for all requests of a connection."""
        name: str = self.scope["state"]["connection"].consumer
        return name

    @property
    def peer(self) -> PeerCertificate | None:
        """The certificate that the client has shown."""
        found: PeerCertificate | None = self.scope["state"]["peer"]
        return found

    @property
    def is_gone(self) -> bool:
        """Whether the client has hung up already."""
        gone: bool = self.scope["state"]["connection"].is_gone
        return gone

    def undo_unless_read(self, undo: Callable[[], Awaitable[None]]) -> None:
        """What to do if the client goes away before it can have read the whole answer."""
        self.scope["undo"] = undo
