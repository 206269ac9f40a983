"""Where the answers to requests come in: a topic of this handle's own, beside those it asks, gone with the handle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol
from uuid import uuid4

from ortoo.model.errors import ClosedError, NoReplyError, OrtooError
from ortoo.model.message import CORRELATION_ID, REPLY_TO, Message, Received
from ortoo.model.names import INBOX_LABELS


class Asking(Protocol):
    """What an inbox needs of its queue."""

    async def create_topic(self, topic: str, /, **settings: Any) -> Any: ...
    async def delete_topic(self, topic: str, *, namespace: str) -> None: ...
    async def publish_many(self, topic: str, messages: list[Message], *, namespace: str) -> Any: ...
    def consume(self, topic: str, *, auto_ack: bool, namespace: str) -> AsyncIterator[Received]: ...


_SETTINGS: dict[str, Any] = {
    "partitions": 1,
    "ordering": "none",
    "dlq": False,
    "retention_seconds": 3600.0,
    "durability": "none",
    "labels": dict(INBOX_LABELS),
}


class Inbox:
    def __init__(self, queue: Asking, namespace: str) -> None:
        self._queue = queue
        self._namespace = namespace
        self._waiting: dict[str, asyncio.Future[Received]] = {}
        self._listener: asyncio.Task[None] | None = None
        self.topic = f"reply.{uuid4().hex}"

    async def ask(self, message: Message, topic: str, timeout: float) -> Received:
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name="ortoo-inbox")
            await self._queue.create_topic(self.topic, namespace=self._namespace, **_SETTINGS)
        correlation = uuid4().hex
        message.headers = {**(message.headers or {}), REPLY_TO: self.topic, CORRELATION_ID: correlation}
        future = self._waiting[correlation] = asyncio.get_running_loop().create_future()
        try:
            await self._queue.publish_many(topic, [message], namespace=self._namespace)
            return await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise NoReplyError(f"nobody answered the request to {topic!r} within {timeout} seconds") from None
        finally:
            self._waiting.pop(correlation, None)

    async def _listen(self) -> None:
        while True:
            try:
                async for reply in self._queue.consume(self.topic, auto_ack=True, namespace=self._namespace):
                    future = self._waiting.get(reply.correlation_id or "")
                    if future is not None and not future.done():
                        future.set_result(reply)
            except OrtooError:  # not made yet, or the link is away: the requests' own timeouts tell the callers
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ClosedError("the queue was closed before an answer came"))
            await self._queue.delete_topic(self.topic, namespace=self._namespace)
