"""What callers do side by side travels together, and each gets his own answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ortoo
from ortoo import FullError, InvalidError, LeaseLostError, Message, OrtooError
from ortoo.client.gather import Gatherer
from ortoo.model import limits
from ortoo.model.commands import Publish, Settle
from ortoo.model.names import TopicId, TopicName
from ortoo.model.replies import Placed, Sent
from tests.client.test_requests import overheard
from tests.doors.tcp.home import Home


async def test_publishes_beside_the_first_are_one_batch_in_their_order(home: Home) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    async with home.connect() as queue:
        heard = overheard(home, Publish)
        one = [asyncio.create_task(queue.publish("jobs", b"%d" % number)) for number in range(20)]
        many = asyncio.create_task(queue.publish_many("jobs", [Message(b"20", key="k"), b"21"]))
        with_headers = asyncio.create_task(queue.publish("jobs", b"22", headers={"a": "b"}))
        with_json = asyncio.create_task(queue.publish("jobs", {"is": "json"}))
        sent = [*(await asyncio.gather(*one)), *(await many), await with_headers, await with_json]
        assert [len(publish.batch) for publish in heard] == [1, 23]
    assert [one.offset for one in sent] == list(range(24))
    stored = [message async for message in home.queue.read("jobs")]
    assert [m.value for m in stored] == [b"%d" % number for number in range(23)] + [b'{"is":"json"}']
    assert [m.key for m in stored[19:22]] == [None, "k", None]
    assert [m.headers for m in stored[21:]] == [{}, {"a": "b"}, {}]
    assert [m.is_json for m in stored[21:]] == [False, False, True]


@pytest.mark.parametrize("seed", range(5))
async def test_whoever_calls_first_is_first_however_he_publishes(home: Home, seed: int) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    random = Random(seed)
    async with home.connect() as queue:
        work: list[asyncio.Task[Any]] = []
        for number in range(300):
            value = b"%d" % number
            if random.random() < 0.5:
                work.append(asyncio.create_task(queue.publish("jobs", value)))
            else:
                work.append(asyncio.create_task(queue.publish_many("jobs", [value])))
            for _ in range(random.choice([0, 0, 1, 1, 2, 3])):
                await asyncio.sleep(0)
        await asyncio.gather(*work)
    assert [message.value async for message in home.queue.read("jobs")] == [b"%d" % number for number in range(300)]


async def test_topics_and_namespaces_are_kept_apart(home: Home) -> None:
    async with home.connect() as queue:
        heard = overheard(home, Publish)
        await asyncio.gather(
            queue.publish("a", b"1"), queue.publish("b", b"2"), queue.publish("a", b"3", namespace="other")
        )
        assert sorted((str(publish.topic), publish.batch.values) for publish in heard) == [
            ("a", [b"1"]),
            ("b", [b"2"]),
            ("other/a", [b"3"]),
        ]


async def test_one_bad_message_fails_its_own_caller_only(home: Home) -> None:
    await home.queue.create_topic("jobs", partitions=1, max_message_bytes=10)
    async with home.connect() as queue:
        found = await asyncio.gather(
            queue.publish("jobs", b"1"),
            queue.publish("jobs", bytes(11)),
            queue.publish_many("jobs", [b"2", bytes(12)]),
            queue.publish_many("jobs", [b"3", b"4"]),
            return_exceptions=True,
        )
    assert [type(one) for one in found[1:3]] == [InvalidError, InvalidError]
    assert [m.value async for m in home.queue.read("jobs")] == [b"1", b"3", b"4"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_remote", [True, False])
async def test_nobody_is_overtaken_because_of_a_bad_message_beside_him(home: Home, seed: int, is_remote: bool) -> None:
    """Bad ones are known here (no string) or there (too large); the others arrive in the order of the calls."""
    await home.queue.create_topic("jobs", partitions=1, max_message_bytes=10)
    random = Random(seed)
    async with home.connect() as remote:
        queue = remote if is_remote else home.queue
        good: list[bytes] = []
        work: list[asyncio.Task[Any]] = []
        bad: list[asyncio.Task[Any]] = []
        for number in range(200):
            if random.random() < 0.1:
                wrong: Any = random.choice([{"value": bytes(11)}, {"value": b"x", "key": 7}, {"value": object()}])
                bad.append(asyncio.create_task(queue.publish("jobs", **wrong)))
            else:
                good.append(b"%d" % number)
                many = random.random() < 0.3
                publish = queue.publish_many("jobs", [good[-1]]) if many else queue.publish("jobs", good[-1], key="k")
                work.append(asyncio.create_task(publish))
            for _ in range(random.choice([0, 0, 0, 0, 1, 2, 5])):
                await asyncio.sleep(0)
        await asyncio.gather(*work)
        assert {type(found) for found in await asyncio.gather(*bad, return_exceptions=True)} == {InvalidError}
    assert [message.value async for message in home.queue.read("jobs")] == good


async def test_when_only_some_fit_into_the_topic_those_do(home: Home) -> None:
    await home.queue.create_topic("jobs", partitions=1, max_depth=3)
    await home.queue.create_group("jobs", "default")
    async with home.connect() as queue:
        found = await asyncio.gather(
            *(queue.publish("jobs", b"%d" % number) for number in range(5)), return_exceptions=True
        )
    assert [type(one) for one in found if isinstance(one, OrtooError)] == [FullError, FullError]
    assert (await home.queue.topic("jobs")).messages == 3


async def test_with_linger_publishes_wait_for_company(home: Home) -> None:
    async with home.connect(linger=1) as queue:
        heard = overheard(home, Publish)
        work = []
        for number in range(5):
            work.append(asyncio.create_task(queue.publish("jobs", b"%d" % number)))
            await asyncio.sleep(0.002)
        assert heard == []
        await asyncio.gather(*work)
        assert [publish.batch.values for publish in heard] == [[b"0", b"1", b"2", b"3", b"4"]]


async def test_closing_does_not_wait_for_company(home: Home) -> None:
    queue = await home.connect(linger=30).open()
    publishing = asyncio.create_task(queue.publish("jobs", b"x"))
    await asyncio.sleep(0)
    await asyncio.wait_for(queue.close(), 60)
    assert (await publishing).offset == 0


async def test_acks_of_one_turn_are_the_first_and_the_rest(home: Home) -> None:
    await home.queue.publish_many("jobs", [Message(b"%d" % number, key=str(number)) for number in range(50)])
    async with home.connect() as queue:
        held = [*await queue.lease("jobs", max_messages=25), *await queue.lease("jobs", max_messages=25)]
        heard = overheard(home, Settle)
        await asyncio.gather(*(message.ack() for message in held))
        assert len(heard) == 2
        assert (await queue.group("jobs", "default")).backlog == 0


async def test_a_stale_receipt_is_told_to_its_own_caller_only(home: Home) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    await home.queue.publish_many("jobs", [b"%d" % number for number in range(6)])
    async with home.connect() as queue:
        held = await queue.lease("jobs", max_messages=6)
        await queue.release([held[1], held[4]])
        heard = overheard(home, Settle)
        found = await asyncio.gather(
            queue.ack(held[0]),
            queue.ack(held[1]),
            queue.ack([held[2], held[3]]),
            queue.ack([held[4], held[5]]),
            return_exceptions=True,
        )
        assert len(heard) == 2
        assert found[0] is None
        assert found[2] is None
        assert isinstance(found[1], LeaseLostError)
        assert found[1].lost == [held[1].receipt]
        assert isinstance(found[3], LeaseLostError)
        assert found[3].lost == [held[4].receipt]
        assert [m.value for m in await queue.lease("jobs", max_messages=6)] == [b"1", b"4"]


async def test_one_message_acked_by_two_callers_is_fine_for_both(home: Home) -> None:
    await home.queue.publish("jobs", b"x")
    async with home.connect() as queue:
        (message,) = await queue.lease("jobs")
        await asyncio.gather(queue.ack(message), queue.ack(message.receipt))
        await queue.ack(message)


async def test_a_receipt_that_is_none_fails_its_own_caller_only(home: Home) -> None:
    await home.queue.publish("jobs", b"x")
    async with home.connect() as queue:
        (message,) = await queue.lease("jobs")
        found = await asyncio.gather(queue.ack(message), queue.ack("9.9.9.9.9"), return_exceptions=True)
        assert found[0] is None
        assert isinstance(found[1], LeaseLostError)
        with pytest.raises(InvalidError):
            await queue.ack("nonsense")


async def test_acks_that_are_too_many_for_one_command_happen_once_whoever_beside_them_is_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SETTLED_PER_COMMAND", 500)
    monkeypatch.setattr(limits, "SETTLED_LEASES_REMEMBERED", 1)  # acking again would not be fine
    await home.queue.create_topic("jobs", ordering="none", partitions=1)
    await home.queue.publish_many("jobs", [b"x"] * 61)
    async with home.connect() as queue:
        *held, bad = [(await queue.lease("jobs"))[0] for _ in range(61)]
        found = await asyncio.gather(
            *(queue.ack(message) for message in held[:40]),
            queue.ack([bad.receipt] * (limits.RECEIPTS_MAX + 1)),
            *(queue.ack(message) for message in held[40:]),
            return_exceptions=True,
        )
        assert isinstance(found.pop(40), InvalidError)
        assert found == [None] * 60
        assert (await queue.group("jobs")).leased == 1


@pytest.mark.parametrize("many", [False, True])
async def test_publishes_of_one_turn_that_have_too_many_headers_together_are_several_batches(
    home: Home, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    monkeypatch.setattr(limits, "BATCH_HEADERS_MAX", 25)
    await home.queue.create_topic("jobs", partitions=1)
    headers = {str(number): "x" for number in range(10)}
    async with home.connect() as queue:
        values = [b"%d" % number for number in range(9)]
        if many:
            await asyncio.gather(*(queue.publish_many("jobs", [Message(value, headers=headers)]) for value in values))
        else:
            await asyncio.gather(*(queue.publish("jobs", value, headers=headers) for value in values))
    assert [message.value async for message in home.queue.read("jobs")] == values


async def test_closing_waits_for_a_batch_that_is_under_way(home: Home) -> None:
    await home.queue.create_topic("jobs")
    queue = await home.connect().open()
    under_way = asyncio.create_task(queue.publish_many("jobs", [b"1", b"2"]))
    await asyncio.sleep(0)
    await queue.close()
    assert len(await under_way) == 2


async def test_an_answer_that_makes_no_sense_fails_its_callers_and_holds_up_nobody_behind_them() -> None:
    topic, answers = TopicName("default", "orders"), [None, None]

    async def send(publish: Publish) -> Placed:
        count = len(publish.batch)
        await asyncio.sleep(0)
        return answers.pop() if answers else Placed(TopicId(1), [0] * count, list(range(count)))  # type: ignore[return-value]

    gatherer = Gatherer(send)

    async def publish(value: bytes) -> Sent:
        return await gatherer.add(topic, Message(value))

    async with asyncio.timeout(60):
        first = [asyncio.create_task(publish(b"x")) for _ in range(3)]
        for task in first:
            with pytest.raises(AttributeError):
                await task
        second = [asyncio.create_task(publish(b"y")) for _ in range(3)]
        assert [(await task).offset for task in second] == [0, 1, 2]
        await gatherer.drain()


@pytest.mark.parametrize("tasks", [2, 3, 20])
async def test_those_who_publish_side_by_side_stay_together(tasks: int, tmp_path: Path) -> None:
    """Whoever was first goes at once, and is among the others from then on: each commit has a message of each."""
    async with ortoo.open(tmp_path) as queue:
        await queue.create_topic("jobs")
        store: Any = queue._link.store  # type: ignore[attr-defined]
        append, appends = store.append, list[int]()

        async def counted(records: Any) -> None:
            appends.append(len(records))
            await append(records)

        store.append = counted

        async def publish() -> None:
            for _ in range(30):
                await queue.publish("jobs", b"x")

        await asyncio.gather(*(publish() for _ in range(tasks)))
    assert len(appends) <= 45


@pytest.mark.parametrize("many", [False, True])
async def test_closing_ends_though_others_go_on_publishing(many: bool) -> None:
    queue = await ortoo.open().open()

    async def publish() -> None:
        while True:
            await (queue.publish_many("jobs", [b"x"]) if many else queue.publish("jobs", b"x"))

    publishing = asyncio.create_task(publish())
    await asyncio.sleep(0)
    await asyncio.wait_for(queue.close(), 60)
    with pytest.raises(ortoo.ClosedError):
        await publishing
    async with queue:
        assert (await queue.publish("jobs", b"again")).offset == 0


async def test_several_may_close_at_the_same_time(tmp_path: Path) -> None:
    queue = await ortoo.open(tmp_path).open()
    publishing = asyncio.create_task(queue.publish("jobs", b"x"))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await asyncio.gather(queue.close(), queue.close())
    assert (await publishing).offset == 0
