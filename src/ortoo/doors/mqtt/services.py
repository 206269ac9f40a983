"""What everything behind the MQTT door shares."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

import msgspec

from ortoo.broker.authorized import AuthorizedLink, FoundTopic
from ortoo.broker.gate import Gate
from ortoo.model.access import DLQ_SUFFIX, MQTT_NAMESPACE
from ortoo.model.commands import CreateTopic, Publish
from ortoo.model.errors import ExistsError
from ortoo.model.mqtt_settings import MqttSettings
from ortoo.model.names import TopicName
from ortoo.model.topic import TopicConfig

from .rules.terms import Terms
from .storage import Storage

_log = logging.getLogger("ortoo.mqtt")

_TELL_SECONDS: Final = 10.0


class Meters:
    """What the door counts, beside what its gate does."""

    def __init__(self) -> None:
        self.sent = 0  # that were sent to clients
        self.dropped = 0  # that a client did not get: too many waited for it, or too large


class Made(Protocol):
    """An inbox, as far as it matters here."""

    is_made: bool


class QueueAdmin(Protocol):
    """What `$admin/queue/...` asks for: JSON in, JSON out."""

    @property
    def defaults(self) -> TopicConfig:
        """Of a queue that first use makes."""
        ...

    async def create(self, link: AuthorizedLink, namespace: str, body: bytes) -> bytes: ...

    async def change(self, link: AuthorizedLink, topic: TopicName, body: bytes) -> bytes: ...

    async def stats(self, link: AuthorizedLink, topic: TopicName) -> bytes: ...


class Services:
    def __init__(self, gate: Gate, settings: MqttSettings, admin: QueueAdmin) -> None:
        self.gate = gate
        self.settings = settings
        self.admin = admin
        self.host = gate.host()
        self.storage = Storage(self.host)
        self.meters = Meters()
        self.terms = Terms(
            packet_bytes_max=settings.max_packet_bytes,
            receive_maximum=settings.receive_maximum,
            keep_alive_max=settings.max_keep_alive,
            session_expiry_max=settings.max_session_expiry,
        )
        self.now: Callable[[], int] = self.host.now
        self.inboxes: dict[TopicName, Made] = {}  # of sessions that are kept
        self._told = -_TELL_SECONDS
        self.unsent = 0  # bytes that wait for clients who do not take them

    async def ensure_queue(self, topic: TopicName) -> FoundTopic | None:
        """One that is not there is made with the settings of queues, where first use makes topics."""
        found = self.host.find_topic(topic)
        if found is not None or not self.host.makes_topics:
            return found
        is_dlq = topic.name.endswith(DLQ_SUFFIX)
        config = TopicConfig(partitions=1, ordering="none", dlq=False) if is_dlq else self.admin.defaults
        try:
            await self.host.call(CreateTopic(topic, config))
        except ExistsError:
            pass  # somebody else was first
        return self.host.find_topic(topic)

    def missed(self, error: Exception) -> None:
        """A queue could not capture a message."""
        self.meters.dropped += 1
        if monotonic() - self._told >= _TELL_SECONDS:
            self._told = monotonic()
            _log.warning(
                "a queue could not capture a message", extra={"error": str(error), "dropped": self.meters.dropped}
            )

    async def prepare(
        self, publishes: list[Publish], captured: list[Publish], link: AuthorizedLink | None, device: str | None = None
    ) -> list[Publish]:
        """As far as the client may publish them, with what they need: topics, and inboxes. Without a link, the server does, as it
        does what queues capture. `device`: how the client is named as the publisher."""
        for publish in captured:
            await self.ensure_queue(publish.topic)
        publisher = None if link is None or device is None else link.named(device)
        prepared = [msgspec.structs.replace(publish, publisher=publisher) for publish in captured]
        for publish in publishes:
            topic = publish.topic
            if topic.namespace == MQTT_NAMESPACE:
                inbox = self.inboxes.get(topic)
                if inbox is None:
                    continue  # its session has ended meanwhile
                if not inbox.is_made:
                    await self.storage.make_inbox(topic)
                    inbox.is_made = True
                    if (
                        self.inboxes.get(topic) is not inbox
                    ):  # its session has ended meanwhile, when there was none to delete
                        await self.storage.delete_inbox(topic)
                        continue
                prepared.append(publish)
                continue
            if link is not None:
                link.require("write", topic)
            await self.ensure_queue(topic)
            prepared.append(publish if link is None or device is None else link.prepared(publish, device))
        return prepared

    async def drop_inbox(self, name: str) -> None:
        topic = TopicName(MQTT_NAMESPACE, name)
        inbox = self.inboxes.pop(topic, None)
        if inbox is not None and inbox.is_made:
            await self.storage.delete_inbox(topic)
