"""What one turn hands out: deliveries, gathered by client, so that each is told once and written to once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from .rules.messages import Delivery


class Online(Hashable, Protocol):
    def deliver(self, deliveries: list[Delivery], now: int) -> None: ...


class Turn:
    __slots__ = ("_deliveries", "count", "now")

    def __init__(self, now: int) -> None:
        self.now = now  # in milliseconds
        self.count = 0  # of receivers so far, kept ones included
        self._deliveries: dict[Online, list[Delivery]] = {}

    def give(self, client: Online, delivery: Delivery) -> None:
        found = self._deliveries.get(client)
        if found is None:
            self._deliveries[client] = [delivery]
        else:
            found.append(delivery)

    def end(self) -> None:
        deliveries, self._deliveries = self._deliveries, {}
        for client, some in deliveries.items():
            client.deliver(some, self.now)
