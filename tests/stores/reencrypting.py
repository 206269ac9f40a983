"""What the tests of re-encryption begin with, and what they compare."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from ortoo.model.keys import KeysInfo, Reencryption
from ortoo.model.records import encode_records
from ortoo.stores.disk import DiskStore
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format.directory import KEYS as OLD
from tests.format.directory import Opened, fill, opened, partition_states, values

NEW = {"a new key with another length of its name": b"another key for tests, of 32 bytes"[:32]}
BOTH = OLD | NEW
[OLD_NAME], [NEW_NAME] = OLD, NEW


async def filled() -> SimulatedDisk:
    """Everything of everything under the old key; one transaction is open."""
    disk = SimulatedDisk(Random(3))
    await fill(disk)
    return disk


async def without_staged(disk: SimulatedDisk) -> SimulatedDisk:
    async with opened(disk) as one:
        await (await one.queue.begin("staged", part="end")).abort()
    return disk


async def picture(one: Opened) -> dict[str, Any]:
    """All that a user can see: states, messages, history with its numbers."""
    found: dict[str, Any] = {"states": partition_states(one)}
    for topic in one.broker.engine.state.topics.values():
        for partition in range(len(topic.partitions)):
            history = await one.store.read_history(topic.id, partition, 0, 10_000)
            found[f"{topic.name} {partition}"] = (
                values(await one.store.scan(topic.id, partition, 0, 10_000)),
                (history.start, history.first, history.end, encode_records(list(history.records))),
            )
    return found


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # what goes on beside has no event for each of its steps
        await asyncio.sleep(0)


async def finished(store: DiskStore) -> Reencryption:
    """Waits until it has ended, one way or another."""
    reencryptor = store.keys()._reencryptor
    assert reencryptor is not None
    await until(lambda: not reencryptor.is_running or getattr(store.disk, "is_off", False))
    return reencryptor.info()


async def reencrypt(one: Opened, topics: list[str] | None = None) -> Reencryption:
    state = one.broker.engine.state
    ids = None if topics is None else [topic.id for name, topic in state.names.items() if name.name in topics]
    one.store.keys().reencrypt(ids, None, one.broker._commits.look)
    return await finished(one.store)


def needed(info: KeysInfo) -> set[str]:
    return {use.key for use in info.uses or ()}
