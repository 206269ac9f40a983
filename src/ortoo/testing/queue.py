"""An in-memory queue for tests of your own code."""

from __future__ import annotations

from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.model.names import DEFAULT_NAMESPACE
from ortoo.stores.memory import MemoryStore

from .clock import ManualClock


def open_manual(
    clock: ManualClock | None = None, *, namespace: str = DEFAULT_NAMESPACE, auto_create: bool = True
) -> Queue:
    """A queue whose leases, delays and retention follow `clock`: `await clock.advance(30)` and they are due."""
    broker = Broker(MemoryStore(), clock or ManualClock(), auto_create=auto_create)
    return Queue(broker, namespace=namespace)
