"""Queues made, changed and watched by publishing to `$admin/queue/...`; the bodies are those of the queues' HTTP API.

    $admin/queue/create          makes a queue
    $admin/queue/NAME/config     changes it
    $admin/queue/NAME/stats      subscribe to it, and what there is to know of the queue comes now and every few seconds

The answer goes to the response topic of the request, if it has one; that something failed is also told by its PUBACK.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ortoo.broker.authorized import AuthorizedLink
from ortoo.doors.mqtt.rules.messages import Message
from ortoo.doors.mqtt.services import Services
from ortoo.doors.mqtt.wire.packets import Publish
from ortoo.doors.mqtt.wire.properties import Properties, encode
from ortoo.model.errors import ForbiddenError, InvalidError, OrtooError, UnauthenticatedError
from ortoo.model.names import TopicName

from .names import ADMIN_PREFIX, PREFIX, parse_topic

_CREATE: Final = "create"
_CONFIG: Final = "/config"
STATS: Final = "/stats"


class Rights(Protocol):
    def may_leave(self, topic: str) -> bool: ...


class Asking(Protocol):
    link: AuthorizedLink | None

    @property
    def rights(self) -> Rights: ...


class Administration:
    def __init__(self, services: Services, namespace: str, publish: Callable[[Message], None]) -> None:
        self._services = services
        self._namespace = namespace
        self._publish = publish

    async def serve(
        self, client: Asking, topic: str, request: Publish, told: Callable[[Exception | None], None]
    ) -> None:
        try:
            if client.link is None:
                raise UnauthenticatedError("the client has gone")
            response_topic = request.properties.response_topic
            if response_topic is not None and not client.rights.may_leave(response_topic):
                raise ForbiddenError(f"this client may not publish to its response topic {response_topic[:100]!r}")
            answer = await self._serve(client.link, topic.removeprefix(ADMIN_PREFIX), request.payload)
        except OrtooError as error:
            told(error)
            return
        told(None)
        if request.properties.response_topic is not None:
            properties = Properties(
                content_type="application/json", correlation_data=request.properties.correlation_data
            )
            self._publish(Message(request.properties.response_topic, answer, 1, False, encode(properties)))

    async def _serve(self, link: AuthorizedLink, asked: str, body: bytes) -> bytes:
        admin = self._services.admin
        if asked == _CREATE:
            return await admin.create(link, self._namespace, body)
        if asked.endswith(_CONFIG):
            return await admin.change(link, self.topic_of(asked.removesuffix(_CONFIG)), body)
        if asked.endswith(STATS):
            return await admin.stats(link, self.topic_of(asked.removesuffix(STATS)))
        raise InvalidError("there are $admin/queue/create, $admin/queue/NAME/config and $admin/queue/NAME/stats")

    def topic_of(self, name: str) -> TopicName:
        return TopicName(self._namespace, parse_topic(PREFIX + name.removeprefix(PREFIX)).name)

    async def stats(self, link: AuthorizedLink, topic: str) -> Message:
        """What is told to those who subscribe to that."""
        name = topic.removeprefix(ADMIN_PREFIX).removesuffix(STATS)
        answer = await self._services.admin.stats(link, self.topic_of(name))
        return Message(topic, answer, 0, False, encode(Properties(content_type="application/json")))
