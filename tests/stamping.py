"""A broker that is used in somebody's name, as a server uses one for its clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortoo.broker import Broker
from ortoo.broker.stamping import stamped
from ortoo.model.commands import AnyCommand, Once, Publish
from ortoo.model.replies import Placed


class StampingBroker(Broker):
    publisher: str | None = None

    async def call(self, command: AnyCommand) -> Any:
        return await super().call(stamped(command, self.publisher))

    async def publish(
        self, command: Publish | Once, wait_ms: int = 0, check: Callable[[], None] | None = None
    ) -> Placed:
        return await super().publish(stamped(command, self.publisher), wait_ms, check)
