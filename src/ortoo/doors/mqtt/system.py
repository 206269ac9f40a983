"""What the server tells of itself, to those who subscribe to `$SYS/#`: a few figures of their namespace, every ten seconds.

And what it tells of queues, to those who subscribe to `$admin/queue/NAME/stats`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sized
from time import monotonic
from typing import Final

from ortoo.model.errors import OrtooError
from ortoo.model.version import __version__

from .namespace import Namespace
from .queues.admin import STATS
from .queues.names import ADMIN_PREFIX
from .rules.messages import Message
from .services import Services

_log = logging.getLogger("ortoo.mqtt")

_EVERY_SECONDS: Final = 10.0
_ROOT: Final = "$SYS/broker"


class SystemTopics:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._began = monotonic()
        self._next = 0.0

    async def tell(self, namespaces: Iterable[Namespace], connections: Sized, now: int) -> None:
        if monotonic() < self._next:
            return
        self._next = monotonic() + _EVERY_SECONDS
        for namespace in list(namespaces):
            for name, value in self._figures(namespace).items():
                namespace.publish(Message(f"{_ROOT}/{name}", value.encode(), 0, True), is_durable=False)
            await self._tell_stats(namespace)

    def _figures(self, namespace: Namespace) -> dict[str, str]:
        meters = self._services.meters
        online = sum(client.connection is not None for client in namespace.clients.values())
        return {
            "version": f"ortoo {__version__}",
            "uptime": f"{monotonic() - self._began:.0f} seconds",
            "clients/connected": str(online),
            "clients/disconnected": str(len(namespace.clients) - online),
            "clients/total": str(len(namespace.clients)),
            "subscriptions/count": str(namespace.index.count),
            "retained messages/count": str(len(namespace.retained)),
            "messages/received": str(namespace.received),
            "messages/sent": str(meters.sent),
        }

    async def _tell_stats(self, namespace: Namespace) -> None:
        watched = {
            text
            for client in list(namespace.clients.values())
            if client.connection is not None and client.state is not None
            for text in client.state.subscriptions
            if text.startswith(ADMIN_PREFIX) and text.endswith(STATS)
        }
        for text in watched:
            try:
                namespace.publish(await namespace.admin.stats(self._services.host, text))
            except OrtooError as error:
                _log.info("there is nothing to tell of a queue", extra={"topic": text, "error": str(error)})
