"""Several stores behind one link: where topics lie, what is refused, and that a queue is never split by mistake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ortoo
from ortoo import InvalidError, NotFoundError, Queue
from ortoo.broker import Broker, Sampler, SeriesReader
from ortoo.broker.shards import Shards
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Abort, MessageId, Publish, Redrive, SettleById, Transact
from ortoo.model.errors import ConfigError, UnavailableError
from ortoo.model.names import TopicName, parse_message_id
from ortoo.model.queries import GetMetrics, GetOverview
from ortoo.model.shards import fnv32a, routing_text, shard_of
from ortoo.stores.disk import open_directory
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle

COUNT = 3
TOPICS = [f"t{number}" for number in range(12)]


@asynccontextmanager
async def sharded(clock: ManualClock | None = None) -> AsyncIterator[tuple[Queue, Shards]]:
    clock = clock or ManualClock()
    shards = Shards([Broker(MemoryStore(), clock, shard=shard) for shard in range(COUNT)])
    async with Queue(shards) as queue:
        yield queue, shards


def on_disk(*folders: Path) -> Shards:
    number = len(folders)
    return Shards(
        [
            Broker(open_directory(folder), ManualClock(), shard=shard if number > 1 else None)
            for shard, folder in enumerate(folders)
        ],
        [folder.name for folder in folders],
    )


def lie_in(shard: int, count: int = COUNT) -> list[str]:
    return [name for name in TOPICS if shard_of(TopicName("default", name), count) == shard]


# -- where topics lie


@pytest.mark.parametrize(
    ("text", "number"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968), ("defaultorders", None)]
)
def test_the_hash_is_fnv_32a(text: str, number: int | None) -> None:
    assert number is None or fnv32a(text.encode()) == number
    assert shard_of(TopicName("default", text or "x"), 1) == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("orders", "orders"),
        ("orders.dlq", "orders"),
        ("orders.dlq.dlq", "orders"),
        (".dlq", ".dlq"),
        ("{shop}orders", "shop"),
        ("a{shop}b{c}", "shop"),
        ("{}orders", "{}orders"),
        ("{shop}orders.dlq", "shop"),
    ],
)
def test_what_is_hashed_of_a_name(name: str, text: str) -> None:
    assert routing_text(name) == text


@pytest.mark.parametrize(
    "name",
    [
        "{a}" + "x" * 252,
        "x" * 200 + "{a}" + "x" * 52,
        "{" + "a" * 253 + "}",
        "x" * 255,
        "é" * 127,
        "a" + "é" * 127,
        "日本" * 42,
    ],
)
async def test_dead_letters_of_long_names_lie_beside_their_topic(name: str) -> None:
    async with sharded() as (queue, _):
        await queue.publish(name, b"1")
        await queue.reject(await queue.lease(name, group="g"), "no")
        assert [letter.value for letter in await queue.dead_letters(name)] == [b"1"]


async def test_topics_are_spread_and_ids_carry_their_shard() -> None:
    async with sharded() as (queue, shards):
        for name in TOPICS:
            await queue.publish(name, name.encode())
        held = [{topic.name.name for topic in broker.engine.state.topics.values()} for broker in shards.brokers]
        assert [sorted(names - {"shard"}) for names in held] == [sorted(lie_in(shard)) for shard in range(COUNT)]
        assert all(held)
        ids = {info.name: info.id for info in await queue.topics()}
        assert len(set(ids.values())) == len(TOPICS)
        assert all(id % 1024 == shard_of(TopicName("default", name), COUNT) for name, id in ids.items())
        assert sorted(ids) == sorted(TOPICS) == [info.name for info in await queue.topics()]


async def test_groups_take_numbers_too_and_ids_stay_small() -> None:
    async with sharded() as (queue, _):
        for number in range(20):
            name = f"{{same}}{number}"
            await queue.create_topic(name, partitions=1)
            await queue.create_group(name, "g")
        assert max(info.id for info in await queue.topics()) < 30 * 1024


# -- what goes to several


async def test_what_was_leased_from_several_shards_is_settled_in_one_call() -> None:
    async with sharded() as (queue, _):
        messages = list[ortoo.Received]()
        for name in TOPICS:
            await queue.publish(name, name.encode())
            messages += await queue.lease(name, group="g")
        await queue.extend(messages, 60)
        await queue.ack(messages[:6])
        await queue.release(messages[6:8])
        with pytest.raises(ortoo.LeaseLostError) as lost:
            await queue.ack(messages[6:])
        assert sorted(lost.value.lost) == sorted(message.receipt for message in messages[6:8])
        done = [(await queue.group(name, "g")).backlog for name in TOPICS]
        assert done == [0] * 6 + [1] * 2 + [0] * 4


async def test_messages_are_found_by_their_id_in_every_shard() -> None:
    async with sharded() as (queue, shards):
        for name in TOPICS:
            sent = await queue.publish(name, name.encode(), dedup_id=f"id-{name}")
            assert (await queue.message(sent.id)).message.value == name.encode()
            assert [event.what for event in (await queue.trace(sent.id)).events][:1] == ["published"]
            await queue.lease(name, group="g")
        ids: list[MessageId] = [*(f"id-{name}" for name in TOPICS), "id-none"]
        states = await shards.call(SettleById("ack", ids, "g"))
        assert states == ["settled"] * len(TOPICS) + ["unknown"]


async def test_a_lease_by_labels_waits_in_all_shards() -> None:
    clock = ManualClock()
    async with sharded(clock) as (queue, shards):
        for name in TOPICS:
            await queue.create_topic(name, labels={"task": "x"})
        for name in (lie_in(2)[0], lie_in(0)[0]):
            waiting = asyncio.create_task(queue.lease(labels={"task": "x"}, group="g", wait=30, max_messages=5))
            await settle()
            assert all(len(broker.waiters) == 1 for broker in shards.brokers)
            await queue.publish(name, b"1")
            assert [message.topic for message in await waiting] == [name]
            assert not any(broker.waiters for broker in shards.brokers)
        waiting = asyncio.create_task(queue.lease(labels={"task": "x"}, group="g", wait=5))
        await settle()
        await clock.advance(6)
        assert await waiting == []


async def test_of_two_that_come_together_nothing_is_lost() -> None:
    async with sharded() as (queue, _):
        names = [lie_in(shard)[0] for shard in range(COUNT)]
        for name in names:
            await queue.create_topic(name, labels={"task": "x"})
        for auto_ack in (False, True):
            waiting = asyncio.create_task(
                queue.lease(labels={"task": "x"}, group="g", wait=30, max_messages=1, auto_ack=auto_ack)
            )
            await settle()
            await asyncio.gather(*(queue.publish(name, b"1") for name in names))
            came = len(await waiting)
            groups = [await queue.group(name, "g") for name in names]
            assert came == 1
            assert sum(group.backlog for group in groups) == COUNT - auto_ack
            assert sum(group.leased for group in groups) == 1 - auto_ack
            for name in names:
                await queue.purge(name)


async def test_a_wait_that_is_given_up_leaves_nothing_leased() -> None:
    async with sharded() as (queue, shards):
        await queue.create_topic("t1", labels={"task": "x"})
        waiting = asyncio.create_task(queue.lease(labels={"task": "x"}, group="g", wait=30))
        await settle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not any(broker.waiters for broker in shards.brokers)
        await queue.publish("t1", b"1")
        assert (await queue.group("t1", "g")).leased == 0


async def test_a_named_transaction_is_seen_shard_by_shard_and_committing_again_does_the_rest() -> None:
    async with sharded() as (queue, shards):
        transaction = await queue.begin("job")
        for name in TOPICS:
            await transaction.publish(name, b"1")
        assert [info.depth for info in await queue.topics()] == [0] * len(await queue.topics())
        last = shards.brokers[-1]
        real = last.call

        async def broken(command: Any) -> Any:
            raise UnavailableError("away")

        last.call = broken  # type: ignore[method-assign]
        with pytest.raises(UnavailableError):
            await transaction.commit()
        last.call = real  # type: ignore[method-assign]
        seen = {info.name for info in await queue.topics() if info.depth}
        assert seen == {*lie_in(0), *lie_in(1)}
        again = await queue.begin("other")
        await again.abort()
        await transaction.commit()
        assert {info.depth for info in await queue.topics()} == {1}


async def test_a_namespace_is_known_to_all_shards_and_counted_once() -> None:
    async with sharded() as (queue, _):
        await queue.set_namespace("tenant", messages_per_minute=10)
        for name in TOPICS:
            await queue.create_topic(name, namespace="tenant")
        [found] = [one for one in await queue.namespaces() if one.name == "tenant"]
        assert (found.topics, found.quota.messages_per_minute) == (len(TOPICS), 10)
        with pytest.raises(ortoo.ExistsError):
            await queue.delete_namespace("tenant")
        for name in TOPICS:
            await queue.delete_topic(name, namespace="tenant")
        await queue.delete_namespace("tenant")
        assert "tenant" not in [one.name for one in await queue.namespaces()]


# -- what is refused


async def test_a_transaction_across_shards_is_refused_and_a_tag_allows_it() -> None:
    async with sharded() as (queue, _):
        await queue.publish("t1", b"1")
        other = next(name for shard in range(COUNT) for name in lie_in(shard) if "t1" not in lie_in(shard))
        [message] = await queue.lease("t1", group="g")
        with pytest.raises(InvalidError, match=r"\{shop\}orders"):
            async with queue.transaction() as tx:
                tx.ack(message)
                tx.publish(other, b"2")
        assert (await queue.group("t1", "g")).leased == 1
        with pytest.raises(NotFoundError):
            await queue.topic(other)
        await queue.publish("{shop}orders", b"1")
        [message] = await queue.lease("{shop}orders", group="g")
        async with queue.transaction() as tx:
            tx.ack(message)
            tx.publish("{shop}invoices", b"2")
        assert (await queue.topic("{shop}invoices")).depth == 1


async def test_a_dead_letter_away_from_its_topic_is_not_said_to_be_of_one_that_was_deleted() -> None:
    async with sharded() as (queue, shards):
        origin = await queue.publish(lie_in(0)[0], b"1")
        headers = {"ortoo-origin": origin.id, "ortoo-group": "g"}
        copy = await queue.publish(lie_in(1)[0], b"1", headers=headers)
        redrive = Redrive(parse_message_id(copy.id), parse_message_id(origin.id), "g", None)
        with pytest.raises(
            InvalidError, match=f"another shard than its topic '{lie_in(0)[0]}', and cannot be redriven"
        ):
            await shards.call(redrive)
        await queue.delete_topic(lie_in(0)[0])
        with pytest.raises(NotFoundError, match="was deleted"):
            await shards.call(redrive)


async def test_settings_that_reach_into_another_shard_are_refused() -> None:
    async with sharded() as (queue, _):
        far, near = lie_in(1)[0], lie_in(0)[1]
        here = lie_in(0)[0]
        with pytest.raises(InvalidError, match="another shard"):
            await queue.create_topic(here, dlq_topic=far)
        await queue.create_topic(here, dlq_topic=near)
        with pytest.raises(InvalidError, match="another shard"):
            await queue.update_topic(here, dlq_topic=far)
        with pytest.raises(InvalidError, match="--redis"):
            await queue.update_topic(here, dedup_scope="namespace")


async def test_what_one_shard_refuses_is_not_half_done() -> None:
    async with sharded() as (queue, shards):
        here, there = lie_in(0)[0], lie_in(1)[0]
        await queue.create_topic(here)
        await queue.create_topic(there, max_depth=1)
        await queue.create_group(there, "g")
        await queue.publish(there, b"1")
        publishes = [Publish(TopicName("default", name), Outgoing([b"x"])) for name in (here, there)]
        with pytest.raises(ortoo.FullError):
            await shards.transact_in_parts(Transact([], publishes))
        assert (await queue.topic(here)).depth == 0
        await queue.purge(there)
        placed = await shards.transact_in_parts(Transact([], publishes))
        assert [one.topic % 1024 for one in placed] == [0, 1]


async def test_when_a_shard_fails_in_the_middle_the_outcome_is_unknown() -> None:
    async with sharded() as (queue, shards):
        here, there = lie_in(0)[0], lie_in(1)[0]
        for name in (here, there):
            await queue.create_topic(name)

        async def broken(command: Any) -> Any:
            raise UnavailableError("away")

        shards.brokers[1].call = broken  # type: ignore[method-assign]
        publishes = [Publish(TopicName("default", name), Outgoing([b"x"])) for name in (here, there)]
        with pytest.raises(ortoo.OutcomeUnknownError):
            await shards.transact_in_parts(Transact([], publishes))


async def test_a_named_transaction_that_one_shard_refuses_is_committed_in_none() -> None:
    async with sharded() as (queue, shards):
        here, there = lie_in(0)[0], lie_in(1)[0]
        for name in (here, there):
            await queue.create_topic(name)
        for refuse in ("delete", "abort"):
            transaction = await queue.begin(f"job-{refuse}")
            for name in (here, there):
                await transaction.publish(name, b"1")
            if refuse == "delete":
                shards.brokers[1].engine.state.auto_create = False
                await queue.delete_topic(there)
            else:
                await shards.brokers[1].call(Abort("job-abort"))
            with pytest.raises(NotFoundError):
                await transaction.commit()
            assert (await queue.topic(here)).depth == 0
            shards.brokers[1].engine.state.auto_create = True
            await queue.create_topic(there)


async def test_what_tells_the_shard_is_not_changed_through_the_queue() -> None:
    async with sharded() as (queue, _):
        for change in (
            queue.delete_topic("shard", namespace="system.shard"),
            queue.update_topic("shard", namespace="system.shard", labels={}),
            queue.publish("shard", b"", namespace="system.shard"),
        ):
            with pytest.raises(ortoo.ForbiddenError):
                await change


async def test_the_healthy_shards_are_settled_though_another_is_out() -> None:
    async with sharded() as (queue, shards):
        here, there = lie_in(0)[0], lie_in(1)[0]
        messages = list[ortoo.Received]()
        for name in (here, there):
            await queue.publish(name, b"1")
            messages += await queue.lease(name, group="g")
        shards.away[0] = UnavailableError("away")
        with pytest.raises(UnavailableError, match="shard 0"):
            await queue.ack(messages)
        del shards.away[0]
        assert [(await queue.group(name, "g")).backlog for name in (here, there)] == [1, 0]


# -- leases by labels


async def labelled_everywhere(queue: Queue, count: int = 1, size: int = 1, **settings: Any) -> list[str]:
    names = [lie_in(shard)[0] for shard in range(COUNT)]
    for name in names:
        await queue.create_topic(name, labels={"task": "x"}, partitions=1, **settings)
        await queue.publish_many(name, [b"x" * size] * count)
    return names


async def leased(queue: Queue, names: list[str]) -> int:
    return sum([group.leased for name in names for group in await queue.groups(name)])


@pytest.mark.parametrize("auto_ack", [False, True])
async def test_a_lease_by_labels_is_no_larger_than_one_answer(auto_ack: bool) -> None:
    async with sharded() as (queue, _):
        names = await labelled_everywhere(queue, count=25, size=1_000_000)
        found = await queue.lease(labels={"task": "x"}, group="g", max_messages=1000, auto_ack=auto_ack)
        assert 25 <= len(found) < 60
        depths = [(await queue.topic(name)).depth for name in names]
        assert sum(depths) == 75 - len(found) * auto_ack
        assert await leased(queue, names) == (0 if auto_ack else len(found))


@pytest.mark.parametrize("auto_ack", [False, True])
async def test_an_error_in_one_shard_leaves_nothing_leased_or_acked(auto_ack: bool) -> None:
    async with sharded() as (queue, shards):
        names = await labelled_everywhere(queue)

        async def refusing(*asked: Any) -> Any:
            raise InvalidError("no")

        shards.brokers[2].lease = refusing  # type: ignore[assignment]
        with pytest.raises(InvalidError, match="no"):
            await queue.lease(labels={"task": "x"}, group="g", max_messages=10, auto_ack=auto_ack)
        assert await leased(queue, names[:2]) == 0
        assert [(await queue.topic(name)).depth for name in names] == [1, 1, 1]


async def test_a_shard_that_recovers_stops_no_lease_by_labels() -> None:
    async with sharded() as (queue, shards):
        names = await labelled_everywhere(queue)
        shards.brokers[0]._refusal = UnavailableError("recovering")
        found = await queue.lease(labels={"task": "x"}, group="g", max_messages=10)
        assert {message.topic for message in found} == set(names[1:])
        shards.brokers[0]._refusal = None


@pytest.mark.parametrize("wait", [0, 30])
async def test_whenever_it_is_given_up_nothing_stays_leased_by_nobody(tmp_path: Path, wait: int) -> None:
    async with Queue(on_disk(tmp_path / "a", tmp_path / "b")) as queue:
        names = [lie_in(shard, 2)[0] for shard in range(2)]
        for name in names:
            await queue.create_topic(name, labels={"task": "x"}, partitions=1)
            await queue.create_group(name, "g")
        for turns in range(40):
            if not wait:
                await asyncio.gather(*(queue.publish(name, b"x") for name in names))
            asked = asyncio.create_task(queue.lease(labels={"task": "x"}, group="g", max_messages=9, wait=wait))
            if wait:
                await settle()
                publishing = asyncio.gather(*(queue.publish(name, b"x") for name in names))
            for _ in range(turns):
                await asyncio.sleep(0)
            asked.cancel()
            [came] = await asyncio.gather(asked, return_exceptions=True)
            if wait:
                await publishing
            if not isinstance(came, BaseException):
                await queue.ack(came)
            await settle()
            assert await leased(queue, names) == 0, turns


# -- never a silent split


async def test_a_queue_is_opened_with_the_stores_that_it_has(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    async with Queue(on_disk(a, b)) as queue:
        for name in TOPICS:
            await queue.publish(name, b"1")
    for folders, words in (
        ([a], "shard 0 of 2"),
        ([b], "shard 1 of 2"),
        ([b, a], "in the order"),
        ([a, b, c], "name all 2"),
        ([a, c], "c, is empty"),
        ([c, b], "c, is empty"),
    ):
        with pytest.raises(ConfigError, match=words):
            await on_disk(*folders).open()
    async with Queue(on_disk(a, b)) as queue:
        assert [info.depth for info in await queue.topics()] == [1] * len(TOPICS)
        assert [shard.topics for shard in await queue.shards()] == [len(lie_in(0, 2)), len(lie_in(1, 2))]
    with pytest.raises(ConfigError, match="shard 0 of 2"):
        async with ortoo.open(a):
            pass


async def test_stores_of_different_queues_are_not_mixed(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("c", "d")):
        async with Queue(on_disk(tmp_path / one, tmp_path / other)) as queue:
            await queue.publish("t", b"1")
    with pytest.raises(ConfigError, match="different queues"):
        await on_disk(tmp_path / "a", tmp_path / "d").open()


async def test_a_queue_that_is_not_sharded_does_not_become_a_shard(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path / "a") as queue:
        await queue.publish("t", b"1")
    with pytest.raises(ConfigError, match="not sharded"):
        await on_disk(tmp_path / "a", tmp_path / "b").open()
    async with ortoo.open(tmp_path / "a") as queue:
        assert (await queue.topic("t")).depth == 1


async def test_a_first_opening_that_was_cut_short_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = on_disk(tmp_path / "a", tmp_path / "b")
    real = shards.brokers[1].call

    async def broken(command: Any) -> Any:
        raise UnavailableError("killed")

    monkeypatch.setattr(shards.brokers[1], "call", broken)
    with pytest.raises(UnavailableError):
        await shards.open()
    monkeypatch.setattr(shards.brokers[1], "call", real)
    async with Queue(on_disk(tmp_path / "a", tmp_path / "b")) as queue:
        await queue.publish("t", b"1")
    with pytest.raises(ConfigError, match="is empty"):
        await on_disk(tmp_path / "a", tmp_path / "c").open()


# -- one that is away


async def test_a_shard_that_is_away_at_the_start_comes_later_and_the_others_serve(tmp_path: Path) -> None:
    away = set[int]()
    here, there = lie_in(0, 2)[0], lie_in(1, 2)[0]

    def shards() -> Shards:
        made = on_disk(tmp_path / "a", tmp_path / "b")
        for number, broker in enumerate(made.brokers):
            broker.store.recover = partial(_recover, number, broker.store.recover)  # type: ignore[method-assign]
        return made

    async def _recover(number: int, real: Any) -> AsyncIterator[list[Any]]:
        if number in away:
            raise UnavailableError("the database cannot be reached")
        async for records in real():
            yield records

    away.add(1)
    with pytest.raises(UnavailableError, match="cannot be reached"):  # a new queue needs all of its stores
        await shards().open()
    away.clear()
    async with Queue(shards()) as queue:
        await queue.publish(there, b"1")
    away.add(1)
    late = shards()
    async with Queue(late) as queue:
        await queue.publish(here, b"1")
        with pytest.raises(UnavailableError, match="shard 1"):
            await queue.publish(there, b"2")
        assert [info.name for info in await queue.topics()] == [here]
        assert [shard.is_ready for shard in await queue.shards()] == [True, False]
        assert any("shard 1" in problem for problem in (await queue.stats()).problems)
        assert late.refusal is None
        away.clear()
        async with asyncio.timeout(60):
            while late.away:  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.05)
        assert [message.value for message in await queue.lease(there, group="g")] == [b"1"]
    for gone in ({0, 1}, {0}):  # the first is needed: what the server keeps for itself lies there
        away |= gone
        with pytest.raises(UnavailableError):
            await shards().open()
        away.clear()


# -- what is told of all of them


async def test_one_overview_of_all_shards() -> None:
    clock = ManualClock()
    async with sharded(clock) as (queue, shards):
        for broker in shards.brokers:
            broker.meters.series = SeriesReader(Sampler(broker))
        for number, name in enumerate(TOPICS):
            await queue.publish_many(name, [b"x"] * (number + 1))
        seconds = list[int]()
        assert shards.sampled is not None
        stop = shards.sampled.subscribe(lambda sample: seconds.append(len(sample.topics)))
        for broker in shards.brokers:
            assert broker.meters.series is not None
            await broker.meters.series.sampler.sample()
        stop()
        assert seconds == [len(TOPICS)]
        told = await shards.ask(GetOverview(sort="backlog", limit=5, offset=2))
        assert [row.depth for row in told.topics] == [10, 9, 8, 7, 6]
        assert (told.matching, told.totals.backlog) == (len(TOPICS), sum(range(1, 13)))
        series = await queue.series(count=5)
        assert series.figures["depth"][-1] == sum(range(1, 13))
        figures = await shards.ask(GetMetrics())
        assert {topic.name.name: topic.depth for topic in figures.topics} == {
            name: n + 1 for n, name in enumerate(TOPICS)
        }
        assert figures.broker is not None
        assert figures.broker.counters.published == sum(range(1, 13))
        again = await shards.ask(GetMetrics())
        assert again.broker is not None
        assert again.broker.counters.published == sum(range(1, 13)), "what brokers answer to several is not changed"
        assert (await queue.stats()).depth == sum(range(1, 13))
