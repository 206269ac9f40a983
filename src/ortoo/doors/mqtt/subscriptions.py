"""The subscriptions of one client: granted, kept in the index of its namespace, and given what is retained.

Those to queues are `queues/consuming.py`'s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Hashable
from functools import partial
from typing import Any, Final, Protocol

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model.errors import OrtooError

from .inbox import Inbox
from .line import Line
from .parts import Job, Part
from .queues.admin import STATS, Administration
from .queues.consuming import QueueSubscriptions
from .queues.names import ADMIN_PREFIX, parse_queue_filter
from .retained import Retained
from .rights import ClientRights
from .routing.subscriptions import Recipient, SubscriptionIndex
from .rules import actions as a
from .rules.messages import Delivery, Message
from .rules.session import Session
from .rules.state import SessionState, Subscribed
from .services import Services
from .wire.codes import Code
from .wire.topics import parse_filter

_RETAINED_AT_ONCE: Final = 200
_RETAINED_BYTES_AT_ONCE: Final = 1024 * 1024
_OWED_MAX: Final = 64


class Place(Protocol):
    """The namespace."""

    @property
    def index(self) -> SubscriptionIndex[Any]: ...
    @property
    def retained(self) -> Retained: ...
    @property
    def admin(self) -> Administration: ...


class Subscriber(Hashable, Protocol):
    """The client."""

    services: Services
    session: Session
    rights: ClientRights
    line: Line
    inbox: Inbox | None
    queues: QueueSubscriptions
    is_kept: bool
    link: AuthorizedLink | None

    @property
    def namespace(self) -> Place: ...
    @property
    def connection(self) -> object | None: ...

    def start(self, work: Coroutine[Any, Any, None]) -> None: ...
    def deliver(self, deliveries: list[Delivery], now: int) -> None: ...


class Subscriptions:
    def __init__(self, client: Subscriber) -> None:
        self._client = client
        self._owed: deque[Subscribed] = deque()  # filters whose retained messages are yet to be sent
        self._since: dict[str, int] = {}  # what was retained last when each of these was subscribed to

    def restore(self, state: SessionState) -> None:
        for subscribed in state.subscriptions.values():
            self._add(subscribed)

    def subscribe(self, action: a.Subscribe) -> None:
        filters = [parse_filter(each.options.filter) for each in action.asked]
        if any(filter.levels[0] == "$queue" for filter in filters):
            self._client.start(self._subscribe_all(action))
            return
        self._client.session.subscribed(action.packet_id, [self._subscribe_one(each) for each in action.asked])

    async def _subscribe_all(self, action: a.Subscribe) -> None:
        """With queues among them, which may have to be made."""
        session, reasons = self._client.session, []
        for each in action.asked:
            try:
                queue = parse_queue_filter(parse_filter(each.options.filter))
            except OrtooError:
                reasons.append(int(Code.TOPIC_FILTER_INVALID))
                continue
            if self._client.connection is None:
                reasons.append(int(Code.UNSPECIFIED))
            elif queue is None:
                reasons.append(self._subscribe_one(each))
            else:
                reasons.append(await self._client.queues.subscribe(queue, each))
        session.subscribed(action.packet_id, reasons)

    def _subscribe_one(self, subscribed: Subscribed) -> int:
        if not self._client.rights.may_subscribe(parse_filter(subscribed.options.filter)):
            return Code.NOT_AUTHORIZED
        self._add(subscribed)
        self._since[subscribed.options.filter] = self._client.namespace.retained.serial
        return subscribed.options.qos

    def _add(self, subscribed: Subscribed) -> None:
        options, filter = subscribed.options, parse_filter(subscribed.options.filter)
        if filter.levels[0] == "$queue":
            return
        ids = () if subscribed.id is None else (subscribed.id,)
        recipient = Recipient(self._client, options.qos, ids, options.retain_as_published, options.no_local)
        self._client.namespace.index.add(filter, recipient)

    @property
    def is_crowded(self) -> bool:
        """More filters wait for what is retained than should."""
        return len(self._owed) >= _OWED_MAX

    def send_retained(self, subscribed: Subscribed) -> None:
        """One filter after the other."""
        text = subscribed.options.filter
        if text.startswith(ADMIN_PREFIX) and text.endswith(STATS):
            self._client.start(self._tell_stats(text))
            return
        if parse_filter(text).levels[0] == "$queue":
            return
        self._owed.append(subscribed)
        if len(self._owed) == 1:
            self._client.start(self._send_all_retained())

    async def _tell_stats(self, text: str) -> None:
        """Of a queue, now; the server goes on with it by itself."""
        client = self._client
        if client.link is not None:
            message = await client.namespace.admin.stats(client.link, text)
            client.deliver([Delivery(message)], client.services.now())

    async def _send_all_retained(self) -> None:
        connection = self._client.connection
        try:
            while self._owed and self._client.connection is connection:
                await self._retained(self._owed[0])
                self._since.pop(self._owed.popleft().options.filter, None)
                await self._client.line.wait_idle()
        finally:
            self._owed.clear()

    async def _retained(self, subscribed: Subscribed) -> None:
        """In turns, as many as there are, and no faster than they can be stored."""
        client = self._client
        connection, qos_max = client.connection, subscribed.options.qos
        levels = parse_filter(subscribed.options.filter).levels
        ids = () if subscribed.id is None else (subscribed.id,)
        some: list[tuple[Message, Delivery]] = []  # what is retained, and how it is delivered
        size = 0
        retained = client.namespace.retained
        until = self._since.get(subscribed.options.filter, retained.serial)  # what came since is delivered by itself
        for found in retained.matching(levels, client.services.now(), until):
            if found is not None:
                message = Message(found.topic, found.payload, found.qos, True, found.raw, found.expires_at)
                some.append((found, Delivery(message, min(found.qos, qos_max), retain=True, ids=ids)))
                size += len(found.payload)
            if found is None or len(some) >= _RETAINED_AT_ONCE or size > _RETAINED_BYTES_AT_ONCE:
                self._give_retained(some)
                some, size = [], 0
                await asyncio.sleep(0)
                await client.line.wait_idle()
            if client.connection is not connection:
                return
        self._give_retained(some)

    def _give_retained(self, some: list[tuple[Message, Delivery]]) -> None:
        client = self._client
        now, job, live = client.services.now(), Job(), []
        for found, delivery in some:
            if client.is_kept and client.inbox is not None and delivery.qos:
                if client.inbox.is_full():
                    client.services.meters.dropped += 1
                    continue
                part = Part()
                part.put_in(client.inbox, delivery.message, delivery, now)
                part.is_wanted = partial(self._is_retained, found)
                job.parts.append(part)
            else:
                live.append(delivery)
        if job:
            client.line.add(job)
        if live:
            client.deliver(live, now)

    def _is_retained(self, message: Message) -> bool:
        """Still: a newer one has its own way to the subscriber, and may be there first."""
        return self._client.namespace.retained.get(message.topic) is message

    def unsubscribe(self, action: a.Unsubscribe) -> None:
        for text in action.filters:
            self._since.pop(text, None)
            filter = parse_filter(text)
            if filter.levels[0] == "$queue":
                self._client.start(self._client.queues.unsubscribe(text))
            else:
                self._client.namespace.index.remove(filter, self._client)

    def remove_all(self, state: SessionState) -> None:
        for text in state.subscriptions:
            filter = parse_filter(text)
            if filter.levels[0] != "$queue":
                self._client.namespace.index.remove(filter, self._client)
