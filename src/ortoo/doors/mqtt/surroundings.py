"""What a client needs of its namespace."""

from __future__ import annotations

from typing import Any, Protocol

from .parts import Job, Part
from .queues.admin import Administration
from .queues.names import QueueFilter
from .retained import Retained
from .routing.subscriptions import SubscriptionIndex
from .rules import actions as a
from .rules.messages import Message
from .services import Services
from .turn import Turn


class Surroundings(Protocol):
    """`client` is the one that asks, of whose module this one knows nothing."""

    name: str
    services: Services
    retained: Retained
    received: int

    @property
    def is_crowded(self) -> bool: ...
    @property
    def admin(self) -> Administration: ...
    @property
    def index(self) -> SubscriptionIndex[Any]: ...

    def only_subscriber(self, topic: str, is_answered: bool) -> Any: ...
    def incoming(self, client: Any, action: a.Incoming, turn: Turn, job: Job) -> None: ...
    def compose(self, message: Message) -> Part: ...
    def look_after(self, client: Any) -> None: ...
    def forget(self, client: Any) -> None: ...
    async def capture(self, filter: QueueFilter) -> None: ...
