"""A numbered command happens once and is answered the same each time, however often it is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ortoo import FullError, InvalidError
from ortoo.broker import Broker
from ortoo.broker.rights import Rights
from ortoo.engine import Engine
from ortoo.engine.producers import realm_of
from ortoo.model import limits
from ortoo.model import queries as q
from ortoo.model.access import Grant, Principal
from ortoo.model.batch import Outgoing
from ortoo.model.commands import (
    Begin,
    Commit,
    CreateGroup,
    CreateTopic,
    DeleteTopic,
    Lease,
    MarkArchived,
    Once,
    PlainCommand,
    Publish,
    PurgeTopic,
    Settle,
    Stage,
    Transact,
)
from ortoo.model.commands import Run as Receipts
from ortoo.model.names import TopicName
from ortoo.model.records import Answered, Restored
from ortoo.model.replies import Placed
from ortoo.model.topic import TopicConfig
from ortoo.testing import ManualClock
from ortoo.testing.crash import kill
from tests.e2e.home import AFTER_EACH_COMMIT, NEVER, Home
from tests.semantics.stores import LastingStore

JOBS = TopicName("default", "jobs")


def publish(*values: bytes) -> Publish:
    return Publish(JOBS, Outgoing(list(values)))


def once(command: PlainCommand, sequence: int = 1, done_below: int = 0, producer: str = "p") -> Once:
    return Once(producer, sequence, done_below, command)


def of(tenant: str, name: str) -> str:
    """As the gate names a tenant's producer."""
    return f"{tenant:0>16}.{name}"


@pytest_asyncio.fixture
async def broker(clock: ManualClock) -> AsyncIterator[Broker]:
    broker = Broker(LastingStore(), clock)
    await broker.open()
    await broker.call(CreateTopic(JOBS, TopicConfig(partitions=1)))
    yield broker
    await broker.close()


async def messages(broker: Broker) -> int:
    return (await broker.ask(q.GetTopic(JOBS))).messages


async def test_a_publish_sent_again_is_answered_the_same_and_made_once(broker: Broker) -> None:
    first = await broker.publish(once(publish(b"1", b"2")))
    assert await broker.publish(once(publish(b"1", b"2"))) == first == Placed(first.topic, [0, 0], [0, 1])
    assert await messages(broker) == 2


async def test_another_number_and_another_producer_are_other_commands(broker: Broker) -> None:
    await broker.publish(once(publish(b"1"), sequence=1))
    await broker.publish(once(publish(b"1"), sequence=2))
    await broker.publish(once(publish(b"1"), sequence=1, producer="q"))
    assert await messages(broker) == 3


async def test_every_kind_of_change_is_answered_the_same(broker: Broker) -> None:
    await broker.call(CreateGroup(JOBS, "g"))
    await broker.publish(publish(*[b"%d" % number for number in range(9)]))
    (run,) = await broker.lease(Lease(topic="jobs", group="g", consumer="c", max_messages=3))
    t = run.taken
    held = Receipts(t.topic_id, t.group_id, t.lease, t.partition, t.offsets)
    commands: list[PlainCommand] = [
        Settle("nack", [held], "no", 60_000),
        Transact([], [publish(b"t"), publish(b"u")]),
        Begin("tx"),
        Stage("tx", "part", publish(b"staged")),
        Commit("tx"),
        CreateTopic(TopicName("default", "more"), TopicConfig(), exist_ok=False),
        CreateGroup(JOBS, "h"),
        MarkArchived(JOBS, {0: 5}),
        PurgeTopic(JOBS),
        DeleteTopic(TopicName("default", "more")),
    ]
    for sequence, command in enumerate(commands, 1):
        first = await broker.call(once(command, sequence))
        state = broker.engine.snapshot()
        assert await broker.call(once(command, sequence)) == first, command
        assert broker.engine.snapshot() == state, command


async def test_what_changed_nothing_is_not_remembered(broker: Broker) -> None:
    same = CreateTopic(JOBS, TopicConfig(partitions=1))
    assert await broker.call(once(same)) == await broker.call(once(same))
    assert broker.engine.state.producers == {}


async def test_an_error_is_not_remembered(broker: Broker) -> None:
    await broker.call(CreateTopic(TopicName("default", "small"), TopicConfig(partitions=1, max_depth=1)))
    await broker.call(CreateGroup(TopicName("default", "small"), "g"))
    small = Publish(TopicName("default", "small"), Outgoing([b"x"]))
    await broker.publish(small)
    with pytest.raises(FullError):
        await broker.publish(once(small))
    await broker.call(PurgeTopic(TopicName("default", "small")))
    assert list((await broker.publish(once(small))).offsets) == [1]
    assert list((await broker.publish(once(small))).offsets) == [1]


async def test_what_the_producer_has_heard_of_is_forgotten(broker: Broker) -> None:
    for sequence in range(1, 6):
        await broker.publish(once(publish(b"x"), sequence, done_below=sequence - 1))
    assert list(broker.engine.state.producers["p"].answers) == [4, 5]
    with pytest.raises(InvalidError, match="answer forgotten"):
        await broker.publish(once(publish(b"x"), 3))
    assert await messages(broker) == 5


async def test_what_comes_late_with_an_old_mark_does_not_turn_it_back(broker: Broker) -> None:
    await broker.publish(once(publish(b"x"), 5, done_below=5))
    await broker.publish(once(publish(b"x"), 6, done_below=2))
    with pytest.raises(InvalidError):
        await broker.publish(once(publish(b"x"), 4, done_below=2))


async def test_a_number_used_for_another_command_is_refused(broker: Broker) -> None:
    await broker.publish(once(publish(b"x")))
    with pytest.raises(InvalidError, match="another command"):
        await broker.call(once(CreateGroup(JOBS, "g")))
    assert (await broker.ask(q.GetTopic(JOBS))).groups == []


async def test_a_lease_is_not_numbered(broker: Broker) -> None:
    with pytest.raises(InvalidError, match="a lease is not numbered"):
        await broker.call(once(Lease(topic="jobs", consumer="c")))


@pytest.mark.parametrize("producer", ["", "x" * 256, "a\nb"])
async def test_a_producer_has_a_name(broker: Broker, producer: str) -> None:
    with pytest.raises(InvalidError):
        await broker.publish(once(publish(b"x"), producer=producer))


class TestLimits:
    async def test_of_one_producer_so_many_answers_are_kept_the_oldest_go(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "PRODUCER_ANSWERS_MAX", 3)
        for sequence in (1, 2, 4, 3, 5):
            await broker.publish(once(publish(b"x"), sequence))
        assert sorted(broker.engine.state.producers["p"].answers) == [3, 4, 5]

    async def test_so_many_producers_are_remembered_those_silent_for_longest_go(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "PRODUCERS_MAX", 2)
        for producer in ("a", "b", "a", "c"):
            sequence = 2 if producer == "a" and "a" in broker.engine.state.producers else 1
            await broker.publish(once(publish(b"x"), sequence, producer=producer))
        assert list(broker.engine.state.producers) == ["a", "c"]

    async def test_so_many_bytes_of_answers_are_kept_of_those_silent_for_longest_none(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def kept() -> int:
            return sum(len(answer) for one in broker.engine.state.producers.values() for answer in one.answers.values())

        for producer in ("a", "b"):
            for sequence in (1, 2, 3):
                await broker.publish(once(publish(b"x"), sequence, producer=producer))
        assert broker.engine.state.producers.answer_bytes == kept()
        monkeypatch.setattr(limits, "PRODUCER_ANSWER_BYTES_MAX", kept())
        await broker.publish(once(publish(b"x"), 4, producer="b"))
        assert list(broker.engine.state.producers) == ["b"]
        assert broker.engine.state.producers.answer_bytes == kept()
        again = await broker.publish(once(publish(b"x"), 4, done_below=4, producer="b"))
        assert again == await broker.publish(once(publish(b"x"), 4, producer="b"))

    async def test_a_tenant_with_many_producers_pushes_out_its_own_only(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "PRODUCERS_MAX", 4)
        first = await broker.publish(once(publish(b"x"), producer=of("shop", "till")))
        for number in range(20):
            await broker.publish(once(publish(b"x"), producer=of("flood", f"p{number}")))
        assert await broker.publish(once(publish(b"x"), producer=of("shop", "till"))) == first
        assert list(broker.engine.state.producers) == [
            of("shop", "till"),
            *(of("flood", f"p{number}") for number in (17, 18, 19)),
        ]

    async def test_a_newcomer_is_given_room_by_the_tenant_that_has_most(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "PRODUCERS_MAX", 4)
        for tenant, name in (("shop", "a"), ("flood", "a"), ("flood", "b"), ("flood", "c"), ("post", "a")):
            await broker.publish(once(publish(b"x"), producer=of(tenant, name)))
        expected = [("shop", "a"), ("flood", "b"), ("flood", "c"), ("post", "a")]
        assert list(broker.engine.state.producers) == [of(*one) for one in expected]

    async def test_where_each_tenant_has_one_producer_the_newest_stays(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "PRODUCERS_MAX", 2)
        for number, tenant in enumerate("abcdcba"):
            await broker.publish(once(publish(b"x"), number, producer=of(tenant, "p")))
            assert list(broker.engine.state.producers)[-1] == of(tenant, "p")
        assert len(broker.engine.state.producers) == 2

    @pytest.mark.parametrize("names", [["p"], [f"p{number}" for number in range(50)]])
    async def test_a_tenant_with_large_answers_pushes_out_its_own_only(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch, names: list[str]
    ) -> None:
        producers = broker.engine.state.producers
        first = await broker.publish(once(publish(b"x"), producer=of("shop", "till")))
        monkeypatch.setattr(limits, "PRODUCER_ANSWER_BYTES_MAX", 20 * producers.answer_bytes)
        for number in range(100):
            command = once(publish(b"x", b"y", b"z"), number, producer=of("flood", names[number % len(names)]))
            answer = await broker.publish(command)
            assert await broker.publish(command) == answer
        assert producers.answer_bytes <= limits.PRODUCER_ANSWER_BYTES_MAX
        assert await broker.publish(once(publish(b"x"), producer=of("shop", "till"))) == first

    def test_who_is_forgotten_is_the_same_whether_a_snapshot_lies_in_between_or_not(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "PRODUCERS_MAX", 6)
        monkeypatch.setattr(limits, "PRODUCER_ANSWER_BYTES_MAX", 60)
        straight, halting = Engine(), Engine()
        for number, tenant in enumerate("cbacabbbcccaadeebfffabcdefa" * 3):
            record = Answered(number, of(tenant, str(number % 7)), number, 0, b"x" * (number % 20))
            straight.apply(record)
            halting.apply(record)
            assert halting.snapshot() == straight.snapshot()
            before, halting = halting, Engine()
            halting.apply(Restored(number, before.snapshot(), []))

    def test_the_producers_of_a_principal_are_one_tenant(self) -> None:
        shop, also, post = (
            Rights(Principal(name, (Grant(("write",), namespace),)), lambda _: None, lambda _: None)
            for name, namespace in (("ann", "shop"), ("bob", "shop"), ("eve", "post"))
        )
        asked = Once("aaaaaaaa.bbbbbbbb.c", 1, 0, Publish(TopicName("shop", "jobs"), Outgoing([b"x"])))
        there = Once("p", 1, 0, Publish(TopicName("post", "jobs"), Outgoing([b"x"])))
        names = [shop.narrow(asked).producer, also.narrow(asked).producer, post.narrow(there).producer]
        assert realm_of(names[0]) == realm_of(names[1]) != realm_of(names[2])
        assert "" not in map(realm_of, names)

    async def test_a_producer_that_was_silent_for_an_hour_is_forgotten(
        self, broker: Broker, clock: ManualClock
    ) -> None:
        await broker.publish(once(publish(b"x"), producer="old"))
        await clock.advance(3_500)
        await broker.publish(once(publish(b"x"), producer="young"))
        assert await broker.publish(once(publish(b"x"), producer="old")) == await broker.publish(
            once(publish(b"x"), producer="old")
        )
        await clock.advance(200)
        await broker.publish(once(publish(b"x"), producer="new"))
        assert list(broker.engine.state.producers) == ["young", "new"]


# -- across restarts


async def test_it_happens_once_across_a_restart(clock: ManualClock) -> None:
    store = LastingStore()
    before = Broker(store, clock)
    await before.open()
    first = await before.publish(once(publish(b"x"), 7, done_below=3))
    await kill(before)
    after = Broker(store, clock)
    await after.open()
    assert await after.publish(once(publish(b"x"), 7, done_below=3)) == first
    with pytest.raises(InvalidError):
        await after.publish(once(publish(b"x"), 2))
    assert await messages(after) == 1
    await after.close()


@pytest.mark.parametrize("ending", ["close", "kill"])
@pytest.mark.parametrize("checkpoint_bytes", [AFTER_EACH_COMMIT, NEVER])
async def test_it_happens_once_across_restarts_and_checkpoints(
    tmp_path: Path, ending: str, checkpoint_bytes: int
) -> None:
    home = Home(tmp_path / "data", ending=ending, checkpoint_bytes=checkpoint_bytes)
    await home.open()
    answers: dict[int, Any] = {}
    for sequence in range(1, 6):
        answers[sequence] = await home.broker.publish(once(publish(b"%d" % sequence), sequence, done_below=2))
    for _ in range(2):
        await home.open()
        for sequence, answer in answers.items():
            if sequence >= 2:
                assert await home.broker.publish(once(publish(b"%d" % sequence), sequence)) == answer
        with pytest.raises(InvalidError):
            await home.broker.publish(once(publish(b"1"), 1))
        assert await messages(home.broker) == 5
    await home.end()


async def test_an_answer_is_durable_together_with_what_it_answers(clock: ManualClock) -> None:
    """In one commit, or a crash between the two would make it happen twice."""
    store = LastingStore()
    broker = Broker(store, clock)
    await broker.open()
    await broker.publish(once(publish(b"x")))
    assert [type(record).__name__ for record in store.commits[-1]] == ["TopicCreated", "Published", "Answered"]
    await broker.close()
