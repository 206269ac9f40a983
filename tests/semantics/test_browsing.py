"""Lists of messages by their state, page by page; and what a seek would do, told before it is done."""

from itertools import chain

import pytest

from ortoo import InvalidError, NotFoundError, Queue
from ortoo.model import limits
from ortoo.model.browsing import SeekPreview
from ortoo.model.replies import MessageState
from ortoo.testing import ManualClock

from .actors import publish, publish_apart, take, values


async def all_pages(queue: Queue, state: MessageState, limit: int, group: str = "default") -> list[list[bytes]]:
    found, place = [], None
    while True:
        page = await queue.messages_page("orders", group=group, state=state, limit=limit, next=place)
        found.append(values(page.messages))
        place = page.next
        if place is None:
            return found


async def test_pages_go_on_over_all_partitions(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=3)
    await queue.create_group("orders", "default")
    for number in range(10):
        await queue.publish("orders", b"%d" % number, partition=number % 3)
    got = await all_pages(queue, "ready", 4)
    assert [len(page) for page in got] == [4, 4, 2]
    assert list(chain(*got)) == [b"0", b"3", b"6", b"9", b"1", b"4", b"7", b"2", b"5", b"8"]


@pytest.mark.parametrize("ordering", ["none", "key", "partition"])
async def test_each_state_is_listed_whole_whatever_the_pages(queue: Queue, ordering: str) -> None:
    await queue.create_topic("orders", partitions=2, ordering=ordering, max_attempts=1)
    for number in range(24):
        await queue.publish("orders", b"%02d" % number, key="abc"[number % 3], delay=60 if number > 20 else None)
    leased = await take(queue, "orders", 6)
    await queue.ack(leased[:2])
    await queue.reject(leased[2:3])
    states: tuple[MessageState, ...] = ("ready", "delayed", "leased", "blocked", "done", "dead")
    for state in states:
        whole = values(await queue.messages("orders", state=state, limit=100))
        for limit in (1, 3, 100):
            assert list(chain(*await all_pages(queue, state, limit))) == whole, (state, limit)


async def test_a_page_may_have_looked_at_many_and_found_none(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a key that is leased, so many fresh messages are looked up at a time, and the next page goes on."""
    monkeypatch.setattr(limits, "SCAN_MESSAGES_MAX", 50)
    await queue.create_topic("orders", partitions=1, ordering="key")
    for _ in range(120):
        await queue.publish("orders", b"a", key="a")
    await queue.publish("orders", b"b", key="b")
    await take(queue, "orders", 1)
    got = await all_pages(queue, "ready", 10)
    assert list(chain(*got)) == [b"b"]
    assert len(list(chain(*await all_pages(queue, "blocked", 30)))) == 119


async def test_large_messages_come_on_more_pages(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    await queue.create_topic("orders", partitions=2)
    await queue.create_group("orders", "default")
    for number in range(6):
        await queue.publish("orders", b"%d" % number * 1_000, partition=number % 2)
    monkeypatch.setattr(limits, "ANSWER_BYTES_MAX", 2_500)
    got = await all_pages(queue, "ready", 100)
    assert [value[:1] for value in list(chain(*got))] == [b"0", b"2", b"4", b"1", b"3", b"5"]
    assert max(map(len, got)) <= 2


async def test_what_is_no_page_is_refused(queue: Queue) -> None:
    await queue.publish("orders", b"1")
    await queue.create_group("orders", "default")
    for bad in ("", "x", "1", "1.x", "-1.0", "1.2.3", "9" * 30 + ".1"):
        with pytest.raises(InvalidError, match="not a continuation"):
            await queue.messages_page("orders", next=bad)
    assert (await queue.messages_page("orders", next="7.0")).messages == []
    with pytest.raises(NotFoundError):
        await queue.messages_page("orders", group="nobody")


# -- what a seek would do


async def check_seek(queue: Queue, *at: str, **place: float | None) -> SeekPreview:
    """What is told comes true."""
    before = await queue.group("orders")
    told = await queue.preview_seek("orders", "default", *at, **place)  # type: ignore[arg-type]
    assert await queue.group("orders") == before
    await queue.seek("orders", "default", *at, **place)  # type: ignore[arg-type]
    after = await queue.group("orders")
    assert told.leased == before.leased
    if "to_offset" not in place and "to_time" not in place:
        assert after.backlog == told.messages
    return told


async def test_it_tells_what_would_come_again_and_what_would_be_left(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=2)
    for number in range(10):
        await queue.publish("orders", b"%d" % number, partition=number % 2)
    await queue.ack(await take(queue, "orders", 4))
    await take(queue, "orders", 3)
    assert await check_seek(queue, "start") == SeekPreview(10, 0, 3)
    await queue.ack(await take(queue, "orders", 4))
    await take(queue, "orders", 1)
    assert await check_seek(queue, "end") == SeekPreview(0, 6, 1)
    assert await check_seek(queue, offset=4) == SeekPreview(2, 0, 0)


async def test_it_tells_of_times(queue: Queue, clock: ManualClock) -> None:
    start = await publish_apart(queue, clock)
    await queue.create_group("orders", "default")
    assert await check_seek(queue, time=start + 20) == SeekPreview(2, 2, 0)


async def test_it_tells_of_a_stretch(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    sent = await publish(queue, "orders", *(b"%d" % number for number in range(10)))
    await queue.ack(await take(queue, "orders", 10))
    await queue.delete_message(sent[4].id)
    assert await check_seek(queue, offset=2, to_offset=6) == SeekPreview(3, 0, 0)
    assert (await queue.group("orders")).backlog == 3


async def test_what_is_gone_would_not_come_again(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", partitions=1)
    sent = await publish(queue, "orders", b"1", b"2", b"3")
    await queue.publish("orders", b"4", ttl=5)
    await queue.ack(await take(queue, "orders", 1))
    await queue.delete_message(sent[1].id)
    await clock.advance(10)
    assert await check_seek(queue, "start") == SeekPreview(2, 0, 0)


async def test_a_preview_needs_a_place_and_a_group(queue: Queue) -> None:
    await queue.publish("orders", b"1")
    with pytest.raises(NotFoundError):
        await queue.preview_seek("orders", "nobody", "start")
    with pytest.raises(InvalidError, match=r"where to|give one of"):
        await queue.preview_seek("orders", "default")
