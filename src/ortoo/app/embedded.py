"""The queue inside your own process."""

from __future__ import annotations

from pathlib import Path

from ortoo.broker import Broker
from ortoo.broker.wakeup import Wakeup
from ortoo.client import Queue, SyncQueue
from ortoo.client.forking import keep, refusal, tell_of_forks
from ortoo.model.names import DEFAULT_NAMESPACE
from ortoo.ports import Store
from ortoo.stores.disk import open_directory
from ortoo.stores.memory import MemoryStore

from .clock import SystemClock
from .webhook import Webhook

CLOSING_GRACE_S = 5.0  # for webhooks that were not told yet


class _Embedded(Broker):
    """A broker that tells webhooks by itself, as a server does."""

    def __init__(self, store: Store, *, auto_create: bool) -> None:
        super().__init__(store, SystemClock(), auto_create=auto_create)
        self._webhook = Webhook(self, self.on_dead_letters)
        self._is_inherited = False

    async def open(self) -> None:
        if self._is_inherited:
            raise refusal()
        await super().open()
        self._webhook.start()

    def _forked(self) -> None:
        """In a child process: the store is the parent's, and one process writes."""
        keep(self._committer, self._wakeup)
        self._refusal, self._committer, self._wakeup = refusal(), None, Wakeup(self.clock, self._ring)
        self._webhook = Webhook(self, self.on_dead_letters)
        self._is_inherited = True

    async def close(self, *, checkpoint: bool = False) -> None:
        await self._webhook.close(CLOSING_GRACE_S)
        await super().close(checkpoint=checkpoint)


def open(
    path: str | Path | None = None,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    auto_create: bool = True,
    keys: str | dict[str, bytes] | None = None,
) -> Queue:
    """A queue in this process: on disk in the directory `path`, or in memory without one.

    async with ortoo.open("./data") as queue: ...

    `auto_create`: whether publishing to an unknown topic makes it. `keys`: for encrypted topics, a dict of 32-byte keys
    by name, "file:PATH" or "command:CMD"; from the environment (ORTOO_ENCRYPTION_KEYS) when not given.
    """
    store: Store = MemoryStore() if path is None else open_directory(Path(path), keys)
    broker = _Embedded(store, auto_create=auto_create)
    queue = Queue(broker, namespace=namespace)
    tell_of_forks(broker)
    tell_of_forks(queue)
    return queue


def open_sync(
    path: str | Path | None = None,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    auto_create: bool = True,
    keys: str | dict[str, bytes] | None = None,
) -> SyncQueue:
    """The same, blocking: `with ortoo.open_sync("./data") as queue:`."""
    return SyncQueue(lambda: open(path, namespace=namespace, auto_create=auto_create, keys=keys))
