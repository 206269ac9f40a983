"""Settling without receipts: by message ids and dedup ids, whoever has leased the messages."""

from __future__ import annotations

from pathlib import Path

import pytest

import ortoo
from ortoo import InvalidError, Queue
from ortoo.broker import Broker
from ortoo.model.commands import Once, SettleById
from ortoo.model.names import parse_message_id
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk
from ortoo.testing import ManualClock, open_manual

from .actors import is_stale, publish, take
from .conftest import entering


async def test_a_message_is_acked_by_its_id(queue: Queue) -> None:
    sent = await queue.publish("orders", b"1")
    await queue.lease("orders", group="g", consumer="somebody")
    assert await queue.ack_by_id(sent.id, group="g") == ["settled"]
    assert (await queue.message(sent.id)).states["g"] == "done"


async def test_a_message_is_acked_by_its_dedup_id(queue: Queue) -> None:
    await queue.publish("orders", b"1", dedup_id="order-17")
    await queue.lease("orders")
    assert await queue.ack_by_id(dedup_ids="order-17", topic="orders") == ["settled"]
    assert (await queue.group("orders")).backlog == 0


async def test_it_is_looked_for_in_all_topics_of_the_namespace(queue: Queue) -> None:
    """Where several have it, the one that is leased counts."""
    for topic in ("a", "b", "c"):
        await queue.publish(topic, topic, dedup_id="same")
        await queue.create_group(topic, "g")
    await queue.lease("b", group="g")
    assert await queue.ack_by_id(dedup_ids=["same"], group="g") == ["settled"]
    assert [(await queue.group(topic, "g")).backlog for topic in ("a", "b", "c")] == [1, 0, 1]


async def test_each_id_is_answered_in_its_place(queue: Queue) -> None:
    ids = [(await queue.publish("orders", b"%d" % number, dedup_id=f"d{number}")).id for number in range(4)]
    await queue.create_group("orders", "g")
    first, second = await take(queue, "orders", 2, group="g")
    await first.ack()
    asked = [ids[3], "9999.0.0", ids[1], ids[0], f"{ids[0]}7"]
    states = ["lost", "unknown", "settled", "done", "unknown"]
    assert await queue.ack_by_id(asked, dedup_ids=["d2", "d9", "d0"], group="g") == [*states, "lost", "unknown", "done"]
    assert await is_stale(queue, second) is False  # acked, so acking it again is fine
    assert (await queue.group("orders", "g")).backlog == 2


async def test_a_group_that_is_not_there_has_leased_nothing(queue: Queue) -> None:
    sent = await queue.publish("orders", b"1", dedup_id="d")
    assert await queue.ack_by_id(sent.id, group="nobody") == ["lost"]
    assert await queue.ack_by_id(dedup_ids="d", topic="orders", group="nobody") == ["lost"]
    assert [group.name for group in await queue.groups("orders")] == []


async def test_only_the_lease_of_that_group_is_settled(queue: Queue) -> None:
    sent = await queue.publish("orders", b"1")
    for group in ("g", "h"):
        await queue.lease("orders", group=group)
    assert await queue.ack_by_id(sent.id, group="g") == ["settled"]
    assert (await queue.message(sent.id)).states == {"g": "done", "h": "leased"}


async def test_named_twice_it_is_settled_once(queue: Queue) -> None:
    sent = await queue.publish("orders", b"1", dedup_id="d")
    await queue.lease("orders")
    states = await queue.nack_by_id([sent.id, sent.id], dedup_ids=["d"], delay=0)
    assert states == ["settled", "done", "done"]
    [again] = await queue.lease("orders")
    assert again.attempt == 2
    assert await queue.ack_by_id([sent.id] * 3) == ["settled", "done", "done"]


@pytest.mark.parametrize("outcome", ["nack", "reject", "release"])
async def test_every_outcome_is_as_with_a_receipt(queue: Queue, clock: ManualClock, outcome: str) -> None:
    sent = await queue.publish("orders", b"1")
    [old] = await queue.lease("orders")
    options = {} if outcome == "release" else {"error": "boom"}
    assert await getattr(queue, f"{outcome}_by_id")(sent.id, **options) == ["settled"]
    assert await is_stale(queue, old)
    await clock.advance(3600)
    if outcome == "reject":
        [letter] = await queue.dead_letters("orders")
        assert letter.headers["ortoo-error"] == "boom"
        assert await queue.ack_by_id(sent.id) == ["done"]
    else:
        [again] = await queue.lease("orders")
        assert again.attempt == (2 if outcome == "nack" else 1)


@pytest.mark.parametrize("outcome", ["nack", "release"])
async def test_what_goes_back_takes_the_later_ones_of_its_key_along(queue: Queue, outcome: str) -> None:
    await publish(queue, "orders", b"1", b"2", b"3", key="k")
    await publish(queue, "orders", b"other", key="o")
    leased = await take(queue, "orders")
    second = leased[1]
    assert await getattr(queue, f"{outcome}_by_id")(second.id) == ["settled"]
    stale = [message.value for message in leased if await is_stale(queue, message)]
    assert stale == [b"2", b"3"]


async def test_whoever_has_leased_it_last_is_meant(queue: Queue, clock: ManualClock) -> None:
    sent = await queue.publish("orders", b"1")
    await queue.lease("orders", consumer="dead", lease=5)
    await clock.advance(6)
    assert await queue.ack_by_id(sent.id) == ["lost"]
    await clock.advance(60)
    [again] = await queue.lease("orders", consumer="alive")
    assert await queue.ack_by_id(sent.id) == ["settled"]
    assert await is_stale(queue, again) is False
    assert (await queue.group("orders")).backlog == 0


async def test_leases_are_extended_by_id(queue: Queue, clock: ManualClock) -> None:
    one = await queue.publish("orders", b"1", dedup_id="d1")
    two = await queue.publish("orders", b"2")
    await queue.lease("orders", lease=5)
    assert await queue.extend_by_id([one.id, two.id], dedup_ids="d1", seconds=60) == ["settled", "lost", "done"]
    await clock.advance(30)
    assert (await queue.message(one.id)).states["default"] == "leased"
    await clock.advance(31)
    assert (await queue.message(one.id)).states["default"] != "leased"


async def test_a_foreign_namespace_is_unknown(queue: Queue) -> None:
    sent = await queue.publish("orders", b"1", dedup_id="d", namespace="theirs")
    await queue.lease("orders", namespace="theirs")
    assert await queue.ack_by_id(sent.id, dedup_ids="d") == ["unknown", "unknown"]
    assert await queue.ack_by_id(sent.id, topic="other", namespace="theirs") == ["unknown"]
    assert await queue.ack_by_id(dedup_ids="d", namespace="theirs") == ["settled"]


async def test_a_message_that_is_gone_is_unknown(queue: Queue) -> None:
    sent = await queue.publish("orders", b"1", dedup_id="d")
    await queue.lease("orders")
    await queue.delete_message(sent.id)
    assert await queue.ack_by_id(sent.id, dedup_ids="d") == ["unknown", "unknown"]
    await queue.delete_topic("orders")
    assert await queue.ack_by_id(sent.id, dedup_ids="d") == ["unknown", "unknown"]


async def test_a_dedup_id_is_good_past_its_window_while_it_is_leased(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", dedup_window=60)
    sent = await queue.publish("orders", b"1", dedup_id="old")
    await queue.publish("orders", b"2", dedup_id="unleased")
    await queue.lease("orders", lease=3600)
    await clock.advance(600)
    assert await queue.find_messages(["old", "unleased"]) == [None, None]
    assert await queue.find_messages(["old", "unleased"], group="default") == [sent.id, None]
    assert await queue.ack_by_id(dedup_ids=["unleased", "old", "old"]) == ["unknown", "settled", "done"]
    assert await queue.ack_by_id(dedup_ids=["old"]) == ["unknown"]


async def test_what_is_leased_later_is_found_too(queue: Queue, clock: ManualClock) -> None:
    await queue.create_topic("orders", dedup_window=60, lease=3600.0)
    for number in range(3):
        await queue.publish("orders", b"%d" % number, dedup_id=f"d{number}")
    await clock.advance(600)
    for number in range(3):
        await queue.lease("orders")
        assert await queue.ack_by_id(dedup_ids=f"d{number}") == ["settled"]


async def test_an_id_that_was_used_again_means_the_message_that_is_leased(queue: Queue, clock: ManualClock) -> None:
    """And the newer one, which the topic remembers, when both or none are."""
    await queue.create_topic("orders", dedup_window=60, lease=7200.0, partitions=1)
    old = await queue.publish("orders", b"1", dedup_id="d")
    await queue.lease("orders")
    await clock.advance(600)
    new = await queue.publish("orders", b"2", dedup_id="d")
    assert await queue.find_messages("d", group="default") == [new.id]
    assert await queue.ack_by_id(dedup_ids="d") == ["settled"]
    assert (await queue.group("orders")).backlog == 1
    assert await queue.ack_by_id(dedup_ids="d") == ["lost"]
    [message] = await queue.lease("orders")
    assert message.id == new.id
    assert await queue.ack_by_id(dedup_ids="d") == ["settled"]
    assert await queue.ack_by_id(old.id, dedup_ids="d") == ["done", "done"]


async def test_messages_are_found_by_their_dedup_ids(queue: Queue) -> None:
    first = await queue.publish("orders", b"1", dedup_id="a")
    second = await queue.publish("mails", b"2", dedup_id="b")
    assert await queue.find_messages(["b", "none", "a", "a"]) == [second.id, None, first.id, first.id]
    assert await queue.find_messages(["b", "a"], topic="orders") == [None, first.id]
    assert await queue.find_messages("a", topic="nowhere") == [None]
    assert await queue.find_messages("a", namespace="theirs") == [None]


async def test_nothing_to_settle_is_fine(queue: Queue) -> None:
    assert await queue.ack_by_id() == []
    assert await queue.ack_by_id([]) == []


@pytest.mark.parametrize("wrong", ["x", "1.2", ["1.0.0", "nonsense"]])
async def test_what_is_no_id_is_refused(queue: Queue, wrong: str | list[str]) -> None:
    with pytest.raises(InvalidError):
        await queue.ack_by_id(wrong)


def on_disk(path: Path, clock: ManualClock, checkpoint_bytes: int) -> Queue:
    store = DiskStore(RealDisk(path), KeyRing({}), checkpoint_bytes=checkpoint_bytes, in_threads=False)
    return Queue(Broker(store, clock))


@pytest.mark.parametrize("checkpoint_bytes", [1, 1 << 20], ids=["in segments", "in the write-ahead log"])
async def test_it_holds_after_a_restart(tmp_path: Path, clock: ManualClock, checkpoint_bytes: int) -> None:
    async with on_disk(tmp_path, clock, checkpoint_bytes) as queue:
        await queue.create_topic("orders", dedup_window=60, lease=3600.0)
        sent = await queue.publish("orders", b"1", dedup_id="d1")
        for number in (2, 3):
            await queue.publish("orders", b"%d" % number, dedup_id=f"d{number}")
        await queue.lease("orders", group="g", consumer="killed", max_messages=3)
    await clock.advance(30)
    async with on_disk(tmp_path, clock, checkpoint_bytes) as queue:
        assert await queue.ack_by_id(dedup_ids="d3", group="g") == ["settled"]
    await clock.advance(600)
    async with on_disk(tmp_path, clock, checkpoint_bytes) as queue:
        assert await queue.find_messages(["d2"]) == [None]
        assert await queue.ack_by_id(sent.id, dedup_ids=["d2", "d3"], group="g") == ["settled", "settled", "unknown"]
        assert (await queue.group("orders", "g")).backlog == 0


@pytest.mark.parametrize("is_by_place", [True, False], ids=["id", "dedup id"])
async def test_a_numbered_command_happens_once(clock: ManualClock, is_by_place: bool) -> None:
    async with open_manual(clock) as queue:
        sent = await queue.publish("orders", b"1", dedup_id="d")
        await queue.lease("orders")
        command = Once("p", 1, 0, SettleById("release", [parse_message_id(sent.id) if is_by_place else "d"]))
        assert await queue._link.call(command) == ["settled"]
        [again] = await queue.lease("orders")
        assert await queue._link.call(command) == ["settled"]
        assert not await is_stale(queue, again)


async def test_another_connection_settles_what_this_one_leased(clock: ManualClock) -> None:
    async with open_manual(clock) as inside, entering("tcp", inside) as one, entering("http", inside) as other:
        sent = await one.publish("orders", b"1", dedup_id="d")
        [mine] = await one.lease("orders")
        assert await other.release_by_id(dedup_ids="d") == ["settled"]
        assert await is_stale(one, mine)
        await one.lease("orders")
        assert await other.ack_by_id(sent.id) == ["settled"]


def test_it_works_without_async() -> None:
    with ortoo.open_sync() as queue:
        sent = queue.publish("orders", b"1", dedup_id="d")
        queue.lease("orders")
        assert queue.extend_by_id(sent.id) == ["settled"]
        assert queue.find_messages("d") == [sent.id]
        assert queue.ack_by_id(dedup_ids="d") == ["settled"]
