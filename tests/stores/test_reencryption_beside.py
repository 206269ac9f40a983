"""A re-encryption beside everything else, on a real disk, in threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ortoo.app.clock import SystemClock
from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.model.names import TopicId
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk
from ortoo.stores.disk.backup import back_up
from ortoo.stores.disk.outside import Outside
from tests.format.directory import KEYS as OLD
from tests.format.directory import small_files

from .reencrypting import BOTH, NEW, NEW_NAME, finished, needed, until


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    with small_files():
        yield


@asynccontextmanager
async def real(path: Path, keys: dict[str, bytes], **options: Any) -> AsyncIterator[tuple[Queue, DiskStore, Broker]]:
    path.mkdir(exist_ok=True)
    store = DiskStore(RealDisk(path), KeyRing(keys), **{"flush_bytes": 0, "checkpoint_bytes": 2_000} | options)
    broker = Broker(store, SystemClock())
    async with Queue(broker) as queue:
        yield queue, store, broker


async def test_publishing_reading_and_checkpoints_go_on_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "data"
    sent = [b"%d" % number for number in range(300)]
    async with real(path, OLD) as (queue, store, _):
        await queue.create_topic("secret", encrypted=True, partitions=1)
        for value in sent:
            await queue.publish("secret", value)
        await queue.ack(await queue.lease("secret", max_messages=100))
    async with real(path, BOTH) as (queue, store, broker):
        store.keys().reencrypt(None, None, broker._commits.look)
        looks = 0
        while store.keys().is_reencrypting:
            sent.append(b"more %d" % looks)
            await queue.publish("secret", sent[-1])
            assert [message.value async for message in queue.read("secret")] == sent
            looks += 1
        assert looks > 3
        assert needed(await queue.keys()) == {NEW_NAME}
    async with real(path, NEW) as (queue, store, _):
        assert [message.value async for message in queue.read("secret")] == sent
        assert store.problems == []


async def test_a_topic_deleted_meanwhile_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with real(path, OLD) as (queue, store, _):
        topic = await queue.create_topic("secret", encrypted=True, partitions=4)
        for number in range(100):
            await queue.publish("secret", b"%d" % number)
    async with real(path, BOTH) as (queue, store, broker):
        store.keys().reencrypt(None, None, broker._commits.look)
        await until((path / "logs" / str(topic.id)).exists)
        await queue.delete_topic("secret")
        await finished(store)
        await broker.close(checkpoint=True)
    assert list((path / "logs").rglob("*.seg*")) == []


async def test_it_ends_with_the_queue_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with real(path, OLD) as (queue, _, _):
        await queue.create_topic("secret", encrypted=True, partitions=8)
        for number in range(100):
            await queue.publish("secret", b"%d" % number)
    async with real(path, BOTH) as (queue, store, broker):
        await queue.reencrypt(bytes_per_second=1)  # it would take hours
        await until(lambda: not store.keys().wants_checkpoint)
    async with real(path, BOTH) as (queue, store, broker):
        store.keys().reencrypt(None, None, broker._commits.look)
        await finished(store)
        assert needed(await queue.keys()) == {NEW_NAME}


async def test_a_store_that_recovers_goes_on_with_it(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with real(path, OLD) as (queue, _, _):
        await queue.create_topic("secret", encrypted=True, partitions=2)
        for number in range(100):
            await queue.publish("secret", b"%d" % number)
    async with real(path, BOTH) as (queue, store, broker):
        store.keys().reencrypt(None, None, broker._commits.look)
        broker._commits.give_up(RuntimeError("simulated: a mistake of ours"))
        await until(lambda: broker.meters.recoveries > 0 and broker.refusal is None)
        await finished(store)
        assert needed(await queue.keys()) == {NEW_NAME}
        assert len([message async for message in queue.read("secret")]) == 100


async def test_a_backup_from_before_and_whoever_reads_the_files_keep_what_they_had(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with real(path, OLD) as (queue, store, broker):
        await queue.create_topic("secret", encrypted=True, partitions=1)
        for number in range(100):
            await queue.publish("secret", b"%d" % number)
        await broker.close(checkpoint=True)
    back_up(path, tmp_path / "backup")
    reader = Outside(path, BOTH)
    known = reader.bounds(TopicId(1), 0)[1]
    assert known > 10, "as far as the last checkpoint got, which is the machine's business"
    frames = reader.scan(TopicId(1), 0, 0, known)
    first = next(frames)
    async with real(path, BOTH) as (queue, store, broker):
        store.keys().reencrypt(None, None, broker._commits.look)
        await finished(store)
    found = [*first.values, *(value for frame in frames for value in frame.values)]
    assert found == [b"%d" % number for number in range(known)]
    async with real(tmp_path / "backup", OLD) as (queue, store, _):
        assert len([message async for message in queue.read("secret")]) == 100
        assert store.problems == []
