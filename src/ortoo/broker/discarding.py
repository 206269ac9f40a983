"""Tells the store which messages are gone for good, so that it may have their room back."""

from __future__ import annotations

from collections.abc import Sequence

from ortoo.engine import Engine
from ortoo.model.records import Record
from ortoo.ports import Store

from .copies import has_copies


def discard(engine: Engine, store: Store, pending: Sequence[Record] = ()) -> None:
    """`pending`: what is decided and not written. While it copies messages these must be there: it may be one that was held until
    now. The next commit tells of them, then."""
    if engine.state.soft.discards and not has_copies(pending):
        for topic, partition, offsets in engine.take_discards():
            store.discard(topic, partition, offsets)
