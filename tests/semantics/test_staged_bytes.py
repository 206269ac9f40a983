"""What transactions have staged is counted as it comes, not when somebody asks: nobody waits for what others have staged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ortoo
from ortoo import FullError, Queue
from ortoo.broker import Broker
from ortoo.engine.transaction import Transaction
from ortoo.model import limits
from ortoo.model.batch import Outgoing
from ortoo.model.commands import DeleteTopic, Publish, Stage
from ortoo.model.names import TopicName
from ortoo.testing import ManualClock, open_manual

SHOP, OTHERS = "shop", "others"


def broker_of(queue: Queue) -> Broker:
    broker = queue._link
    assert isinstance(broker, Broker)
    return broker


async def stage(queue: Queue, part: str, value: bytes, topic: str = "t", namespace: str = SHOP) -> None:
    publish = Publish(TopicName(namespace, topic), Outgoing([value]))
    await broker_of(queue).call(Stage("tx", part, publish, namespace))


def staged_in(queue: Queue, namespace: str = SHOP) -> int:
    return broker_of(queue).engine.state.staged.of(namespace)


async def test_nobody_counts_what_others_have_staged(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_manual(clock) as queue:
        await queue.begin("tx", namespace=OTHERS)
        for number in range(100):
            await stage(queue, f"p{number}", b"", namespace=OTHERS)
        await queue.set_namespace(SHOP, stored_bytes=100)
        looked: list[Any] = []
        for name in ("chosen", "bytes_left"):
            monkeypatch.setattr(Transaction, name, lambda *args: looked.append(args))
        await queue.publish("orders", b"x" * 90, namespace=SHOP)
        await queue.publish("mails", b"x", namespace=SHOP)
        await queue.purge("mails", namespace=SHOP)
        with pytest.raises(FullError):
            await queue.publish("orders", b"x" * 20, namespace=SHOP)
        assert {info.name: info.bytes > 0 for info in await queue.namespaces()} == {SHOP: True}
        assert looked == []


async def test_a_commit_of_some_parts_looks_at_those(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_manual(clock) as queue:
        transaction = await queue.begin("tx", namespace=SHOP)
        for number in range(100):
            await stage(queue, f"p{number}", b"x")
        found = broker_of(queue).engine.state.transactions[SHOP, "tx"]
        assert {name: share.count for name, share in found.chosen(["p1", "p7", "none"]).items()} == {
            TopicName(SHOP, "t"): 2
        }
        assert found.chosen(None) is found.whole
        assert await transaction.commit(parts=["p1", "p7"]) == 2
        assert staged_in(queue) == 0


async def test_names_of_parts_count(clock: ManualClock) -> None:
    async with open_manual(clock) as queue:
        await queue.set_namespace(SHOP, stored_bytes=10_000)
        transaction = await queue.begin("tx", namespace=SHOP)
        staged = 0
        with pytest.raises(FullError):
            for staged in range(100):
                await stage(queue, f"p{staged}".ljust(250, "x"), b"")
        assert staged < 20
        for _ in range(3):
            await stage(queue, "p0".ljust(250, "x"), b"")  # the part is there
        await transaction.abort()
        assert staged_in(queue) == 0


async def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path) as queue:
        await queue.begin("tx", namespace=SHOP)
        for number in range(10):
            await stage(queue, f"p{number}", b"x" * 100, f"t{number % 2}")
        before = staged_in(queue)
        assert before > 1_000
    for _ in range(2):
        async with ortoo.open(tmp_path) as queue:
            assert staged_in(queue) == before
            assert (await queue.namespaces()) == []


async def test_what_a_commit_has_published_is_counted_there(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit; and what goes to a topic that is deleted meanwhile, no more."""
    monkeypatch.setattr(limits, "SLICE_MESSAGES", 1)
    async with open_manual(clock) as queue:
        transaction = await queue.begin("tx", namespace=SHOP)
        for number in range(10):
            await stage(queue, "p", b"x" * 100, f"t{number % 2}")
        broker, seen = broker_of(queue), []
        publish = broker.publish_staged

        def published(name: Any, piece: Any) -> None:
            publish(name, piece)
            seen.append(staged_in(queue))
            if len(seen) == 4:
                broker.submit(DeleteTopic(TopicName(SHOP, "t1")))
                seen.append(staged_in(queue))

        monkeypatch.setattr(broker, "publish_staged", published)
        before = staged_in(queue)
        await transaction.commit()
        assert [before, *seen] == sorted([before, *seen], reverse=True)
        assert before > seen[0] > 0
        assert seen[4] < seen[3] - 2 * 100
        assert seen[-1] == 0
