"""Dedup ids that namespaces share across servers: claimed, confirmed, released, and what is left when things fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from ortoo import FullError, Message, OutcomeUnknownError, Queue, Sent, UnavailableError
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Once, Publish
from ortoo.model.names import TopicName
from ortoo.model.replies import Placed
from ortoo.ports.claims import SharedId
from ortoo.stores.redis import RedisClaims, claims
from ortoo.testing.faulty_store import Fault, FaultyStore
from tests.redis.sharing import LONG_S, connection_of, sharing_queue, values

SHARED: dict[str, Any] = {"dedup_scope": "namespace"}


async def test_an_id_that_was_published_on_another_server_is_answered_with_the_first_ones_id(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        await one.create_topic("orders", **SHARED)
        await two.create_topic("other")  # so that the numbers of topics differ
        await two.create_topic("payments", **SHARED)
        first = await one.publish("orders", b"1", dedup_id="a")
        again = await two.publish("payments", b"2", dedup_id="a")
        assert (first.duplicate, again.duplicate, again.id) == (False, True, first.id)
        assert await values(two, "payments") == []
        assert not (await two.publish("payments", b"3", dedup_id="b")).duplicate


async def test_of_a_batch_those_that_are_known_elsewhere_are_left_out(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
        [first] = await one.publish_many("orders", [Message(b"1", dedup_id="b")])
        ids = ["a", "b", None, "b", "c", "c"]
        sent = await two.publish_many("orders", [Message(b"2", dedup_id=dedup_id) for dedup_id in ids])
        assert [one.duplicate for one in sent] == [False, True, False, True, False, True]
        assert sent[1].id == sent[3].id == first.id
        assert sent[5].id == sent[4].id
        assert len(await values(two, "orders")) == 3


async def test_many_servers_at_once_publish_each_id_once(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
        names = [f"{number}" for number in range(150)]
        sent = await asyncio.gather(
            *(queue.publish("orders", name.encode(), dedup_id=name) for name in names for queue in (one, two, one))
        )
        assert Counter(not found.duplicate for found in sent) == {True: len(names), False: 2 * len(names)}
        assert sorted(await values(one, "orders") + await values(two, "orders")) == sorted(map(str.encode, names))


async def test_batches_that_overlap_in_any_order_neither_wait_for_each_other_nor_double(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
        batch = [Message(b"x", dedup_id=f"{number}") for number in range(40)]
        await asyncio.gather(
            *(
                queue.publish_many("orders", batch[start:] + batch[:start] if queue is one else batch[start::-1])
                for start in range(0, 40, 3)
                for queue in (one, two)
            )
        )
        assert len(await values(one, "orders")) + len(await values(two, "orders")) == 40


async def test_other_namespaces_and_topics_with_ids_of_their_own_are_not_concerned(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        await one.create_topic("orders", **SHARED)
        await two.create_topic("orders", namespace="elsewhere", **SHARED)
        await two.create_topic("alone")
        await one.publish("orders", b"1", dedup_id="a")
        assert not (await two.publish("orders", b"1", dedup_id="a", namespace="elsewhere")).duplicate
        assert not (await two.publish("alone", b"1", dedup_id="a")).duplicate


@pytest.mark.parametrize(
    "name", ["\0", "a\0b", "\n \t", "?x:1 orders", "=1 1.1.1 orders", "ü" * 127, "x" * 255, "{a}*[", "'; --"]
)
async def test_any_id_is_told_from_all_others(redis_url: str, name: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        for queue in (one, two):
            await queue.create_topic("bestellungen für {alle} %s", **SHARED)
        topic = "bestellungen für {alle} %s"
        first = await one.publish(topic, b"1", dedup_id=name)
        assert not (await two.publish(topic, b"1", dedup_id=name[:-1] + "y")).duplicate
        assert (await two.publish(topic, b"1", dedup_id=name)).id == first.id


async def test_a_transaction_claims_the_ids_of_all_its_topics(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
            await queue.create_topic("payments", **SHARED)
        await one.publish("payments", b"1", dedup_id="b")
        async with two.transaction() as work:
            work.publish("orders", b"2", dedup_id="a")
            work.publish("payments", b"2", dedup_id="b")
            work.publish("payments", b"2", dedup_id="c")
        assert (await values(two, "orders"), await values(two, "payments")) == ([b"2"], [b"2"])
        assert (await one.publish("orders", b"3", dedup_id="c")).duplicate


async def test_a_command_that_is_sent_again_gets_the_same_answer(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, broker, _):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
        await one.publish("orders", b"1", dedup_id="b")
        publish = Publish(TopicName("default", "orders"), Outgoing([b"1", b"2"], dedup_ids=["a", "b"]))
        first: Placed = await broker.publish(Once("p", 1, 0, publish))
        assert first.duplicates == [False, True]
        assert await broker.publish(Once("p", 1, 0, publish)) == first


class FailingStore(FaultyStore):
    """Fails so, once `fails` is set, with the next append."""

    fails: Fault | None = None

    def __init__(self) -> None:
        super().__init__(lambda _: self._next())

    def _next(self) -> Fault:
        fault, self.fails = self.fails or "none", None
        return fault


@pytest.mark.parametrize("fault", ["fail before", "fail after"])
@pytest.mark.parametrize("is_same", [True, False])
async def test_an_id_whose_commit_failed_is_a_duplicate_only_if_it_was_made_after_all(
    redis_url: str, fault: Fault, is_same: bool
) -> None:
    store = FailingStore()
    async with sharing_queue(redis_url, store) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
        store.fails = fault
        with pytest.raises(OutcomeUnknownError):
            await one.publish("orders", b"1", dedup_id="a")
        sent = await retried(one if is_same else two)
        assert sent.duplicate == (fault == "fail after")
        assert (await two.publish("orders", b"2", dedup_id="a")).id == sent.id
        assert await values(one, "orders") + await values(two, "orders") == [b"1"]


async def retried(queue: Queue) -> Sent:
    """As clients do while a server recovers."""
    async with asyncio.timeout(LONG_S):
        while True:
            try:
                return await queue.publish("orders", b"1", dedup_id="a")
            except UnavailableError:
                await asyncio.sleep(0.01)


async def test_a_claim_of_a_server_that_died_ends_by_itself(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PENDING_MS", 300)
    async with sharing_queue(redis_url) as (_, _, sharing), sharing_queue(redis_url) as (two, _, _):
        await two.create_topic("orders", **SHARED)
        dead = RedisClaims(connection_of(sharing))
        await dead.claim([SharedId(TopicName("default", "orders"), "a", 60_000)])
        assert not (await retried(two)).duplicate  # it waits until the claim has ended


async def test_what_is_refused_leaves_its_id_free(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        await one.create_topic("orders", max_depth=1, **SHARED)
        await two.create_topic("orders", **SHARED)
        await one.publish("orders", b"1")
        with pytest.raises(FullError):
            await one.publish("orders", b"2", dedup_id="a")
        assert not (await two.publish("orders", b"2", dedup_id="a")).duplicate


async def test_whoever_waits_for_room_keeps_its_claim_and_others_are_told_to_come_again(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "WAIT_S", 0.3)
    monkeypatch.setattr(claims, "PENDING_MS", 400)
    monkeypatch.setattr(claims, "_RENEW_S", 0.05)
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        await one.create_topic("orders", max_depth=1, **SHARED)
        await two.create_topic("orders", **SHARED)
        await one.publish("orders", b"1")
        waiting = asyncio.create_task(one.publish("orders", b"2", dedup_id="a", wait=60))
        await asyncio.sleep(0)
        for queue in (two, two, one):  # longer than a claim that nobody renews
            with pytest.raises(UnavailableError, match="being published elsewhere"):
                await queue.publish("orders", b"2", dedup_id="a")
        await one.ack(await one.lease("orders"))
        sent = await waiting
        assert (await two.publish("orders", b"2", dedup_id="a")).id == sent.id


async def test_a_client_that_goes_away_while_it_waits_leaves_its_id_to_others(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        await one.create_topic("orders", max_depth=1, **SHARED)
        await two.create_topic("orders", **SHARED)
        await one.publish("orders", b"1")
        waiting = asyncio.create_task(one.publish("orders", b"2", dedup_id="a", wait=60))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not (await two.publish("orders", b"2", dedup_id="a")).duplicate


async def test_a_topic_that_is_deleted_takes_its_ids_with_it(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, _, _), sharing_queue(redis_url) as (two, _, _):
        for queue in (one, two):
            await queue.create_topic("orders", **SHARED)
            await queue.create_topic("payments", **SHARED)
        await one.publish("orders", b"1", dedup_id="a")
        await one.publish("payments", b"1", dedup_id="b")
        await one.delete_topic("orders")
        await one.create_topic("orders", **SHARED)
        assert not (await one.publish("orders", b"2", dedup_id="a")).duplicate
        assert (await two.publish("orders", b"3", dedup_id="a")).duplicate
        assert (await two.publish("orders", b"1", dedup_id="b")).duplicate


async def test_publishes_of_one_client_keep_their_order_whether_they_have_ids_or_not(redis_url: str) -> None:
    async with sharing_queue(redis_url) as (one, broker, _):
        await one.create_topic("orders", partitions=1, **SHARED)
        name = TopicName("default", "orders")
        await asyncio.gather(
            *(
                broker.publish(Publish(name, Outgoing([b"%d" % n], dedup_ids=[f"{n}"] if n % 3 else None)))
                for n in range(60)
            )
        )
        assert await values(one, "orders") == [b"%d" % n for n in range(60)]
