"""Where the answers to requests come in: a topic of this handle's own, beside those it asks, gone with the handle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol
from uuid import uuid4

from ortoo.model.errors import ClosedError, NoReplyError, NotFoundError, OrtooError
from ortoo.model.message import CORRELATION_ID, REPLY_TO, Message, Received
from ortoo.model.names import INBOX_PREFIX
from ortoo.model.topic import INBOX_CONFIG, INBOX_SETTINGS


class Asking(Protocol):
    """What an inbox needs of its queue."""

    async def create_topic(self, topic: str, /, **settings: Any) -> Any: ...
    async def delete_topic(self, topic: str, *, namespace: str) -> None: ...
    async def publish_many(self, topic: str, messages: list[Message], *, namespace: str) -> Any: ...
    def consume(self, topic: str, *, auto_ack: bool, namespace: str) -> AsyncIterator[Received]: ...


_PAUSE_SECONDS = 0.1
_SETTINGS: dict[str, Any] = {name: getattr(INBOX_CONFIG, name) for name in INBOX_SETTINGS}


class Inbox:
    def __init__(self, queue: Asking, namespace: str) -> None:
        self._queue = queue
        self._namespace = namespace
        self._waiting: dict[str, asyncio.Future[Received]] = {}
        self._making: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self.topic = f"{INBOX_PREFIX}{uuid4().hex}"

    async def ask(self, message: Message, topic: str, timeout: float, asker: Asking | None = None) -> Received:
        """`asker`: in whose name the request is published, where that is not whose inbox it is."""
        if self._listener is None:
            await self._begin()
        correlation = uuid4().hex
        message.headers = {**(message.headers or {}), REPLY_TO: self.topic, CORRELATION_ID: correlation}
        future = self._waiting[correlation] = asyncio.get_running_loop().create_future()
        try:
            await (asker or self._queue).publish_many(topic, [message], namespace=self._namespace)
            return await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise NoReplyError(f"nobody answered the request to {topic!r} within {timeout} seconds") from None
        finally:
            self._waiting.pop(correlation, None)

    async def _begin(self) -> None:
        """Once for all who ask meanwhile. After a failure, whoever asks next tries again."""
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make())
            self._making.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._making)

    async def _make(self) -> None:
        await self._queue.create_topic(self.topic, namespace=self._namespace, **_SETTINGS)
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name="ortoo-inbox")

    async def _listen(self) -> None:
        while True:
            try:
                async for reply in self._queue.consume(self.topic, auto_ack=True, namespace=self._namespace):
                    future = self._waiting.get(reply.correlation_id or "")
                    if future is not None and not future.done():
                        future.set_result(reply)
            except NotFoundError:  # somebody deleted it, or the server took us for gone
                await self._make_again()
            except OrtooError:  # the link is away: the requests' own timeouts tell the callers
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _make_again(self) -> None:
        try:
            await self._make()
        except OrtooError:
            await asyncio.sleep(_PAUSE_SECONDS)

    async def close(self) -> None:
        begun = [task for task in (self._making, self._listener) if task is not None]
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        if begun:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ClosedError("the queue was closed before an answer came"))
            await self._queue.delete_topic(self.topic, namespace=self._namespace)
