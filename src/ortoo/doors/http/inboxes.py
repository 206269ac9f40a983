"""Where the answers to requests come in, for all callers of a door together."""

from __future__ import annotations

from typing import Any

from ortoo.broker.gate import Guest
from ortoo.client import Queue
from ortoo.client.inbox import Inbox
from ortoo.client.stream import Stream
from ortoo.model.batch import Outgoing, check_outgoing
from ortoo.model.commands import Publish
from ortoo.model.errors import OrtooError
from ortoo.model.message import Message, Received
from ortoo.model.names import TopicName


class JsonBytes(bytes):
    """A value that was sent as JSON, to be kept byte for byte."""


class _Asking:
    """The queue as an inbox sees it; what it publishes keeps its JSON as it came."""

    def __init__(self, guest: Guest, namespace: str) -> None:
        self._guest = guest
        self._queue = Queue(guest, namespace=namespace)

    async def create_topic(self, topic: str, /, **settings: Any) -> Any:
        return await self._queue.create_topic(topic, **settings)

    async def delete_topic(self, topic: str, *, namespace: str) -> None:
        await self._queue.delete_topic(topic, namespace=namespace)

    def consume(self, topic: str, *, auto_ack: bool, namespace: str) -> Stream[Received]:
        return self._queue.consume(topic, auto_ack=auto_ack, namespace=namespace)

    async def publish_many(self, topic: str, messages: list[Message], *, namespace: str) -> None:
        [message] = messages
        assert isinstance(message.value, bytes)
        batch = Outgoing(
            [bytes(message.value)],
            keys=None if message.key is None else [message.key],
            headers=[message.headers],
            ttls=[message.ttl],
            json=[True] if isinstance(message.value, JsonBytes) else None,
        )
        check_outgoing(batch)
        await self._guest.publish(Publish(TopicName(namespace, topic), batch))


class Inboxes:
    """One for each namespace, made with its first request; all callers share it."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._inboxes: dict[str, Inbox] = {}

    async def ask(self, namespace: str, message: Message, topic: str, timeout: float) -> Received:
        inbox = self._inboxes.get(namespace)
        if inbox is None:
            inbox = self._inboxes[namespace] = Inbox(_Asking(self._guest, namespace), namespace)
        return await inbox.ask(message, topic, timeout)

    async def close(self) -> None:
        for inbox in self._inboxes.values():
            try:
                await inbox.close()
            except OrtooError:
                pass  # the queue is away already, and the inbox with it
