"""`ortoo shards move`: a queue comes to another number of stores, and nothing of it is lost, doubled or looked for in vain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ortoo import Message, Queue
from ortoo.app import migrate
from ortoo.app.compared import compare
from ortoo.app.resharding import divide, move_shards
from ortoo.app.shards import make_brokers
from ortoo.broker import Broker
from ortoo.broker.shards import Shards
from ortoo.engine.state import State
from ortoo.model.errors import ConfigError, ExistsError, OrtooError, UnavailableError
from ortoo.model.names import TopicName
from ortoo.model.shards import shard_of
from ortoo.stores.disk.moving import DirectoryTarget
from ortoo.testing import ManualClock
from tests.stores.postgres_server import fresh_url

from .everything import KEYS, START, fill, picture, wander


@asynccontextmanager
async def opened(stores: Sequence[str], clock: ManualClock) -> AsyncIterator[Queue]:
    brokers = make_brokers(stores, KEYS, lambda store, shard: Broker(store, clock, shard=shard))
    async with Queue(Shards(brokers, stores), consumer="c") as queue:
        yield queue


def folders(tmp_path: Path, name: str, count: int) -> list[str]:
    return [str(tmp_path / f"{name}{number}") for number in range(count)]


def apart(count: int) -> list[str]:
    """Names of topics, one in each shard."""
    names = [f"t{number}" for number in range(50)]
    return [
        next(name for name in names if shard_of(TopicName("default", name), count) == shard) for shard in range(count)
    ]


async def seen(stores: Sequence[str], now: float) -> dict[tuple[str, ...], Any]:
    async with opened(stores, ManualClock(now)) as queue:
        return await picture(queue)


async def populate(stores: Sequence[str]) -> tuple[float, dict[str, Any]]:
    clock = ManualClock(START)
    async with opened(stores, clock) as queue:
        kept = await fill(queue, clock)
        await queue.named("tx").abort()
    return clock.time(), kept


async def settle(stores: Sequence[str], now: float, kept: dict[str, Any]) -> list[Any]:
    """What receipts, ids, and names of before are good for."""
    found: list[Any] = []
    async with opened(stores, ManualClock(now)) as queue:
        await queue.ack(kept["acked"])  # once more
        await queue.ack(kept["leased"][0])
        await queue.nack(kept["leased"][1], error="later")
        sent = [("plain", Message(b"?", dedup_id="id-3")), ("secret", Message(b"?", key="s1", dedup_id="s1"))]
        for topic, message in sent:
            found.append([one.duplicate for one in await queue.publish_many(topic, [message])])
        found.append(await queue.named("done").commit())  # again: it is remembered
        found.append(await queue.redrive("dying"))
        for topic, group in (("plain", "g"), ("plain", "late"), ("dying", "g"), ("latest", "x"), ("secret", "g")):
            leased = await queue.lease(topic, group=group, max_messages=100)
            found.append([(m.id, m.value, m.attempt, m.key, m.headers) for m in leased])
            await queue.ack(leased)
        found.append([await queue.groups(topic) for topic in ("plain", "dying", "latest", "secret")])
    return found


@pytest.mark.parametrize("kind", ["directories", "databases"])
async def test_everything_moves_to_more_stores_and_back_to_one(tmp_path: Path, kind: str) -> None:
    one, back = folders(tmp_path, "one", 1), folders(tmp_path, "back", 1)
    three = folders(tmp_path, "three", 3) if kind == "directories" else [fresh_url() for _ in range(3)]
    two = folders(tmp_path, "two", 2)
    now, kept = await populate(one)
    for source, target in ((one, three), (three, two), (two, back)):
        moved = await move_shards(source, target, KEYS)
        assert moved.differences == []
        assert moved.verified
    pictures = [await seen(stores, now) for stores in (one, three, two, back)]
    assert pictures[1:] == pictures[:1] * 3
    settled = [await settle(stores, now, kept) for stores in (one, three, two, back)]
    assert settled[1:] == settled[:1] * 3


async def test_topics_lie_where_they_are_looked_for_and_new_ids_are_new(tmp_path: Path) -> None:
    clock, old, new = ManualClock(START), folders(tmp_path, "old", 2), folders(tmp_path, "new", 3)
    names = [f"t{number}" for number in range(20)]
    async with opened(old, clock) as queue:
        for name in names[:10]:
            await queue.publish(name, b"1")
    await move_shards(old, new)
    async with opened(new, clock) as queue:
        for name in names[10:]:
            await queue.publish(name, b"1")
        infos = await queue.topics()
        assert {info.name for info in infos} == set(names)
        assert len({info.id for info in infos}) == len(names)
        for shard, found in enumerate(await queue.shards()):
            assert found.topics == sum(shard_of(TopicName("default", name), 3) == shard for name in names)
        for name in names:
            [message] = await queue.lease(name, group="g")
            assert (await queue.message(message.id)).message.value == b"1"
            assert await queue.ack_by_id([message.id], group="g") == ["settled"]
            assert await queue.ack_by_id([message.id], group="g") == ["done"]


async def test_whatever_happened_before(tmp_path: Path) -> None:
    stores, random, clock = folders(tmp_path, "0-", 1), Random(7), ManualClock(START)
    for turn, count in enumerate((2, 3, 1)):
        async with opened(stores, clock) as queue:
            await wander(queue, clock, random, 60)
            for name in ("tx0", "tx1", "tx2"):
                try:
                    await queue.named(name).abort()
                except OrtooError:
                    continue
            await clock.advance(100)  # no lease is held any more
        new = folders(tmp_path, f"{turn + 1}-", count)
        assert (await move_shards(stores, new, KEYS)).differences == []
        assert await seen(new, clock.time()) == await seen(stores, clock.time())
        stores = new


async def test_the_old_stores_stay_as_they_were_and_the_new_ones_belong_together(tmp_path: Path) -> None:
    clock, old, new = ManualClock(START), folders(tmp_path, "old", 1), folders(tmp_path, "new", 2)
    async with opened(old, clock) as queue:
        await queue.publish("a", b"1")
    await move_shards(old, new)
    async with opened(old, clock) as queue:
        assert [message.value for message in await queue.lease("a", group="g")] == [b"1"]
    for wrong in (new[:1], new[::-1], [*new, str(tmp_path / "more")]):
        with pytest.raises(ConfigError, match="shard"):
            async with opened(wrong, clock):
                pass


@pytest.mark.parametrize("wrong", ["part", "order", "other"])
async def test_only_all_stores_of_one_queue_are_moved(tmp_path: Path, wrong: str) -> None:
    clock, old, other = ManualClock(START), folders(tmp_path, "old", 2), folders(tmp_path, "other", 2)
    for stores in (old, other):
        async with opened(stores, clock) as queue:
            await queue.publish("a", b"1")
    sources = {"part": old[:1], "order": old[::-1], "other": [old[0], other[1]]}[wrong]
    with pytest.raises(ConfigError, match="shard"):
        await move_shards(sources, folders(tmp_path, "new", 3))
    assert not Path(tmp_path, "new0").exists()


async def test_open_transactions_are_refused(tmp_path: Path) -> None:
    old, new = folders(tmp_path, "old", 1), folders(tmp_path, "new", 2)
    async with opened(old, ManualClock(START)) as queue:
        await (await queue.begin("half", timeout=3_000)).publish("a", b"1")
    with pytest.raises(UnavailableError, match="1 open transactions \\(half\\)"):
        await move_shards(old, new)
    assert not Path(new[0]).exists()


async def test_dead_letters_that_would_lie_elsewhere_are_refused(tmp_path: Path) -> None:
    here, there = apart(2)
    old, new = folders(tmp_path, "old", 1), folders(tmp_path, "new", 2)
    async with opened(old, ManualClock(START)) as queue:
        await queue.create_topic(here, dlq_topic=there)
    with pytest.raises(ConfigError, match=f"go to '{there}', which would lie in another of 2 shards"):
        await move_shards(old, new)
    assert not Path(new[0]).exists()


async def test_dead_letters_that_would_be_stranded_are_refused_and_told(tmp_path: Path) -> None:
    here, there = apart(2)
    old, new, clock = folders(tmp_path, "old", 1), folders(tmp_path, "new", 2), ManualClock(START)
    async with opened(old, clock) as queue:
        await queue.create_topic(here, dlq_topic=there, partitions=1)
        await queue.create_topic(there, partitions=1)
        await queue.publish_many(here, [Message(b"%d" % number) for number in range(3)])
        await queue.publish_many(there, [Message(b"plain"), Message(b"odd", headers={"ortoo-origin": "x"})])
        await queue.reject(await queue.lease(here, group="g", max_messages=3), "no")
        await queue.update_topic(here, dlq_topic=f"{here}.dlq")
    with pytest.raises(
        ConfigError, match=f"3 of topic '{here}' in '{there}'.*make that the dlq_topic of the topic again"
    ):
        await move_shards(old, new)
    assert not Path(new[0]).exists()
    async with opened(old, clock) as queue:  # as it says
        await queue.update_topic(here, dlq_topic=there)
        assert await queue.redrive(here) == 3
        await queue.update_topic(here, dlq_topic=f"{here}.dlq")
    assert (await move_shards(old, new)).differences == []
    async with opened(new, clock) as queue:
        assert len(await queue.lease(here, group="g", max_messages=9)) == 3


async def test_leases_of_one_number_do_not_come_into_one_store(tmp_path: Path) -> None:
    old, new, clock = folders(tmp_path, "old", 2), folders(tmp_path, "new", 1), ManualClock(START)
    async with opened(old, clock) as queue:
        for name in apart(2):
            await queue.publish(name, b"1")
            await queue.lease(name, group="g", lease=3_000)
    with pytest.raises(UnavailableError, match="leases of the same number"):
        await move_shards(old, new)
    assert not Path(new[0]).exists()
    async with opened(old, clock):
        await clock.advance(4_000)
    assert (await move_shards(old, new)).leases == 0


async def test_a_store_named_twice_or_in_use_is_refused(tmp_path: Path) -> None:
    old, new = folders(tmp_path, "old", 1), folders(tmp_path, "new", 2)
    async with opened(old, ManualClock(START)) as queue:
        await queue.publish("a", b"1")
    (tmp_path / "link").symlink_to(tmp_path / "old0")
    url = fresh_url()
    for sources, targets in (
        (old, [old[0], new[0]]),
        (old, [str(tmp_path / "link"), new[0]]),
        (old, [new[0], f"{tmp_path}/./new0/"]),
        (old, [url, url.replace("postgres://", "postgresql://", 1)]),
    ):
        with pytest.raises(ConfigError, match="named twice"):
            await move_shards(sources, targets)
    assert not Path(new[0]).exists()
    async with opened(new[1:], ManualClock(START)) as queue:
        await queue.publish("b", b"1")
    with pytest.raises(ExistsError, match="is not empty"):
        await move_shards(old, new)
    assert not Path(new[0], "FORMAT").exists()


async def test_nothing_is_a_queue_before_all_stores_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = folders(tmp_path, "old", 1), folders(tmp_path, "new", 2)
    async with opened(old, ManualClock(START)) as queue:
        for name in apart(2):
            await queue.publish(name, b"1")
    times = 0

    async def differs(*arguments: Any) -> AsyncIterator[str]:
        nonlocal times
        times += 1
        async for difference in compare(*arguments):
            yield difference
        if times == 2:
            yield "something"

    with monkeypatch.context() as patch:
        patch.setattr(migrate, "compare", differs)
        assert (await move_shards(old, new)).differences == [f"{new[1]}: something"]
    for store in new:
        assert not Path(store, "FORMAT").exists()
    assert (await move_shards(old, new)).differences == []  # what was left of it is no hindrance


async def test_a_move_that_ends_between_two_stores_leaves_none_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = folders(tmp_path, "old", 1), folders(tmp_path, "new", 2)
    async with opened(old, ManualClock(START)) as queue:
        for name in apart(2):
            await queue.publish(name, b"1")
    real, released = DirectoryTarget.release, list[DirectoryTarget]()

    async def once(target: DirectoryTarget) -> None:
        if released:
            raise OSError("killed")
        released.append(target)
        await real(target)

    monkeypatch.setattr(DirectoryTarget, "release", once)
    with pytest.raises(OSError, match="killed"):
        await move_shards(old, new)
    assert [Path(store, "FORMAT").exists() for store in new] == [False, True]
    with pytest.raises(OrtooError, match="never finished"):
        async with opened(new, ManualClock(START)):
            pass


async def test_a_transaction_that_one_store_gave_up_is_not_taken_for_committed(tmp_path: Path) -> None:
    states = [State(), State()]
    states[0].ended["default", "tx"] = (5, True)
    states[1].ended["default", "tx"] = (3, False)
    for part in divide(states, 2, "q"):
        assert part.ended["default", "tx"] == (3, False)
