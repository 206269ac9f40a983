"""Where the answers to requests come in, for all callers of a door together."""

from __future__ import annotations

import asyncio
from typing import Any

from ortoo.broker.gate import AuthorizedLink
from ortoo.client import Queue
from ortoo.client.inbox import Inbox
from ortoo.client.stream import Stream
from ortoo.model.batch import Outgoing, check_outgoing
from ortoo.model.commands import Publish
from ortoo.model.errors import OrtooError, TooManyError
from ortoo.model.message import Message, Received
from ortoo.model.names import TopicName

INBOXES_MAX = 100
IDLE_SECONDS = 60.0


class JsonBytes(bytes):
    """A value that was sent as JSON, to be kept byte for byte."""


class _Asking:
    """The queue as an inbox sees it; what it publishes keeps its JSON as it came."""

    def __init__(self, link: AuthorizedLink, namespace: str) -> None:
        self._link = link
        self._queue = Queue(link, namespace=namespace)

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
        await self._link.publish(Publish(TopicName(namespace, topic), batch))


class _Held:
    """An inbox, and whether it is in use."""

    __slots__ = ("asking", "inbox", "timer")

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.asking = 0
        self.timer: asyncio.TimerHandle | None = None  # runs while nobody asks


class Inboxes:
    """One for each namespace that requests are made in; all callers share it. One that nobody uses any more goes."""

    def __init__(self, link: AuthorizedLink) -> None:
        self._link = link
        self._held: dict[str, _Held] = {}  # those unused come in the order in which they were used last
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, namespace: str, message: Message, topic: str, timeout: float) -> Received:
        held = self._held.pop(namespace, None)
        if held is None:
            self._make_room()
            held = _Held(Inbox(_Asking(self._link, namespace), namespace))
        self._held[namespace] = held
        if held.timer is not None:
            held.timer.cancel()
        held.asking += 1
        try:
            return await held.inbox.ask(message, topic, timeout)
        finally:
            held.asking -= 1
            if not held.asking and self._held.get(namespace) is held:
                held.timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._let_go, namespace)

    def _make_room(self) -> None:
        if len(self._held) < INBOXES_MAX:
            return
        unused = next((namespace for namespace, held in self._held.items() if not held.asking), None)
        if unused is None:
            raise TooManyError(f"requests are under way in {INBOXES_MAX} namespaces already; try again later")
        self._let_go(unused)

    def _let_go(self, namespace: str) -> None:
        held = self._held.pop(namespace)
        if held.timer is not None:
            held.timer.cancel()
        task = asyncio.get_running_loop().create_task(_close(held.inbox), name="ortoo-inbox-close")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for namespace in list(self._held):
            self._let_go(namespace)
        await asyncio.gather(*self._closing)


async def _close(inbox: Inbox) -> None:
    try:
        await inbox.close()
    except OrtooError:
        pass  # the queue is away already, and the inbox with it
