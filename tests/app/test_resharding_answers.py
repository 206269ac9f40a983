"""A producer that was not answered sends its command again, to a queue that has moved to other stores meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from ortoo import Queue
from ortoo.app.resharding import divide, move_shards
from ortoo.app.shards import make_brokers
from ortoo.broker import Broker
from ortoo.broker.shards import Shards
from ortoo.engine.producers import Producer
from ortoo.engine.state import State
from ortoo.model import limits
from ortoo.model.batch import Outgoing
from ortoo.model.commands import (
    Begin,
    Commit,
    Extend,
    ExtendById,
    Lease,
    Once,
    PlainCommand,
    Publish,
    SetNamespace,
    Settle,
    SettleById,
    Stage,
    Transact,
)
from ortoo.model.commands import Run as Receipts
from ortoo.model.errors import InvalidError, OrtooError
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.namespaces import Quota
from ortoo.model.replies import Settled
from ortoo.model.shards import shard_of
from ortoo.testing import ManualClock

from .everything import START

TOPICS = [f"t{number}" for number in range(6)]
MOVES = [(2, 1), (2, 3), (1, 2), (3, 2), (2, 2)]
Outcome = Literal["ack", "nack", "reject", "release"]


@asynccontextmanager
async def opened(stores: Sequence[str], clock: ManualClock | None = None) -> AsyncIterator[tuple[Queue, Shards]]:
    clock = clock or ManualClock(START)
    shards = Shards(make_brokers(stores, None, lambda store, shard: Broker(store, clock, shard=shard)), stores)
    async with Queue(shards, consumer="c") as queue:
        yield queue, shards


def folders(tmp_path: Path, name: str, count: int) -> list[str]:
    return [str(tmp_path / f"{name}{number}") for number in range(count)]


def once(command: PlainCommand, number: int = 7) -> Once:
    return Once("p", number, 0, command)


def lies_in(shard: int, count: int) -> list[int]:
    return [at for at, name in enumerate(TOPICS) if shard_of(TopicName("default", name), count) == shard]


async def lease_all(shards: Shards) -> list[Receipts]:
    """Two of each topic. Numbers of leases differ from shard to shard, so that these can be joined."""
    runs = list[Receipts]()
    for broker_at, broker in enumerate(shards.brokers):
        broker.state.epoch += broker_at
    for name in TOPICS:
        topic = TopicName("default", name)
        batch = Outgoing([b"1", b"2"], dedup_ids=[f"{name}-1", f"{name}-2"])
        await shards.call(Publish(topic, batch))
        (run,) = await shards.lease(Lease(topic=name, group="g", consumer="c", max_messages=2, lease_ms=3_000_000))
        t = run.taken
        runs.append(Receipts(t.topic_id, t.group_id, t.lease, t.partition, list(t.offsets)))
    return runs


async def do_in_part(shards: Shards, shard: int, command: Any) -> Any:
    """Killed before the others did theirs."""
    return await shards.brokers[shard].call(command)


async def left(queue: Queue) -> list[int]:
    return [(await queue.group(name, "g")).leased for name in TOPICS]


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        *((*move, "nack") for move in MOVES),
        *((2, 1, outcome) for outcome in ("ack", "reject", "release")),
        *((2, 3, outcome) for outcome in ("ack", "reject", "release")),
    ],
)
async def test_what_was_done_in_one_shard_is_answered_and_the_rest_is_done(
    tmp_path: Path, before: int, after: int, outcome: Outcome
) -> None:
    old, new = folders(tmp_path, "old", before), folders(tmp_path, "new", after)
    async with opened(old) as (_, shards):
        runs = await lease_all(shards)
        stale = replace(runs[0], offsets=[*runs[0].offsets, 900])
        runs[0] = stale
        settle = Settle(outcome, runs, "why", 5_000_000 if outcome == "nack" else None)
        done = lies_in(0, before)
        first = await do_in_part(shards, 0, once(replace(settle, runs=[runs[at] for at in done])))
        assert first.lost is None or [900] in first.lost
    assert (await move_shards(old, new)).differences == []
    async with opened(new) as (queue, shards):
        assert (await left(queue)) == [0 if at in done else 2 for at in range(6)]
        answer = await shards.call(once(settle))
        assert answer.lost == [[900], [], [], [], [], []]
        assert await left(queue) == [0] * 6
        states = [broker.engine.snapshot() for broker in shards.brokers]
        assert await shards.call(once(settle)) == answer
        assert [broker.engine.snapshot() for broker in shards.brokers] == states


@pytest.mark.parametrize(("before", "after"), MOVES)
async def test_an_answer_that_did_not_arrive_is_the_same_in_any_number_of_stores(
    tmp_path: Path, before: int, after: int
) -> None:
    old, new = folders(tmp_path, "old", before), folders(tmp_path, "new", after)
    back = folders(tmp_path, "back", before)
    async with opened(old) as (_, shards):
        runs = await lease_all(shards)
        ids = [MessageRef(run.topic, run.partition, run.offsets[0]) for run in runs]
        commands: list[PlainCommand] = [
            Extend([replace(runs[3], offsets=[0, 800]), *runs[:3]], 4_000_000),
            ExtendById([*ids, *ids], "g", lease_ms=4_000_000),
            Settle("nack", [replace(run, offsets=run.offsets[:1]) for run in reversed(runs)], "why", 5_000_000),
            SettleById("nack", [f"{TOPICS[3]}-2", "nothing", ids[0], ids[0], f"{TOPICS[1]}-2"], "g"),
        ]
        answers = [await shards.call(once(command, number)) for number, command in enumerate(commands)]
        publish = Publish(TopicName("default", TOPICS[2]), Outgoing([b"x"]))
        placed = await shards.call(once(publish, 99))
    for source, target in ((old, new), (new, back)):
        await move_shards(source, target)
        async with opened(target) as (_, shards):
            states = [broker.engine.snapshot() for broker in shards.brokers]
            again = [await shards.call(once(command, number)) for number, command in enumerate(commands)]
            assert again == answers
            assert await shards.call(once(publish, 99)) == placed
            assert [broker.engine.snapshot() for broker in shards.brokers] == states
    assert answers[0].lost == [[800], [], [], []]


async def test_an_ack_by_id_that_was_half_done_is_finished_in_one_store(tmp_path: Path) -> None:
    old, new = folders(tmp_path, "old", 2), folders(tmp_path, "new", 1)
    async with opened(old) as (_, shards):
        await lease_all(shards)
        settle = SettleById("ack", [f"{name}-1" for name in TOPICS], "g")
        first = await do_in_part(shards, 0, once(settle))
        assert first.count("unknown") == len(lies_in(1, 2))
    await move_shards(old, new)
    async with opened(new) as (queue, shards):
        assert await shards.call(once(settle)) == ["settled"] * 6
        assert await left(queue) == [1] * 6


async def test_a_transaction_that_was_done_in_one_store_is_answered_in_two(tmp_path: Path) -> None:
    old, new = folders(tmp_path, "old", 1), folders(tmp_path, "new", 2)
    apart = [TOPICS[lies_in(shard, 2)[0]] for shard in range(2)]
    transact = Transact([], [Publish(TopicName("default", name), Outgoing([b"1"])) for name in apart])
    async with opened(old) as (_, shards):
        placed = await shards.call(once(transact))
    await move_shards(old, new)
    async with opened(new) as (queue, shards):
        assert await shards.call(once(transact)) == placed
        with pytest.raises(InvalidError, match="cannot span shards"):
            await shards.call(once(transact, 8))
        assert [(await queue.topic(name)).messages for name in apart] == [1, 1]


async def test_what_every_shard_is_told_is_answered_once_all_have_done_it(tmp_path: Path) -> None:
    one, two, three = (folders(tmp_path, str(count), count) for count in (1, 2, 3))
    async with opened(two) as (_, shards):
        await shards.call(Begin("tx"))
        for name in TOPICS:
            await shards.call(Stage("tx", name, Publish(TopicName("default", name), Outgoing([b"1", b"2"]))))
        assert await shards.call(once(Commit("tx"))) == 12
        await do_in_part(shards, 0, once(SetNamespace("limited", Quota(topics=3)), 8))
        await do_in_part(shards, 1, SetNamespace("limited", Quota(topics=9)))
    await move_shards(two, three)
    await move_shards(three, one)
    for stores in (three, one):
        async with opened(stores) as (queue, shards):
            assert await shards.call(once(Commit("tx"))) == 12
            await shards.call(once(SetNamespace("limited", Quota(topics=3)), 8))
            assert [found.quota.topics for found in await queue.namespaces() if found.name == "limited"] == [3]


async def test_a_commit_that_one_shard_gave_up_is_not_answered_as_done(tmp_path: Path) -> None:
    old, new, clock = folders(tmp_path, "old", 2), folders(tmp_path, "new", 1), ManualClock(START)
    async with opened(old, clock) as (_, shards):
        await shards.call(Begin("tx", timeout_ms=60_000))
        await do_in_part(shards, 0, once(Commit("tx")))
        await clock.advance(100)
    await move_shards(old, new)
    async with opened(new, clock) as (_, shards):
        with pytest.raises(OrtooError, match="aborted or timed out"):
            await shards.call(once(Commit("tx")))


async def test_a_number_that_was_another_command_is_refused(tmp_path: Path) -> None:
    old, new = folders(tmp_path, "old", 2), folders(tmp_path, "new", 1)
    async with opened(old) as (_, shards):
        runs = await lease_all(shards)
        assert await shards.call(once(Settle("nack", runs))) == Settled()
    await move_shards(old, new)
    async with opened(new) as (_, shards):
        for other in (Publish(TopicName("default", "t0"), Outgoing([b"x"])), Begin("tx")):
            with pytest.raises(InvalidError, match="number 7 of this producer was another command"):
                await shards.call(once(other))


def test_answers_of_several_stores_are_no_more_than_one_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRODUCER_ANSWER_BYTES_MAX", 1_000)
    states = [State(), State()]
    for shard, state in enumerate(states):
        for number in range(9):
            producer = Producer()
            producer.at, producer.answers = 10 * number + shard, {1: b"\xda" * 100}
            state.producers[f"p{shard}{number}"] = producer
    for part in divide(states, 2, "q"):
        assert part.producers.answer_bytes <= 1_000
        assert list(part.producers)[-1] == "p18"
