"""Sessions that nobody is connected to: their wills, and their end, when their time has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Final

from .client import Client
from .rules.lifetime import due, next_deadline, will_published
from .rules.messages import message_of_will

_AT_ONCE: Final = 1_000  # sessions that are looked after in one turn


class Absences:
    def __init__(self, clients: Mapping[str, Client], now: Callable[[], int]) -> None:
        """`clients` by their identifiers, as they are at any time."""
        self._clients = clients
        self._now = now
        self._deadlines: list[tuple[int, str]] = []  # when to look after which client
        self._waiting: dict[str, int] = {}  # the first of them, by client

    def look_after(self, client: Client) -> None:
        """Does what is due for it, and knows when something will be."""
        state = client.state
        while state is not None and client.connection is None:
            found = due(state, self._now())
            if found == "will":
                assert state.will is not None
                message = message_of_will(state.will, self._now())
                will_published(state)
                client.publish_will(message)
            elif found == "expiry":
                client.end()
                return
            else:
                break
        if state is not None and client.connection is None and (moment := next_deadline(state)) is not None:
            known = self._waiting.get(client.id)
            if known is None or moment < known:  # else it is looked after before that
                self._waiting[client.id] = moment
                heappush(self._deadlines, (moment, client.id))

    def tick(self, now: int) -> None:
        for _ in range(_AT_ONCE):
            if not self._deadlines or self._deadlines[0][0] > now:
                return
            moment, client_id = heappop(self._deadlines)
            if self._waiting.get(client_id) == moment:
                del self._waiting[client_id]
                client = self._clients.get(client_id)
                if client is not None and client.connection is None:
                    self.look_after(client)
