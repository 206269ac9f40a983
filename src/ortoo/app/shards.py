"""The stores of a queue as shards: how a server and the embedded queue open them, and how they are checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ortoo.broker import Broker
from ortoo.broker.shards import Shards
from ortoo.model.access import SHARD_NAMESPACE
from ortoo.model.errors import NotFoundError
from ortoo.model.names import TopicName
from ortoo.model.shards import shard_of
from ortoo.ports import Store
from ortoo.stores.addresses import is_postgres

from .clock import SystemClock
from .stores import Ahead, open_store, shown_store

Where = str | Path | None
Keys = str | dict[str, bytes] | None
B = TypeVar("B", bound=Broker)


def make_brokers(
    where: Sequence[Where],
    keys: Keys,
    make: Callable[[Store, int | None], B],
    ahead: Ahead = Ahead(),  # noqa: B008  it is a value
) -> list[B]:
    """One for each store; they are numbered where there are several."""
    is_sharded = len(where) > 1
    stores = [open_store(one, keys, ahead) for one in where]
    return [make(store, number if is_sharded else None) for number, store in enumerate(stores)]


def names_of(where: Sequence[Where]) -> list[str]:
    """For people, without passwords."""
    return ["memory" if one is None else shown_store(str(one)) for one in where]


def check_shards(where: Sequence[str]) -> list[str]:
    """What is wrong with them, in words. An error when they do not belong together."""
    for one in where:
        if not is_postgres(one) and not Path(one).is_dir():
            raise NotFoundError(f"there is no directory {one}")
    return asyncio.run(_check(where))


async def _check(where: Sequence[str]) -> list[str]:
    brokers = make_brokers(where, None, lambda store, shard: Broker(store, SystemClock(), shard=shard))
    shards = Shards(brokers, names_of(where))
    await shards.open()
    try:
        found = shards.problems()
        for number, broker in enumerate(brokers):
            for topic in broker.engine.state.topics.values():
                found += _misplaced(topic.name, number, len(brokers))
        return found
    finally:
        await shards.close()


def _misplaced(topic: TopicName, shard: int, shards: int) -> list[str]:
    wanted = shard_of(topic, shards)
    if topic.namespace == SHARD_NAMESPACE or wanted == shard:
        return []
    return [f"topic {str(topic)!r} lies in shard {shard}, and is looked for in shard {wanted}"]
