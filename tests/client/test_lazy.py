"""What `lease` and `publish_many` answer is like a list; its items are made when somebody looks at them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import ortoo
from ortoo.model import replies
from ortoo.model.message import Received
from ortoo.model.names import TopicId
from ortoo.stores.memory import MemoryStore
from ortoo.testing import open_manual


@pytest.fixture
async def queue() -> AsyncIterator[ortoo.Queue]:
    async with open_manual() as queue:
        await queue.create_topic("t", partitions=2)
        yield queue


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages were made, each time some were."""
    made: list[int] = []
    make = replies.to_received

    def counted(columns: replies.Columns, *args: object) -> list[Received]:
        made.append(len(columns))
        return make(columns, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(replies, "to_received", counted)
    return made


async def publish(queue: ortoo.Queue, count: int = 6) -> None:
    await queue.publish_many("t", [ortoo.Message(b"%d" % n, partition=n % 2) for n in range(count)])


async def test_to_settle_all_needs_none_of_them(queue: ortoo.Queue, made: list[int]) -> None:
    for settle in (queue.ack, queue.nack, queue.reject, queue.release, queue.extend):
        await publish(queue)
        messages = await queue.lease("t", max_messages=6)
        assert len(messages) == 6
        assert messages
        await settle(messages)
    async with queue.transaction() as transaction:
        await publish(queue)
        transaction.ack(await queue.lease("t", max_messages=6))
    assert made == []


async def test_batches_of_a_stream_are_made_late_too(queue: ortoo.Queue, made: list[int]) -> None:
    await publish(queue, 10)
    sizes = []
    async with queue.consume_batches("t", max_messages=3, wait=0) as batches:
        async for messages in batches:
            await queue.ack(messages)
            sizes.append(len(messages))
    assert sizes == [3, 3, 3, 1]
    assert made == []
    assert (await queue.group("t")).backlog == 0


async def test_what_is_behind_a_failure_is_taken_out_of_the_batches_to_come(queue: ortoo.Queue) -> None:
    await queue.create_topic("u", partitions=1)
    await queue.publish_many("u", [ortoo.Message(b"%d" % n, key="k" if n % 2 else "other") for n in range(8)])
    values = []
    async with queue.consume_batches("u", max_messages=2, wait=0) as batches:
        async for messages in batches:
            failed = [message for message in messages if message.value == b"1"]
            await queue.nack(failed, delay=60)
            await queue.ack([message for message in messages if message not in failed])
            values += [message.value for message in messages]
    assert values == [b"0", b"1", b"2", b"4", b"6"]


async def test_they_are_made_once(queue: ortoo.Queue, made: list[int]) -> None:
    await publish(queue)
    messages = await queue.lease("t", max_messages=6)
    assert [message.value for message in messages] == [message.value for message in messages]
    assert messages[0] is messages[0]
    assert sum(made) == 6


async def test_it_is_like_a_list(queue: ortoo.Queue) -> None:
    await publish(queue)
    messages = await queue.lease("t", max_messages=6)
    as_list = list(messages)
    assert messages == as_list
    assert as_list == messages
    assert messages != as_list[1:]
    assert messages[-1] is as_list[5]
    assert messages[1:3] == as_list[1:3]
    assert messages + as_list == 2 * as_list
    assert list(reversed(messages)) == as_list[::-1]
    assert as_list[2] in messages
    assert messages.index(as_list[2]) == 2
    assert repr(messages) == repr(as_list)
    assert messages.to_list() == as_list
    assert messages.to_list() is not messages.to_list()
    assert await queue.lease("t") == []
    gathered: list[Received] = []
    held = gathered
    held += messages
    assert gathered == as_list  # the same list grew
    with pytest.raises(IndexError):
        messages[6]
    with pytest.raises(TypeError):
        hash(messages)


async def test_where_messages_lie(queue: ortoo.Queue) -> None:
    sent = await queue.publish_many("t", [ortoo.Message(b"v", partition=n % 2, dedup_id=str(n // 4)) for n in range(8)])
    assert len(sent) == 8
    assert [one.duplicate for one in sent] == 2 * [False, True, True, True]
    assert [(one.partition, one.offset) for one in sent] == 4 * [(0, 0)] + 4 * [(0, 1)]
    assert sent[4].id == (await queue.lease("t", partition=0, max_messages=2))[1].id


async def test_several_callers_each_get_where_their_own_lie(queue: ortoo.Queue) -> None:
    first, second, third, one = await asyncio.gather(
        queue.publish_many("t", [ortoo.Message(b"v", partition=0)] * 2),
        queue.publish_many("t", [ortoo.Message(b"v", partition=0)] * 3),
        queue.publish_many("t", [ortoo.Message(b"v", partition=0)]),
        queue.publish("t", b"v", partition=0),
    )
    assert sorted(sent.offset for sent in [*first, *second, *third, one]) == list(range(7))
    assert [len(sent) for sent in (first, second, third)] == [2, 3, 1]


async def test_a_batch_of_which_all_is_gone_by_now_is_not_handed_out(
    queue: ortoo.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(queue, 2)
    read = MemoryStore.read

    async def purge_and_read(store: MemoryStore, topic: TopicId, partition: int, offsets: list[int]) -> replies.Columns:
        if partition == 1:  # while a lease of both partitions is read
            monkeypatch.setattr(MemoryStore, "read", read)
            await queue.purge("t")
        return await read(store, topic, partition, offsets)

    monkeypatch.setattr(MemoryStore, "read", purge_and_read)
    sizes = [len(batch) async for batch in queue.consume_batches("t", wait=0, max_messages=1)]
    assert sizes == [1]
