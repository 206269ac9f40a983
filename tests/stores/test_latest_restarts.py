"""Topics that keep the latest of each key, closed and opened again at a bad moment."""

from __future__ import annotations

from pathlib import Path

import pytest

import ortoo
from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.stores.disk import open_directory
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle


async def opened(path: Path, clock: ManualClock) -> tuple[Queue, Broker]:
    broker = Broker(open_directory(path, None), clock)
    queue = Queue(broker, consumer="c")
    await queue.open()
    return queue, broker


@pytest.mark.parametrize("is_checkpointed", [False, True])
async def test_what_came_due_after_a_checkpoint_is_superseded_as_any_other(
    tmp_path: Path, is_checkpointed: bool
) -> None:
    clock = ManualClock()
    queue, broker = await opened(tmp_path, clock)
    await queue.create_topic("t", keep="latest", partitions=1, retention_seconds=None)
    await queue.publish("t", b"old", key="k", delay=5)
    await broker.close(checkpoint=True)
    queue, broker = await opened(tmp_path, clock)
    await clock.advance(6)  # that it came due is in the write-ahead log alone
    await settle(50)
    await broker.close(checkpoint=is_checkpointed)
    queue, broker = await opened(tmp_path, clock)
    await queue.publish("t", b"new", key="k")
    await clock.advance(1)
    await settle(50)
    assert [message.value async for message in queue.read("t")] == [b"new"]
    await broker.close()


async def test_what_was_trimmed_in_an_instant_is_counted_once(tmp_path: Path) -> None:
    clock = ManualClock()
    queue, broker = await opened(tmp_path, clock)
    await queue.create_topic("t", keep="latest", partitions=1)
    await queue.publish_many("t", [ortoo.Message(b"x" * 1000, key="k") for _ in range(9)])
    others = [ortoo.Message(b"y" * 1000, key=f"o{number}") for number in range(3)]
    await queue.publish_many("t", [ortoo.Message(b"x" * 1000, key="k"), *others])
    await clock.advance(30)
    await settle(50)
    size = (await queue.topic("t")).bytes
    assert 3_950 < size < 4_050
    await broker.close(checkpoint=True)
    queue, broker = await opened(tmp_path, clock)
    assert abs((await queue.topic("t")).bytes - size) < 50
    await broker.close()
