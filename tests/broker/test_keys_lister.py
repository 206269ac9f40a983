"""Are the keys of a topic listed with the right counts, bounded, and without holding anybody up?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
import pytest_asyncio

import ortoo
from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.model import limits
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import TopicName
from ortoo.model.queries import ListKeys
from ortoo.model.replies import KeyCounts, KeysFound
from ortoo.stores.disk import open_directory
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock
from tests.turns import counting_turns

JOBS = TopicName("default", "jobs")


class World:
    def __init__(self, broker: Broker, clock: ManualClock) -> None:
        self.broker, self.clock, self.queue = broker, clock, Queue(broker)

    async def publish(self, *keys: str | None, **more: Any) -> None:
        await self.queue.publish_many("jobs", [ortoo.Message(b"x", key=key, **more) for key in keys])

    async def keys(self, **more: Any) -> KeysFound:
        await self.clock.advance(2)  # what was told before is not kept so long
        return await self.queue.message_keys("jobs", group="g", **more)


@pytest_asyncio.fixture(params=["memory", "disk"])
async def here(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    clock = ManualClock()
    broker = Broker(MemoryStore() if request.param == "memory" else open_directory(tmp_path), clock)
    await broker.open()
    world = World(broker, clock)
    await world.queue.create_topic("jobs", partitions=3)
    await world.queue.create_group("jobs", "g")
    yield world
    await broker.close()


def counted(found: KeysFound) -> dict[str | None, tuple[int, ...]]:
    return {key.key: (key.pending, key.leased, key.done, key.dead, key.total) for key in found.keys}


async def test_each_key_has_its_messages_counted_by_state(here: World) -> None:
    begun = here.clock.time()
    await here.publish("ann", "bob", "cem", "dan")
    for message in await here.queue.lease("jobs", group="g", max_messages=4):
        if message.key == "ann":
            await message.ack()
        elif message.key == "bob":
            await message.reject("never")
        elif message.key == "cem":
            await message.nack("later")
    await here.clock.advance(3)
    await here.publish("ann", "ann", None)
    await here.publish("bob", delay=3600)
    found = await here.keys()
    assert counted(found) == {
        "ann": (2, 0, 1, 0, 3),
        "bob": (1, 0, 0, 1, 2),
        "cem": (1, 0, 0, 0, 1),
        "dan": (0, 1, 0, 0, 1),
        None: (1, 0, 0, 0, 1),
    }
    assert found.is_complete
    [ann] = [key for key in found.keys if key.key == "ann"]
    assert ann == KeyCounts("ann", 2, 0, 1, 0, 3, begun, begun + 3)
    assert {key.key for key in found.keys[:3]} == {"ann", "bob", None}, "those used last come first"


async def test_messages_that_are_gone_are_not_counted(here: World) -> None:
    await here.publish("ann", "ann", "ann")
    first, second, _ = [message async for message in here.queue.read("jobs")]
    await here.queue.delete_message(first.id)
    assert counted(await here.keys()) == {"ann": (2, 0, 0, 0, 2)}
    await here.publish("bob", ttl=1)
    await here.clock.advance(5)
    await here.queue.delete_message(second.id)
    assert counted(await here.keys()) == {"ann": (1, 0, 0, 0, 1)}
    await here.queue.purge("jobs")
    assert await here.keys() == KeysFound([], True)


async def test_the_counts_are_those_of_the_states_of_messages(here: World) -> None:
    await here.publish(*(f"k{number % 7}" for number in range(200)))
    for settle in ("ack", "nack", "reject", "release", "extend"):
        [message] = await here.queue.lease("jobs", group="g", lease=300)
        await getattr(message, settle)(*([600] if settle == "extend" else []))
    states: dict[str, dict[str, int]] = {}
    for state in ("ready", "delayed", "leased", "blocked", "done", "dead"):
        for message in await here.queue.messages("jobs", group="g", state=state, limit=1000):
            of_key = states.setdefault(str(message.key), dict.fromkeys(("pending", "leased", "done", "dead"), 0))
            of_key["pending" if state in ("ready", "delayed", "blocked") else state] += 1
    found = await here.queue.message_keys("jobs", group="g")
    assert {
        key.key: {"pending": key.pending, "leased": key.leased, "done": key.done, "dead": key.dead}
        for key in found.keys
    } == states


async def test_of_too_many_keys_the_newest_are_listed(here: World) -> None:
    for number in range(10):
        await here.publish(f"k{number}")
        await here.clock.advance(1)
    found = await here.keys(limit=10)
    assert [key.key for key in found.keys] == [f"k{number}" for number in reversed(range(10))]
    assert found.is_complete
    few = await here.keys(limit=3)
    assert len(few.keys) == 3
    assert not few.is_complete
    for count in (0, limits.BATCH_MESSAGES_MAX + 1):
        with pytest.raises(InvalidError, match="count"):
            await here.broker.ask(ListKeys(JOBS, "g", count))


@pytest.mark.parametrize("limit", ["KEYS_READ_MAX", "KEYS_READ_BYTES_MAX", "KEYS_BYTES_MAX"])
async def test_no_more_is_read_than_may_be(here: World, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    await here.queue.create_topic("many", partitions=1)
    await here.queue.create_group("many", "g")
    for number in range(9):
        await here.queue.publish_many("many", [ortoo.Message(b"x", key=f"key-{number}")] * 1_000)
        await here.clock.advance(1)
    monkeypatch.setattr(limits, limit, 2_500 if limit != "KEYS_BYTES_MAX" else 60)
    found = await here.queue.message_keys("many", group="g")
    assert not found.is_complete
    assert found.keys[0].key == "key-8"
    assert 2 <= len(found.keys) <= 4


async def test_those_who_ask_again_at_once_get_the_same(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await here.publish("ann")
    scan, scans = here.broker.store.scan, []

    async def count(*arguments: Any) -> Any:
        scans.append(arguments)
        return await scan(*arguments)

    monkeypatch.setattr(here.broker.store, "scan", count)
    answers = await asyncio.gather(*(here.queue.message_keys("jobs", group="g") for _ in range(50)))
    assert len(scans) == 1
    assert all(answer is answers[0] for answer in answers)
    await here.publish("ann")
    assert (await here.queue.message_keys("jobs", group="g")).keys[0].total == 1
    await here.clock.advance(1)
    assert not here.broker._reader._keys_lister._answers, "nothing stays"
    assert (await here.queue.message_keys("jobs", group="g")).keys[0].total == 2
    for number in range(40):
        await here.queue.message_keys("jobs", group="g", limit=number + 1)
    assert len(here.broker._reader._keys_lister._answers) <= 16


async def test_what_failed_is_not_kept(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await here.publish("ann")
    with monkeypatch.context() as patched:

        async def fail(*_: Any) -> Any:
            raise OSError("no disk")

        patched.setattr(here.broker.store, "scan", fail)
        with pytest.raises(OSError, match="no disk"):
            await here.queue.message_keys("jobs", group="g")
    assert counted(await here.queue.message_keys("jobs", group="g")) == {"ann": (1, 0, 0, 0, 1)}


async def test_a_topic_may_be_deleted_meanwhile(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await here.publish("ann")
    scan = here.broker.store.scan

    async def late(*arguments: Any) -> Any:
        found = await scan(*arguments)
        await here.queue.delete_topic("jobs")
        return found

    monkeypatch.setattr(here.broker.store, "scan", late)
    with pytest.raises(NotFoundError):
        await here.queue.message_keys("jobs", group="g")
    with pytest.raises(NotFoundError):
        await here.queue.message_keys("jobs", group="g")


async def test_a_group_that_is_not_there_is_not_found(here: World) -> None:
    with pytest.raises(NotFoundError):
        await here.queue.message_keys("jobs", group="nobody")


async def test_many_messages_are_read_in_turns() -> None:
    broker = Broker(MemoryStore(), ManualClock())
    await broker.open()
    queue = Queue(broker)
    await queue.create_topic("jobs", partitions=1)
    await queue.create_group("jobs", "g")
    for _ in range(10):
        batch = [ortoo.Message(b"x" * 100, key=f"k{number % 3_000}") for number in range(10_000)]
        await queue.publish_many("jobs", batch)
    began = thread_time()
    async with counting_turns() as turns:
        found = await queue.message_keys("jobs", group="g", limit=5_000)
    spent = thread_time() - began
    assert len(found.keys) == 3_000
    assert found.is_complete
    assert turns.count >= 50
    assert spent / turns.count < 0.05
    await broker.close()
