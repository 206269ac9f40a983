"""One request on its way to a handler, and what a handler may give back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from ortoo.broker.budget import Share
from ortoo.broker.gate import AuthorizedLink
from ortoo.client import Queue
from ortoo.model.names import DEFAULT_NAMESPACE, TopicName

from .problems import Headers
from .services import HttpServices, Receive

JSON = b"application/json"
Send = Callable[[Any], Awaitable[None]]
Scope = dict[str, Any]


class InNamespace(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The query parameters that every route takes."""

    namespace: str = DEFAULT_NAMESPACE


class Answer:
    """An answer that is complete. `body` is what goes out, before any compression."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self, body: bytes, status: int = 200, content_type: bytes = JSON, headers: Headers | None = None
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = headers or []


class Streaming:
    """An answer that is made while it is sent, as fast as the client reads."""

    __slots__ = ("chunks", "content_type", "status")

    def __init__(self, chunks: AsyncIterator[bytes], content_type: bytes) -> None:
        self.chunks = chunks
        self.content_type = content_type
        self.status = 200


# A handler gives bytes (JSON already), a struct (to be written as JSON), None (204 No Content), or a whole answer.
Reply = bytes | msgspec.Struct | Answer | Streaming | None


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
    def is_gone(self) -> bool:
        """Whether the client has hung up already."""
        gone: bool = self.scope["state"]["connection"].is_gone
        return gone
