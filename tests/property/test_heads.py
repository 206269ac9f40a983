"""Whether a lease finds what is next without looking at every partition, whatever has happened to them since the last one."""

from __future__ import annotations

from functools import partialmethod
from random import Random
from typing import Any

import pytest

from ortoo.engine import Engine
from ortoo.engine import order as order_module
from ortoo.engine.feeds import Feeds
from ortoo.engine.heads import News
from ortoo.engine.order import Order
from ortoo.engine.picker import Budget, Picker
from ortoo.model import limits
from ortoo.model.batch import Outgoing
from ortoo.model.commands import (
    Command,
    CreateGroup,
    CreateTopic,
    Lease,
    Position,
    Publish,
    RetryNow,
    Run,
    Seek,
    Settle,
)
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.replies import LeaseTaken
from ortoo.model.topic import TopicConfig

_TOPIC = TopicName("default", "t")


class _Watched(Picker):
    made = 0

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        _Watched.made += 1


class _OrderByAll(Order):
    """As it would be without any memory of earlier leases."""

    def __init__(self, feeds: Feeds, news: News, budget: Budget) -> None:
        super().__init__({feed.partition.index: Picker(feed, budget) for feed in feeds if feed.may_have_some()})


def _submit(engine: Engine, command: Command, now: int) -> object:
    decision = engine.decide(command, now)
    for record in decision.records:
        engine.apply(record)
        engine.confirm(record)
    return decision.reply


def _lease(count: int, now: int) -> Lease:
    return Lease(topic="t", group="g", consumer="c", max_messages=count, lease_ms=50 + now % 7)


def test_a_lease_looks_at_few_of_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    _submit(engine, CreateTopic(_TOPIC, TopicConfig(partitions=1_000)), 0)
    _submit(engine, CreateGroup(_TOPIC, "g"), 0)
    for now in range(1_000):
        _submit(engine, Publish(_TOPIC, Outgoing([b"v"] * 3)), now)
    _submit(engine, _lease(1, 1_000), 1_000)
    monkeypatch.setattr(order_module, "Picker", _Watched)
    for now in range(1_001, 1_011):
        _Watched.made = 0
        _submit(engine, _lease(1, now), now)
        assert 1 <= _Watched.made <= 3


def _batch(random: Random, *, with_priorities: bool) -> Outgoing:
    count = random.randrange(1, 5)
    return Outgoing(
        [b"v"] * count,
        [random.choice([None, "a", "b", "c", "d"]) for _ in range(count)],
        priorities=[random.choice([1, 5, 5, 9]) for _ in range(count)] if with_priorities else None,
        delays=[random.choice([None, None, 0.02]) for _ in range(count)],
    )


@pytest.mark.parametrize("seed", range(60))
def test_it_takes_what_it_would_if_it_looked_at_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines get the same commands; one forgets after each lease where the next messages are."""
    random, now = Random(seed), 0
    monkeypatch.setattr(limits, "SORTED_AT_ONCE", 2)
    engine, other = Engine(), Engine()
    config = TopicConfig(
        partitions=7,
        ordering=random.choice(["key", "none"]),
        window_seconds=random.choice([0.0, 0.0, 0.03]),
        max_attempts=50,
        backoff_initial=0.01,
        backoff_max=0.05,
    )

    def both(command: Command) -> object:
        for one in (engine, other):
            while (records := one.tick(now)) is not None:
                for record in records:
                    one.apply(record)
                    one.confirm(record)
        found = _submit(engine, command, now)
        with monkeypatch.context() as patch:
            patch.setattr("ortoo.engine.lease.OrderByHeads", _OrderByAll)
            assert _submit(other, command, now) == found
        return found

    both(CreateTopic(_TOPIC, config))
    both(CreateGroup(_TOPIC, "g"))
    leased: list[Run] = []
    for _ in range(300):
        now += random.randrange(4)
        match random.randrange(9):
            case 0 | 1 | 2:
                both(Publish(_TOPIC, _batch(random, with_priorities=seed % 2 == 0)))
            case 3 | 4 | 5:
                taken = both(_lease(random.randrange(1, 6), now))
                assert isinstance(taken, LeaseTaken)
                leased += [
                    Run(run.topic_id, run.group_id, run.lease, run.partition, run.offsets) for run in taken.taken
                ]
            case 6 | 7 if leased:
                run = leased.pop(random.randrange(len(leased)))
                both(Settle(random.choice(["ack", "ack", "nack", "release"]), [run]))
            case 8 if random.random() < 0.5:
                partition = random.randrange(7)
                [topic] = engine.state.topics.values()
                log = topic.partitions[partition]
                if log.durable > log.start:
                    ref = MessageRef(topic.id, partition, random.randrange(log.start, log.durable))
                    both(RetryNow(ref, "g"))
            case 8 if random.random() < 0.3:
                start = random.randrange(5)
                until = random.choice([None, Position(offset=start + random.randrange(20))])
                both(Seek(_TOPIC, "g", Position(offset=start), until))
                leased.clear()


def test_a_mistake_in_the_middle_loses_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    _submit(engine, CreateTopic(_TOPIC, TopicConfig(partitions=4)), 0)
    _submit(engine, CreateGroup(_TOPIC, "g"), 0)
    for now in range(4):
        _submit(engine, Publish(_TOPIC, Outgoing([b"v"])), now)
    head = Picker.head
    for broken in (2, 0, 3):
        with monkeypatch.context() as patch:
            patch.setattr(Picker, "head", partialmethod(_fail_at, head, broken))
            with pytest.raises(ZeroDivisionError):
                engine.decide(_lease(4, 5), 5)
    taken = _submit(engine, _lease(4, 5), 5)
    assert isinstance(taken, LeaseTaken)
    assert [run.partition for run in taken.taken] == [0, 1, 2, 3]


def _fail_at(picker: Picker, head: Any, broken: int, wanted: int) -> Any:
    if picker.feed.partition.index == broken:
        raise ZeroDivisionError
    return head(picker, wanted)
