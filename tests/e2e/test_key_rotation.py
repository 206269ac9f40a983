"""Keys that are added while the queue runs."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

import ortoo
from ortoo.app.clock import SystemClock
from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.model.records import TopicDeleted
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk, load_keys


def line(name: str, byte: int) -> str:
    return f"{name}:{base64.b64encode(bytes([byte]) * 32).decode()}\n"


def begin(folder: Path) -> tuple[Path, str, DiskStore]:
    """A file with the old key, where it is, and a store that uses it."""
    keys = folder / "keys"
    keys.write_text(line("old", 1))
    source = f"file:{keys}"
    (folder / "data").mkdir()
    return keys, source, DiskStore(RealDisk(folder / "data"), KeyRing(load_keys(source), source), flush_bytes=0)


async def checkpoint(broker: Broker, store: DiskStore) -> None:
    await broker.flush()
    await store.checkpoint(broker.engine.snapshot(), broker.now())
    while store._checkpointing is not None:
        await store._checkpointing


async def test_a_key_added_to_the_file_encrypts_what_is_written_after_the_next_checkpoint(tmp_path: Path) -> None:
    keys, source, store = begin(tmp_path)
    broker = Broker(store, SystemClock())
    async with Queue(broker) as queue:
        await queue.create_topic("secret", encrypted=True, partitions=1)
        await queue.publish("secret", b"before")
        await checkpoint(broker, store)
        keys.write_text(line("old", 1) + line("new", 2))
        await queue.publish("secret", b"between")
        await checkpoint(broker, store)
        await queue.publish("secret", b"after")
        assert [message.value async for message in queue.read("secret")] == [b"before", b"between", b"after"]
    for kept, missing in ((("old", 1), "new"), (("new", 2), "old")):  # each is needed: one for what came before
        keys.write_text(line(*kept))
        async with ortoo.open(tmp_path / "data", keys=source) as again:
            assert any(f"'{missing}' is missing" in problem for problem in (await again.stats()).problems)


async def test_a_key_file_that_cannot_be_read_any_more_is_a_problem_and_not_a_failure(tmp_path: Path) -> None:
    keys, _, store = begin(tmp_path)
    broker = Broker(store, SystemClock())
    async with Queue(broker) as queue:
        await queue.create_topic("secret", encrypted=True, partitions=1)
        keys.unlink()
        await queue.publish("secret", b"one")
        await checkpoint(broker, store)
        await queue.publish("secret", b"two")
        assert [message.value async for message in queue.read("secret")] == [b"one", b"two"]
        assert any("could not be read again" in problem for problem in (await queue.stats()).problems)


async def test_a_topic_deleted_while_its_checkpoint_runs_is_not_written_in_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, store = begin(tmp_path)
    broker = Broker(store, SystemClock())
    async with Queue(broker) as queue:
        topic = await queue.create_topic("secret", encrypted=True, partitions=1)
        await queue.publish("secret", b"the marker")

        async def delete_meanwhile() -> None:
            store._catalog.absorb(TopicDeleted(0, topic.id), 0)

        monkeypatch.setattr(store, "_refresh_keys", delete_meanwhile)  # what a checkpoint awaits before it writes
        await checkpoint(broker, store)
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" for path in files)
    assert not [path for path in files if b"the marker" in path.read_bytes()]
