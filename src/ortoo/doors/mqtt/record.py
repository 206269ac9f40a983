"""The record of a client's session: what of it is durable, and whether there is any."""

from __future__ import annotations

from collections.abc import Callable

from ortoo.model.commands import Publish

from .rules.state import SessionState, restore, save
from .storage import record_of


class SessionRecord:
    def __init__(self, namespace: str, client_id: str) -> None:
        self._namespace = namespace
        self._client_id = client_id
        self.is_there = False

    def of(self, state: SessionState) -> Callable[[frozenset[int]], Publish]:
        """What keeps it as it is now, without the QoS 2 messages that were not taken."""
        self.is_there = True
        saved = save(state)

        def record(missing: frozenset[int]) -> Publish:
            kept = saved
            if missing:
                state = restore(saved)
                state.received -= missing
                kept = save(state)
            return record_of(self._namespace, kept, self._client_id)

        return record

    def removal(self) -> Callable[[frozenset[int]], Publish]:
        self.is_there = False
        return lambda missing: self.removed()

    def removed(self) -> Publish:
        return record_of(self._namespace, None, self._client_id)
