"""New topics have what was asked for, then what the most specific template says, then their namespace, then the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ortoo
from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.model.errors import ConfigError, ExistsError
from ortoo.model.topic_defaults import TopicDefaults, TopicTemplate
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock

DEFAULTS = TopicDefaults(
    {"max_attempts": 7, "partitions": 2, "lease": 60},
    {"shop": {"max_attempts": 8, "ttl": "1h"}},
    [
        TopicTemplate("events.*", {"max_attempts": 9}),
        TopicTemplate("events.click*", {"partitions": 3}),
        TopicTemplate("*", {"partitions": 4}, namespace="bank"),
    ],
).check()


def make(defaults: TopicDefaults = DEFAULTS) -> Queue:
    return Queue(Broker(MemoryStore(), ManualClock(), topic_defaults=defaults))


@pytest.fixture
async def queue() -> AsyncIterator[Queue]:
    async with make() as queue:
        yield queue


async def how(queue: Queue, topic: str, namespace: str | None = None) -> tuple[int, int, float]:
    config = (await queue.topic(topic, namespace=namespace)).config
    return config.max_attempts, config.partitions, config.lease


async def test_the_first_publish_makes_a_topic_with_them(queue: Queue) -> None:
    for topic in ("orders", "events.a", "events.click.b"):
        await queue.publish(topic, b"x")
    await queue.publish("orders", b"x", namespace="shop")
    await queue.publish("events.click", b"x", namespace="bank")
    assert await how(queue, "orders") == (7, 2, 60)
    assert await how(queue, "events.a") == (9, 2, 60)
    assert await how(queue, "events.click.b") == (7, 3, 60)
    assert await how(queue, "orders", "shop") == (8, 2, 60)
    assert (await queue.topic("orders", namespace="shop")).config.ttl == 3600
    assert await how(queue, "events.click", "bank") == (7, 4, 60)


async def test_what_is_named_wins_also_where_it_is_what_is_built_in(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=6)
    await queue.ensure_topic("events.a", max_attempts=3)
    assert await how(queue, "orders") == (7, 6, 60)
    assert await how(queue, "events.a") == (3, 2, 60)


async def test_a_transaction_makes_topics_with_them(queue: Queue) -> None:
    async with queue.transaction() as tx:
        tx.publish("orders", b"x")
    assert await how(queue, "orders") == (7, 2, 60)


async def test_making_it_again_is_fine_and_ensuring_compares_what_is_named(queue: Queue) -> None:
    await queue.create_topic("orders")
    await queue.create_topic("orders")
    await queue.create_topic("orders", lease=60)
    with pytest.raises(ExistsError, match="partitions is 2, not 3"):
        await queue.create_topic("orders", partitions=3)
    await queue.ensure_topic("orders", max_attempts=5)
    assert await how(queue, "orders") == (5, 2, 60)


async def test_inboxes_and_dead_letters_are_what_they_were() -> None:
    async with make(TopicDefaults({"max_depth": 1, "ttl": 1})) as queue:
        with pytest.raises(ortoo.NoReplyError):
            await queue.request("orders", b"x", timeout=0.01)
        [inbox] = [topic for topic in await queue.topics() if topic.name.startswith("reply.")]
        assert (inbox.config.max_depth, inbox.config.ttl) == (None, None)
        [message] = await queue.lease("orders")
        await message.reject()
        assert (await queue.topic("orders.dlq")).config.max_depth is None


async def test_what_was_made_stays_when_the_defaults_change(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path / "data", topic_defaults=DEFAULTS.settings) as queue:
        await queue.publish("orders", b"x")
    async with ortoo.open(tmp_path / "data", topic_defaults={"partitions": 5}) as queue:
        assert await how(queue, "orders") == (7, 2, 60)
        await queue.publish("others", b"x")
        assert (await queue.topic("others")).config.partitions == 5


async def test_changing_them_does_not_get_in_the_way_of_making_a_topic_that_exists(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path / "data", topic_defaults={"ttl": "1h"}) as queue:
        await queue.create_topic("orders", lease=60)
    async with ortoo.open(tmp_path / "data", topic_defaults={"ttl": "2h", "partitions": 2}) as queue:
        info = await queue.create_topic("orders", lease=60)
        assert (info.config.ttl, info.config.partitions) == (3600, 6)
        with pytest.raises(ExistsError, match=r"ttl is 3600\.0, not 7200\.0"):
            await queue.create_topic("orders", lease=60, ttl="2h")
        with pytest.raises(ExistsError, match="lease is"):
            await queue.create_topic("orders")


@pytest.mark.parametrize(
    "defaults",
    [
        TopicDefaults({"partitions": 0}),
        TopicDefaults({"ordering": "strict"}),
        TopicDefaults({"partitions": 1}, {}, [TopicTemplate("a", {"window_count": 5})]),
        TopicDefaults({}, {"shop": {"max_atempts": 1}}),
        TopicDefaults({"ordering": "strict", "partitions": 1}, {}, [TopicTemplate("a", {"partitions": 2}, "shop")]),
        TopicDefaults({}, {}, [TopicTemplate(f"a{number}", {}) for number in range(101)]),
    ],
    ids=str,
)
def test_what_makes_no_topic_together_is_found_at_the_start(defaults: TopicDefaults) -> None:
    with pytest.raises(ConfigError):
        defaults.check()


async def test_encrypted_by_default_needs_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORTOO_ENCRYPTION_KEYS", raising=False)
    async with ortoo.open(tmp_path / "data", topic_defaults={"encrypted": True}) as queue:
        for attempt in (queue.publish("orders", b"x"), queue.create_topic("orders")):
            with pytest.raises(ConfigError, match="needs a key"):
                await attempt
        assert await queue.topics() == []
        await queue.create_topic("orders", encrypted=False)


async def test_embedded_queues_take_them(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path / "data", topic_defaults={"partitions": 1, "retention_seconds": "30d"}) as queue:
        await queue.publish("orders", b"x")
        config = (await queue.topic("orders")).config
        assert (config.partitions, config.retention_seconds) == (1, 2_592_000)
    with pytest.raises(ConfigError, match="max_atempts"):
        ortoo.open(topic_defaults={"max_atempts": 1})
