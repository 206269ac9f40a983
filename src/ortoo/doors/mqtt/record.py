"""The record of a client's session: what of it is durable, and whether there is any.

It has two parts, each under a key of its own: the filters, which may be many and seldom change, and the rest, which changes with
every message of QoS 2. Filters are written only when they are not what is durable already.
"""

from __future__ import annotations

import msgspec

from ortoo.model.commands import Publish

from .rules.state import SessionState, Subscribed, restore, save
from .storage import no_record, record_of


class SessionRecord:
    def __init__(self, namespace: str, client_id: str) -> None:
        self.namespace = namespace
        self.client_id = client_id
        self.is_there = False
        self.filters: dict[str, Subscribed] | None = None  # as they are durable; None where nobody knows

    def of(self, state: SessionState) -> Keeping:
        """What keeps it as it is now."""
        self.is_there = True
        return Keeping(self, state)

    def removal(self) -> Removal:
        """What removes it; from now on there is none."""
        self.is_there, self.filters = False, None
        return Removal(self, self.removed())

    def removed(self) -> Publish:
        return no_record(self.namespace, self.client_id)


class Keeping:
    def __init__(self, record: SessionRecord, state: SessionState) -> None:
        self._record = record
        known = record.filters
        self._filters = known if state.subscriptions == known else dict(state.subscriptions)
        self._rest = save(msgspec.structs.replace(state, subscriptions={}))

    def publish(self, missing: frozenset[int]) -> Publish:
        rest, record = self._rest, self._record
        if missing:
            state = restore(rest)
            state.received -= missing
            rest = save(state)
        filters = None if self._filters is record.filters else self._filters
        return record_of(record.namespace, record.client_id, rest, filters)

    def done(self) -> None:
        self._record.filters = self._filters


class Removal:
    def __init__(self, record: SessionRecord, publish: Publish) -> None:
        self._record = record
        self._publish = publish

    def publish(self, missing: frozenset[int]) -> Publish:
        return self._publish

    def done(self) -> None:
        """What was under way before it may have told otherwise meanwhile."""
        self._record.filters = None
