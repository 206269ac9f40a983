"""The queue inside your own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ortoo.broker import Broker
from ortoo.broker.shards import Shards
from ortoo.broker.shards.identity import check_alone
from ortoo.broker.showing import projection_of
from ortoo.broker.wakeup import Wakeup
from ortoo.client import Queue, SyncQueue
from ortoo.client.forking import keep, refusal, tell_of_forks
from ortoo.model.errors import ConfigError
from ortoo.model.names import DEFAULT_NAMESPACE
from ortoo.model.topic_defaults import TopicDefaults
from ortoo.ports import Store
from ortoo.stores.memory import MemoryStore

from .clock import SystemClock
from .shards import Where, make_brokers, names_of
from .stores import Ahead, refuse_buffer_without_database
from .webhook import Webhook

CLOSING_GRACE_S = 5.0  # for webhooks that were not told yet


class _Embedded(Broker):
    """A broker that tells webhooks by itself, as a server does."""

    def __init__(self, store: Store, *, auto_create: bool, shard: int | None, defaults: TopicDefaults) -> None:
        super().__init__(store, SystemClock(), auto_create=auto_create, shard=shard, topic_defaults=defaults)
        self._is_alone = shard is None
        self._webhook = Webhook(self, self.on_dead_letters)
        self._projection = projection_of(self)
        self._is_inherited = False

    async def open(self) -> None:
        if self._is_inherited:
            raise refusal()
        await super().open()
        try:
            if self._is_alone:
                check_alone(self.state)
        except ConfigError:
            await super().close()
            raise
        self._webhook.start()
        if self._projection is not None:
            self._projection.start()

    def _forked(self) -> None:
        """In a child process: the store is the parent's, and one process writes."""
        keep(self._committer, self._wakeup)
        self._refusal, self._committer, self._wakeup = refusal(), None, Wakeup(self.clock, self._ring)
        self._webhook = Webhook(self, self.on_dead_letters)
        self._is_inherited = True

    async def close(self, *, checkpoint: bool = True) -> None:
        """With a checkpoint on disk, as of a server that stops: readers of the files, Spark's too, then find all there is."""
        await self._webhook.close(CLOSING_GRACE_S)
        if self._projection is not None:
            await self._projection.stop()
        await super().close(checkpoint=checkpoint and _is_on_disk(self.store))


def _is_on_disk(store: Store) -> bool:
    if isinstance(store, MemoryStore):  # which must not need what the other imports
        return False
    from ortoo.stores.disk import DiskStore

    return isinstance(store, DiskStore)


def open(
    path: Where | Sequence[str | Path] = None,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    auto_create: bool = True,
    keys: str | dict[str, bytes] | None = None,
    spill: str | Path | None = None,
    buffer: str | None = None,
    topic_defaults: Mapping[str, Any] | None = None,
) -> Queue:
    """A queue in this process: on disk in the directory `path`, in PostgreSQL, or in memory without one. Several are shards.

    async with ortoo.open("./data") as queue: ...
    async with ortoo.open("postgres://queue@db1/q") as queue: ...
    async with ortoo.open(["/disk1/queue", "/disk2/queue"]) as queue: ...     # shards: each topic lies in one of them

    `auto_create`: whether publishing to an unknown topic makes it. `keys`: for encrypted topics, a dict of 32-byte keys
    by name, "file:PATH" or "command:CMD"; from the environment (ORTOO_ENCRYPTION_KEYS) when not given. `spill`: a folder for
    what PostgreSQL does not take while it is away; without one, nothing is taken meanwhile. `buffer`: the URL of a Redis from
    which commits are confirmed before PostgreSQL has them; that is a weaker durability, see docs/redis.md. `topic_defaults`:
    settings of topics that are made without them.
    """
    named: list[Where] = [path] if path is None or isinstance(path, str | Path) else list(path)

    refuse_buffer_without_database(buffer, named)
    defaults = TopicDefaults(dict(topic_defaults or {})).check()
    defaults.check_shards(len(named), shares_dedup=False)

    def make(store: Store, shard: int | None) -> _Embedded:
        return _Embedded(store, auto_create=auto_create, shard=shard, defaults=defaults)

    brokers = make_brokers(named, keys, make, Ahead(spill, buffer=buffer))
    link = brokers[0] if len(brokers) == 1 else Shards(brokers, names_of(named))
    queue = Queue(link, namespace=namespace)
    for broker in brokers:
        tell_of_forks(broker)
    tell_of_forks(queue)
    return queue


def open_sync(
    path: Where | Sequence[str | Path] = None,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    auto_create: bool = True,
    keys: str | dict[str, bytes] | None = None,
    spill: str | Path | None = None,
    buffer: str | None = None,
    topic_defaults: Mapping[str, Any] | None = None,
) -> SyncQueue:
    """The same, blocking: `with ortoo.open_sync("./data") as queue:`."""
    return SyncQueue(
        lambda: open(
            path,
            namespace=namespace,
            auto_create=auto_create,
            keys=keys,
            spill=spill,
            buffer=buffer,
            topic_defaults=topic_defaults,
        )
    )
