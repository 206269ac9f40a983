"""However large the messages, one answer stays within bounds, and nothing is lost by that."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ortoo
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate, portion
from ortoo.model import limits
from ortoo.model.replies import Columns
from ortoo.model.settings import LimitSettings
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock

MIB = 1024 * 1024
COUNT = 3 * limits.ANSWER_BYTES_MAX // MIB


async def filled(queue: ortoo.Queue) -> None:
    await queue.create_topic("large", partitions=2, ordering="none")
    for number in range(COUNT):
        await queue.publish("large", b"%d " % number + b"x" * (MIB - 10))


async def link() -> ortoo.Queue:
    broker = Broker(MemoryStore(), ManualClock())
    await broker.open()
    gate = Gate("test", broker, Authenticator(), LimitSettings(), Budget(1 << 30))
    return ortoo.Queue(gate.admit(None))


def size(messages: Sequence[ortoo.Received]) -> int:
    return sum(len(message.value) for message in messages)


async def test_a_lease_through_a_door_takes_what_fits_and_the_rest_stays_ready() -> None:
    queue = await link()
    await filled(queue)
    seen: list[str] = []
    while messages := await queue.lease("large", max_messages=1000):
        assert size(messages) <= limits.ANSWER_BYTES_MAX
        assert {message.attempt for message in messages} == {1}
        await queue.ack(messages)
        seen += [message.id for message in messages]
    assert len(seen) == len(set(seen)) == COUNT


async def test_a_lease_that_acks_by_itself_loses_nothing_to_the_bound() -> None:
    queue = await link()
    await filled(queue)
    seen: list[str] = []
    while messages := await queue.lease("large", max_messages=1000, auto_ack=True):
        assert size(messages) <= 2 * limits.ANSWER_BYTES_MAX
        seen += [message.id for message in messages]
    assert len(seen) == len(set(seen)) == COUNT


async def test_giants_among_small_messages_do_not_make_an_answer_that_no_frame_holds() -> None:
    queue = await link()
    await queue.create_topic("mixed", partitions=1, ordering="none")
    await queue.publish_many("mixed", [b"small"] * 10_000)
    for _ in range(COUNT):
        await queue.publish("mixed", bytes(MIB))
    seen = 0
    while messages := await queue.lease("mixed", max_messages=10_000, auto_ack=True):
        assert size(messages) <= 2 * limits.ANSWER_BYTES_MAX
        seen += len(messages)
    assert seen == 10_000 + COUNT


async def test_replay_goes_on_where_a_page_was_cut() -> None:
    queue = await link()
    await filled(queue)
    assert [message.offset async for message in queue.read("large", partition=0)] == list(range(COUNT // 2))
    batches = [batch async for batch in queue.read_batches("large", partition=0, batch=1000)]
    assert len(batches) > 1
    assert all(size(batch) <= limits.ANSWER_BYTES_MAX for batch in batches)


async def test_a_message_larger_than_an_answer_should_be_still_comes() -> None:
    queue = await link()
    await queue.create_topic("huge", max_message_bytes=limits.ANSWER_BYTES_MAX + MIB, partitions=1)
    await queue.publish_many("huge", [bytes(limits.ANSWER_BYTES_MAX + 1), b"small"])
    assert [len(message.value) for message in await queue.lease("huge", max_messages=2)] == [
        limits.ANSWER_BYTES_MAX + 1
    ]
    assert [message.value for message in await queue.lease("huge", max_messages=2)] == [b"small"]


async def test_headers_and_keys_count() -> None:
    queue = await link()
    await queue.create_topic("headed", partitions=1, ordering="none")
    headers = {str(number): "x" * 300 for number in range(100)}
    count = 2 * limits.ANSWER_BYTES_MAX // 30_000
    for _ in range(0, count, 100):
        await queue.publish_many("headed", [ortoo.Message(b"", headers=headers)] * 100)
    seen = 0
    while messages := await queue.lease("headed", max_messages=10_000):
        assert len(messages) * 30_000 <= limits.ANSWER_BYTES_MAX
        assert {message.attempt for message in messages} == {1}
        await queue.ack(messages)
        seen += len(messages)
    assert seen >= count
    assert (await queue.topic("headed")).bytes > 2 * limits.ANSWER_BYTES_MAX


async def test_dead_letters_count_with_all_their_bytes() -> None:
    queue = await link()
    await queue.create_topic("large", partitions=1, ordering="none", max_attempts=1)
    for _ in range(COUNT):
        await queue.publish("large", bytes(MIB))
    while messages := await queue.lease("large", max_messages=10_000):
        await queue.reject(messages)
    assert (await queue.topic("large.dlq")).bytes >= COUNT * MIB
    seen = 0
    while messages := await queue.lease("large.dlq", max_messages=10_000):
        assert size(messages) <= limits.ANSWER_BYTES_MAX
        await queue.ack(messages)
        seen += len(messages)
    assert seen == COUNT


async def test_an_embedded_lease_is_bounded_too_also_across_topics() -> None:
    async with ortoo.open() as queue:
        for topic in ("a", "b"):
            await queue.create_topic(topic, labels={"task": "t"})
            for _ in range(COUNT // 2):
                await queue.publish(topic, bytes(MIB))
        seen = 0
        while messages := await queue.lease(labels={"task": "t"}, max_messages=10_000):
            assert size(messages) <= limits.ANSWER_BYTES_MAX
            await queue.ack(messages)
            seen += len(messages)
        assert seen == 2 * (COUNT // 2)


async def test_bytes_are_the_same_after_dead_letters_and_a_restart(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path) as queue:
        await queue.create_topic("orders", max_attempts=1)
        for number in range(5):
            await queue.publish("orders", bytes(100 * number), key="k", headers={"a": "b"})
            await queue.reject(await queue.lease("orders"))
        before = [info.bytes for info in await queue.topics()]
        assert min(before) > 1000
    async with ortoo.open(tmp_path) as queue:
        assert [info.bytes for info in await queue.topics()] == before


def content(messages: Sequence[ortoo.Received]) -> int:
    return sum(len(m.value) + len(m.key or "") + len("".join(chain(*m.headers.items()))) for m in messages)


@pytest.mark.parametrize("auto_ack", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_large_each_answer_is_bounded_and_each_message_comes_once(
    seed: int, auto_ack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leased, read again, or given up and leased as a dead letter."""
    room, random = 5_000, Random(seed)
    monkeypatch.setattr(portion, "ROOM", room)
    monkeypatch.setattr(limits, "ANSWER_BYTES_MAX", room)

    def message() -> ortoo.Message:
        value, key, header = random.randrange(3_000), random.randrange(300), random.randrange(3_000)
        return ortoo.Message(bytes(value), key="k" * key or None, headers={"h": "x" * header})

    async with ortoo.open() as queue:
        await queue.create_topic("orders", partitions=2, ordering="none", labels={"task": "t"})
        for _ in range(10):
            await queue.publish_many("orders", [message() for _ in range(6)])

        await queue.create_group("orders", "default")
        listed = await queue.messages("orders", limit=60)
        assert listed
        assert len(listed) == 1 or content(listed) <= room

        async def take(**which: Any) -> list[ortoo.Received]:
            seen: list[ortoo.Received] = []
            while found := await queue.lease(**which, max_messages=random.randrange(1, 60), auto_ack=auto_ack):
                assert len(found) == 1 or content(found) <= room
                assert {m.attempt for m in found} == {1}
                seen += found
                if not auto_ack:
                    await random.choice([queue.ack, queue.reject])(found)
            assert len({m.id for m in seen}) == len(seen)
            return seen

        assert len(await take(labels={"task": "t"})) == 60
        dead = 0 if auto_ack else (await queue.group("orders")).dead
        assert len(await take(topic="orders.dlq") if dead else []) == dead
        for topic in await queue.topics():
            pages = [
                page
                for partition in range(len(topic.partitions))
                async for page in queue.read_batches(topic.name, partition=partition, batch=random.randrange(1, 60))
            ]
            assert all(len(page) == 1 or content(page) <= room for page in pages)
            assert sum(map(len, pages)) == (60 if topic.name == "orders" else dead)
            assert topic.bytes >= sum(map(content, pages))


def test_names_of_publishers_count_where_each_message_has_its_own() -> None:
    """One that they share goes out once, and takes no room to speak of."""
    names = [f"{number:04}".ljust(limits.NAME_BYTES_MAX, "x") for number in range(1000)]
    rows = (list(range(1000)), [b""] * 1000, [0] * 1000)
    room = 100_000
    count, size = portion.fit(Columns(*rows, publishers=[*names]), room)
    assert 0 < sum(map(len, names[:count])) <= size <= room
    assert portion.fit(Columns(*rows, publishers=names[0]), room)[0] == 1000
