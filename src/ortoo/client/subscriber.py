"""One who gets every message of a topic from now on: a group of its own, which lives as long as its loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from uuid import uuid4

from ortoo.model.errors import NotFoundError, OrtooError, UnavailableError
from ortoo.model.message import Received
from ortoo.model.names import TopicId

from .admin import Admin, Where

log = logging.getLogger("ortoo.client")

_THINKING_SECONDS = 3600.0  # how long it may think about a message and still be there


class Subscriber:
    """`consume` gives the messages of a group, `beat` is the time between signs of life, in seconds."""

    def __init__(
        self,
        admin: Admin,
        topic: str,
        namespace: str | None,
        consume: Callable[[str], AsyncIterator[Received]],
        beat: float,
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._namespace = namespace
        self._consume = consume
        self._beat = beat
        self._group = f"subscriber-{uuid4().hex}"
        self._newest = -1  # when the newest message that came was published, and which are of that very millisecond
        self._seen: set[tuple[TopicId, int, int]] = set()
        self._turns = 0  # messages handed out

    async def begin(self) -> None:
        """From now on; or, when it had begun before, from its newest message on."""
        is_first = self._newest < 0
        at: Where | None = "new" if is_first else None
        since = None if is_first else self._newest / 1000
        await self._admin.create_group(
            self._topic, self._group, at, time=since, ephemeral=True, namespace=self._namespace
        )
        await self._say_it_is_there()

    async def messages(self) -> AsyncGenerator[Received, None]:
        beating = asyncio.ensure_future(self._keep_subscribed())
        try:
            while True:
                try:
                    async for message in self._consume(self._group):
                        if self._is_new(message):
                            self._turns += 1
                            yield message
                    return
                except NotFoundError:  # the server took its consumer for gone; a topic that is gone ends it here
                    await self.begin()
                    where = "now" if self._newest < 0 else "its newest message"
                    log.warning("the subscription to %r was lost, and is made again from %s on", self._topic, where)
        finally:
            beating.cancel()
            try:
                await self._admin.delete_group(self._topic, self._group, namespace=self._namespace)
            except (NotFoundError, UnavailableError):
                pass  # gone with its topic, or with the queue

    def _is_new(self, message: Received) -> bool:
        """Not of those that come again because the group was made again."""
        place = (message.delivery.topic_id, message.partition, message.offset)
        if message.timestamp_ms > self._newest:
            self._newest, self._seen = message.timestamp_ms, {place}
        elif message.timestamp_ms == self._newest:
            if place in self._seen:
                return False
            self._seen.add(place)
        return True

    async def _keep_subscribed(self) -> None:
        """Says that it is there while it thinks about one message: a server that was started again since it said so does not
        know."""
        before = 0
        while True:
            await asyncio.sleep(self._beat)
            if self._turns == before:
                try:
                    await self._say_it_is_there()
                except OrtooError:
                    pass  # the next lease tells what is wrong
            before = self._turns

    async def _say_it_is_there(self) -> None:
        await self._admin.heartbeat(
            self._topic, self._group, self._group, session=_THINKING_SECONDS, namespace=self._namespace
        )
