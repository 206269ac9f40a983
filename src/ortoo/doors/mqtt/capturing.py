"""What queues of a namespace capture of ordinary topics: as clients ask for it, and as the settings say."""

from __future__ import annotations

from typing import Any, Final

from ortoo.model.errors import TooManyError
from ortoo.model.names import TopicName

from .queues.captures import Capture
from .queues.names import QueueFilter
from .routing.subscriptions import Recipient, SubscriptionIndex
from .services import Services
from .storage import Captured, capture_of
from .wire.topics import parse_filter

_CAPTURES_MAX: Final = 1_000


class Captures:
    def __init__(self, namespace: str, services: Services, index: SubscriptionIndex[Any]) -> None:
        self._namespace = namespace
        self._services = services
        self._index = index
        self._captured: set[Captured] = set()  # by clients
        self._configured: set[tuple[str, TopicName]] = set()  # filters whose captures the settings name

    async def add(self, filter: QueueFilter) -> None:
        """What is published to ordinary topics that the filter matches goes to the queue, too, for as long as there is one."""
        assert filter.captured is not None
        parse_filter(filter.captured.text)  # what is stored can be read again
        captured = Captured(self._namespace, filter.name, filter.captured.text)
        if captured not in self._captured:
            if len(self._captured) >= _CAPTURES_MAX:
                raise TooManyError(f"a namespace has at most {_CAPTURES_MAX} filters that queues capture")
            await self._services.storage.commit([], [capture_of(captured)])
            self.restore(captured)

    def configure(self, filter: str, topic: TopicName) -> None:
        """For as long as the server runs."""
        self._configured.add((filter, topic))
        self._index.add(parse_filter(filter), Recipient(Capture(topic, is_configured=True), 2))

    def restore(self, captured: Captured) -> None:
        self._captured.add(captured)
        topic = TopicName(self._namespace, captured.queue)
        if (captured.filter, topic) not in self._configured:
            self._index.add(parse_filter(captured.filter), Recipient(Capture(topic), 2))

    async def forget(self) -> None:
        """Those of queues that are gone."""
        for captured in list(self._captured):
            topic = TopicName(self._namespace, captured.queue)
            if self._services.host.find_topic(topic) is None:
                await self._services.storage.commit([], [capture_of(captured, is_over=True)])
                self._captured.discard(captured)
                if (captured.filter, topic) not in self._configured:
                    self._index.remove(parse_filter(captured.filter), Capture(topic))
