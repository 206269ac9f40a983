"""Searching a topic, and reading it from its end: what matches, in which order, and how a search goes on."""

import asyncio
from collections.abc import AsyncIterator
from itertools import chain
from typing import Any

import pytest

from ortoo import InvalidError, NotFoundError, Queue
from ortoo.broker import searching
from ortoo.model import limits
from ortoo.testing import ManualClock

from .actors import publish, publish_apart, values


async def pages(queue: Queue, topic: str, *search: Any, **options: Any) -> AsyncIterator[list[bytes]]:
    place = None
    while True:
        found = await queue.search(topic, *search, next=place, **options)
        assert len(found.messages) <= found.scanned
        yield values(found.messages)
        place = found.next
        options = {name: value for name, value in options.items() if name in ("newest", "limit", "key")}
        if place is None:
            return


async def test_the_newest_come_first_over_all_partitions(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=3)
    for number in range(20):
        await queue.publish("orders", b"%d" % number, partition=number * 7 % 3)
        await clock.advance(1)
    wanted = [b"%d" % number for number in reversed(range(20))]
    found = await queue.search("orders")
    assert (values(found.messages), found.next, found.scanned, found.complete) == (wanted, None, 20, True)
    assert [page async for page in pages(queue, "orders", limit=6)] == [
        wanted[:6],
        wanted[6:12],
        wanted[12:18],
        wanted[18:],
    ]
    assert values((await queue.search("orders", newest=False)).messages) == wanted[::-1]
    ascending = [page async for page in pages(queue, "orders", limit=7, newest=False)]
    assert list(chain(*ascending)) == wanted[::-1]


async def test_a_page_at_the_end_says_so(queue: Queue) -> None:
    await publish(queue, "orders", b"1", b"2")
    found = await queue.search("orders", limit=2)
    assert len(found.messages) == 2
    assert found.next is None
    await queue.create_topic("empty")
    found = await queue.search("empty")
    assert (found.messages, found.next, found.scanned) == ([], None, 0)


async def test_only_what_matches_is_found(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=2)
    for number in range(10):
        await queue.publish(
            "orders", {"total": number}, key="ann" if number % 2 else "bob", headers={"source": f"shop {number % 3}"}
        )
        await clock.advance(1)
    found = await queue.search("orders", "value.total>=4 header.source:shop")
    assert [message.json()["total"] for message in found.messages] == [9, 8, 7, 6, 5, 4]
    found = await queue.search("orders", "value.total>=4", key="ann")
    assert [message.json()["total"] for message in found.messages] == [9, 7, 5]
    assert found.scanned == 10
    found = await queue.search("orders", 'key:bob header.source:"shop 0"', newest=False)
    assert [(message.json()["total"], message.key) for message in found.messages] == [(0, "bob"), (6, "bob")]


async def test_a_search_stays_within_times_offsets_and_a_partition(queue: Queue, clock: ManualClock) -> None:
    start = await publish_apart(queue, clock)
    found = await queue.search("orders", from_time=start + 10, to_time=start + 30)
    assert values(found.messages) == [b"2", b"1"]
    found = await queue.search("orders", from_offset=1, to_offset=2)
    assert values(found.messages) == [b"1"]
    await queue.create_topic("more", partitions=2)
    await queue.publish("more", b"a", partition=0)
    await queue.publish("more", b"b", partition=1)
    assert values((await queue.search("more", partition=1)).messages) == [b"b"]
    with pytest.raises(InvalidError, match="partitions 0 to 1"):
        await queue.search("more", partition=2)


async def test_a_search_looks_at_so_many_and_goes_on(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEARCHED_MAX", 30)
    await queue.create_topic("orders", partitions=2)
    await queue.publish_many("orders", [b"needle" if number in (3, 70) else b"hay" for number in range(100)])
    found, scanned, place = [], [], None
    while True:
        page = await queue.search("orders", "needle", next=place)
        found += values(page.messages)
        scanned.append(page.scanned)
        place = page.next
        if place is None:
            break
    assert found == [b"needle", b"needle"]
    assert scanned == [30, 30, 30, 10]


async def test_a_search_reads_so_many_bytes_and_goes_on(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEARCHED_BYTES_MAX", 5_000)
    monkeypatch.setattr(searching, "_BYTES_AT_ONCE", 2_000)
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", *(b"%d" % number * 1_000 for number in range(10)))
    found = await queue.search("orders", "nothing")
    assert 4 <= found.scanned <= 6
    assert found.next is not None


async def test_each_search_gets_on_however_large_the_messages_of_however_many_partitions(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SEARCHED_BYTES_MAX", 1)
    await queue.create_topic("orders", partitions=5)
    for number in range(5):
        await queue.publish("orders", b"x" * 100, partition=number)
    assert [len(page) async for page in pages(queue, "orders")] == [1] * 5


async def test_what_is_published_meanwhile_is_not_chased(queue: Queue) -> None:
    await publish(queue, "orders", b"1", b"2", b"3", b"4")
    found = await queue.search("orders", limit=2, newest=False)
    await queue.publish("orders", b"5")
    rest = await queue.search("orders", limit=100, newest=False, next=found.next)
    assert values(found.messages + rest.messages) == [b"1", b"2", b"3", b"4"]


async def test_deleted_messages_are_passed_over(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    sent = await publish(queue, "orders", *(b"%d" % number for number in range(10)))
    for number in (0, 4, 5, 9):
        await queue.delete_message(sent[number].id)
    left = [b"8", b"7", b"6", b"3", b"2", b"1"]
    assert values((await queue.search("orders")).messages) == left
    assert [page async for page in pages(queue, "orders", limit=4)] == [left[:4], left[4:]]


async def test_what_retention_removed_meanwhile_is_passed_over(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3")
    found = await queue.search("orders", limit=1)
    await queue.purge("orders")
    await queue.publish("orders", b"4")
    rest = await queue.search("orders", next=found.next)
    assert (rest.messages, rest.next) == ([], None)


async def test_a_continuation_is_of_one_topic_and_one_order(queue: Queue) -> None:
    await publish(queue, "orders", b"1", b"2", b"3")
    place = (await queue.search("orders", limit=1)).next
    with pytest.raises(InvalidError, match="in the order"):
        await queue.search("orders", newest=False, filter="x", next=place)
    with pytest.raises(InvalidError, match="give no other"):
        await queue.search("orders", next=place, partition=0)
    for bad in ("", "?", "AAAA", "k5cBwA"):
        with pytest.raises(InvalidError, match="not a continuation"):
            await queue.search("orders", next=bad)
    await queue.delete_topic("orders")
    await publish(queue, "orders", b"1", b"2", b"3")
    with pytest.raises(InvalidError, match="recreated"):
        await queue.search("orders", next=place)


async def test_what_is_no_search_is_refused(queue: Queue) -> None:
    await queue.publish("orders", b"1")
    with pytest.raises(InvalidError, match=r"value\.path"):
        await queue.search("orders", "value.total")
    with pytest.raises(InvalidError):
        await queue.search("orders", limit=0)
    with pytest.raises(NotFoundError):
        await queue.search("nowhere")


async def test_others_run_while_values_are_looked_into(queue: Queue) -> None:
    """Counted in turns of the event loop: each may look at a few hundred kilobytes."""
    value = b'{"n": [' + b"1," * 100_000 + b"1]}"
    await queue.publish_many("orders", [value] * 20)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await queue.search("orders", "value.m=1")
    counting.cancel()
    assert turns >= 10


async def test_few_large_messages_among_many_small_ones_are_not_read_together(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The average says little of what comes next."""
    monkeypatch.setattr(searching, "_READ_BYTES", 40_000)
    read: list[int] = []
    load = searching.Searcher._load

    async def loading(self: searching.Searcher, topic: Any, track: Any) -> None:
        before = self._bytes
        await load(self, topic, track)
        read.append(self._bytes - before)

    await queue.create_topic("orders", partitions=1, max_message_bytes=10_000)
    await queue.publish_many("orders", [b"s"] * 300)
    await queue.publish_many("orders", [b"l" * 10_000] * 20)
    monkeypatch.setattr(searching.Searcher, "_load", loading)
    found = await queue.search("orders", limit=1)
    assert len(found.messages) == 1
    assert sum(read) <= 40_000


async def test_headers_count_in_the_size_of_an_answer(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_ANSWER_BYTES", 10_000)
    await queue.create_topic("orders", partitions=1)
    for number in range(8):
        await queue.publish("orders", b"%d" % number, headers={"large": "x" * 4_000})
    found = [page async for page in pages(queue, "orders")]
    assert len(found[0]) == 3
    assert list(chain(*found)) == [b"%d" % number for number in reversed(range(8))]
