"""The queue inside your own process."""

from __future__ import annotations

from ortoo.broker import Broker
from ortoo.client import Queue, SyncQueue
from ortoo.model.names import DEFAULT_NAMESPACE
from ortoo.stores.memory import MemoryStore

from .clock import SystemClock


def open(*, namespace: str = DEFAULT_NAMESPACE, auto_create: bool = True) -> Queue:
    """A queue in memory, for as long as the process lives: `async with ortoo.open() as queue:`.

    `auto_create`: whether publishing to an unknown topic makes it.
    """
    return Queue(Broker(MemoryStore(), SystemClock(), auto_create=auto_create), namespace=namespace)


def open_sync(*, namespace: str = DEFAULT_NAMESPACE, auto_create: bool = True) -> SyncQueue:
    """The same, blocking: `with ortoo.open_sync() as queue:`."""
    return SyncQueue(lambda: open(namespace=namespace, auto_create=auto_create))
