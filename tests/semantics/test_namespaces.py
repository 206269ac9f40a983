"""Namespaces: which there are, what is in them, and how much that may be. Rates and connections are the doors'."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ortoo import ExistsError, FullError, InvalidError, NotFoundError, Queue, Quota, TooManyError
from ortoo.broker import Broker
from ortoo.stores.disk import open_directory
from ortoo.testing import ManualClock

from .actors import settle
from .refusing import refused

SHOP = "shop"


async def names(queue: Queue) -> list[str]:
    return [info.name for info in await queue.namespaces()]


async def test_a_namespace_is_there_from_its_first_topic_to_its_last(queue: Queue) -> None:
    assert await names(queue) == []
    await queue.publish("orders", b"tea", namespace=SHOP)
    [info] = await queue.namespaces()
    assert (info.name, info.topics, info.groups, info.messages, info.bytes) == (SHOP, 1, 0, 1, 3)
    assert info.quota == Quota()
    await queue.delete_topic("orders", namespace=SHOP)
    assert await names(queue) == []


async def test_one_that_was_created_stays_until_it_is_deleted(queue: Queue) -> None:
    info = await queue.set_namespace(SHOP)
    assert (info.name, info.topics, info.quota) == (SHOP, 0, Quota())
    await queue.publish("orders", b"tea", namespace=SHOP)
    with pytest.raises(ExistsError, match="has 1 topic; delete"):
        await queue.delete_namespace(SHOP)
    await queue.delete_topic("orders", namespace=SHOP)
    assert await names(queue) == [SHOP]
    await queue.delete_namespace(SHOP)
    assert await names(queue) == []
    with pytest.raises(NotFoundError, match="no namespace 'shop'"):
        await queue.delete_namespace(SHOP)


async def test_a_quota_replaces_all_of_the_one_before(queue: Queue) -> None:
    assert (await queue.set_namespace(SHOP, topics=3, connections=5)).quota == Quota(topics=3, connections=5)
    assert (await queue.set_namespace(SHOP, Quota(groups=2))).quota == Quota(groups=2)
    assert (await queue.set_namespace(SHOP)).quota == Quota()


async def test_a_quota_that_makes_no_sense_is_refused(queue: Queue) -> None:
    for name, limit in (("topics", -1), ("topics", 2**63), ("topics", "3"), ("messages", 3)):
        wrong: dict[str, Any] = {name: limit}
        with pytest.raises(InvalidError, match=name):
            await queue.set_namespace(SHOP, **wrong)
    await refused(queue, lambda queue: queue.set_namespace("a\nb"), InvalidError, "control characters")


async def test_topics_beyond_the_quota_are_refused_however_they_are_made(queue: Queue) -> None:
    await queue.set_namespace(SHOP, topics=1)
    await queue.create_topic("orders", namespace=SHOP)
    await queue.create_topic("orders", namespace=SHOP)  # it is there
    await queue.create_topic("orders")  # elsewhere
    words = "may have 1 topics, its quota"
    await refused(queue, lambda queue: queue.create_topic("mails", namespace=SHOP), TooManyError, words)
    await refused(queue, lambda queue: queue.publish("mails", b"", namespace=SHOP), TooManyError, words)
    with pytest.raises(TooManyError, match=words):
        async with queue.transaction(namespace=SHOP) as tx:
            tx.publish("orders", b"1")
            tx.publish("mails", b"2")
    assert (await queue.topic("orders", namespace=SHOP)).messages == 0
    staged = await queue.begin("tx", namespace=SHOP)
    with pytest.raises(TooManyError, match=words):
        await staged.publish("mails", b"")
    await queue.delete_topic("orders", namespace=SHOP)
    await queue.publish("mails", b"", namespace=SHOP)


async def test_one_command_does_not_make_more_topics_than_the_quota_allows(queue: Queue) -> None:
    await queue.set_namespace(SHOP, topics=2)
    with pytest.raises(TooManyError):
        async with queue.transaction(namespace=SHOP) as tx:
            for name in ("a", "b", "c"):
                tx.publish(name, b"")
    assert await queue.topics(namespace=SHOP) == []


async def test_a_commit_is_refused_when_its_topics_are_too_many_by_then(queue: Queue) -> None:
    staged = await queue.begin("tx", namespace=SHOP)
    await staged.publish("a", b"")
    await staged.publish("b", b"")
    await queue.set_namespace(SHOP, topics=1)
    with pytest.raises(TooManyError):
        await staged.commit()
    await queue.set_namespace(SHOP, topics=2)
    assert await staged.commit() == 2


async def test_groups_beyond_the_quota_are_refused_however_they_are_made(queue: Queue) -> None:
    await queue.set_namespace(SHOP, groups=1)
    for name in ("orders", "mails"):
        await queue.create_topic(name, namespace=SHOP, labels={"task": "t"})
    await queue.create_group("orders", "billing", namespace=SHOP)
    await queue.lease("orders", group="billing", namespace=SHOP)  # it is there
    words = "may have 1 groups in all its topics"
    await refused(queue, lambda queue: queue.create_group("mails", "a", namespace=SHOP), TooManyError, words)
    await refused(queue, lambda queue: queue.lease("mails", namespace=SHOP), TooManyError, words)
    labels = {"task": "t"}
    await refused(queue, lambda q: q.lease(labels=labels, group="billing", namespace=SHOP), TooManyError, words)
    await queue.delete_group("orders", "billing", namespace=SHOP)
    await queue.lease("mails", namespace=SHOP)


async def test_bytes_beyond_the_quota_are_refused_with_words_that_help(queue: Queue) -> None:
    await queue.set_namespace(SHOP, stored_bytes=10)
    await queue.publish("orders", b"123456", namespace=SHOP)
    await queue.publish("orders", b"no matter how large")  # elsewhere
    words = "may store 10 bytes, its quota, and has no room for 5 more"
    await refused(queue, lambda queue: queue.publish("mails", b"12345", namespace=SHOP), FullError, words)
    await refused(queue, lambda queue: queue.publish("mails", b"x" * 11, namespace=SHOP), InvalidError, "11 by itself")
    assert [info.name for info in await queue.topics(namespace=SHOP)] == ["orders"]
    await queue.publish("mails", b"1234", namespace=SHOP)
    [info] = [info for info in await queue.namespaces() if info.name == SHOP]
    assert info.bytes == 10


async def test_purging_deleting_and_raising_the_quota_make_room(queue: Queue) -> None:
    await queue.set_namespace(SHOP, stored_bytes=10)

    async def fill() -> None:
        await queue.publish("orders", b"1234567890", namespace=SHOP)
        with pytest.raises(FullError):
            await queue.publish("mails", b"1", namespace=SHOP)

    await fill()
    await queue.purge("orders", namespace=SHOP)
    await fill()
    await queue.delete_topic("orders", namespace=SHOP)
    await fill()
    await queue.set_namespace(SHOP, stored_bytes=11)
    await queue.publish("mails", b"1", namespace=SHOP)


async def test_acks_make_room_where_retention_removes_what_is_done(queue: Queue, clock: ManualClock) -> None:
    await queue.set_namespace(SHOP, stored_bytes=10)
    await queue.create_topic("orders", namespace=SHOP, retention_done_seconds=0, partitions=1)
    await queue.publish("orders", b"1234567890", namespace=SHOP)
    [message] = await queue.lease("orders", namespace=SHOP)
    with pytest.raises(FullError):
        await queue.publish("orders", b"1", namespace=SHOP)
    await queue.ack(message)
    await clock.advance(30_000)
    await queue.publish("orders", b"1", namespace=SHOP)


async def test_who_waits_for_room_gets_what_another_topic_of_the_namespace_frees(queue: Queue) -> None:
    await queue.set_namespace(SHOP, stored_bytes=10)
    await queue.publish("orders", b"1234567890", namespace=SHOP)
    waiting = asyncio.create_task(queue.publish("mails", b"1", namespace=SHOP, wait=60))
    other = asyncio.create_task(queue.publish("orders", b"2", namespace=SHOP, wait=60))
    await settle()
    await queue.purge("orders", namespace=SHOP)
    await waiting
    await other


async def test_bytes_of_one_transaction_count_together(queue: Queue) -> None:
    await queue.set_namespace(SHOP, stored_bytes=10)
    await queue.publish("orders", b"1", namespace=SHOP)
    with pytest.raises(FullError):
        async with queue.transaction(namespace=SHOP) as tx:
            tx.publish("orders", b"12345")
            tx.publish("mails", b"12345")
    async with queue.transaction(namespace=SHOP) as tx:
        tx.publish("orders", b"12345")
        tx.publish("mails", b"1234")


async def test_what_is_staged_has_its_room_until_it_is_committed_or_aborted(queue: Queue) -> None:
    await queue.set_namespace(SHOP, stored_bytes=1000)
    staged = await queue.begin("tx", namespace=SHOP)
    await staged.publish("orders", b"x" * 600)
    with pytest.raises(FullError):
        await queue.publish("orders", b"x" * 600, namespace=SHOP)
    other = await queue.begin("other", namespace=SHOP)
    with pytest.raises(FullError):
        await other.publish("orders", b"x" * 600)
    assert (await queue.namespaces())[0].bytes >= 600
    await staged.commit()
    assert (await queue.namespaces())[0].bytes == 600
    with pytest.raises(FullError):
        await queue.publish("orders", b"x" * 600, namespace=SHOP)
    await queue.publish("orders", b"x" * 300, namespace=SHOP)
    await queue.purge("orders", namespace=SHOP)
    await other.publish("orders", b"x" * 600)
    await other.abort()
    await queue.publish("orders", b"x" * 1000, namespace=SHOP)


async def test_what_is_a_duplicate_takes_no_room(queue: Queue) -> None:
    await queue.set_namespace(SHOP, stored_bytes=10)
    await queue.publish("orders", b"1234567890", namespace=SHOP, dedup_id="a")
    assert (await queue.publish("orders", b"1234567890", namespace=SHOP, dedup_id="a")).duplicate


@pytest.mark.parametrize("checkpoint", [False, True])
async def test_namespaces_and_their_quotas_survive_a_restart(tmp_path: Path, checkpoint: bool) -> None:
    broker = Broker(open_directory(tmp_path / "data"), ManualClock())
    async with Queue(broker) as queue:
        await queue.set_namespace(SHOP, stored_bytes=10, messages_per_minute=60)
        await queue.set_namespace("gone")
        await queue.delete_namespace("gone")
        await queue.publish("orders", b"1234567890", namespace=SHOP)
        before = await queue.namespaces()
        await broker.close(checkpoint=checkpoint)
    async with Queue(Broker(open_directory(tmp_path / "data"), ManualClock())) as queue:
        assert await queue.namespaces() == before
        with pytest.raises(FullError):
            await queue.publish("orders", b"1", namespace=SHOP)
