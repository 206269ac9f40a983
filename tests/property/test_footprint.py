"""What there may be very much of, and mostly lies idle, costs little: topics, partitions, groups."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from ortoo.engine import Engine
from ortoo.engine.due_dates import NO_DATES
from ortoo.engine.keys import NO_KEYS
from ortoo.engine.timeline import NO_TIMELINE
from ortoo.engine.view import group_info, oldest_pending
from ortoo.engine.wheel import NO_WHEEL
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Command, CreateGroup, CreateTopic, Publish
from ortoo.model.names import TopicName
from ortoo.model.offsets import NOTHING, OffsetSet
from ortoo.model.records import Restored
from ortoo.model.topic import TopicConfig

_COUNT = 1_000
_TOPIC = TopicName("default", "t")


def _submit(engine: Engine, command: Command, now: int = 0) -> None:
    for record in engine.decide(command, now).records:
        engine.apply(record)
        engine.confirm(record)


def _topic(engine: Engine, number: int) -> None:
    _submit(engine, CreateTopic(TopicName("default", f"t{number}"), TopicConfig()))


def _partitions(engine: Engine, number: int) -> None:
    if number == 0:
        _submit(engine, CreateTopic(_TOPIC, TopicConfig(partitions=_COUNT)))


def _group(engine: Engine, number: int) -> None:
    if number == 0:
        _submit(engine, CreateTopic(_TOPIC, TopicConfig()))
    _submit(engine, CreateGroup(_TOPIC, f"g{number}"))


@pytest.mark.parametrize(("make", "most"), [(_topic, 5_000), (_partitions, 1_000), (_group, 1_000)])
def test_what_lies_idle_costs_little(make: Callable[[Engine, int], None], most: int) -> None:
    engine = Engine()
    tracemalloc.start()  # it does not see bitmaps, so there must be none: that is the next test
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(_COUNT):
            make(engine, number)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / _COUNT < most


def test_what_is_empty_is_shared_until_it_is_used() -> None:
    engine = Engine()
    _topic(engine, 0)
    _submit(engine, CreateGroup(TopicName("default", "t0"), "g"))
    [topic] = engine.state.topics.values()
    for partition in topic.partitions:
        assert all(
            one is NOTHING for one in (partition.delayed, partition.expired, partition.evicted, partition.deleted)
        )
        assert partition.delays is partition.expiries is NO_WHEEL
        assert partition.keys is NO_KEYS
        assert partition.timeline is NO_TIMELINE
        assert partition.delayed_then_due is NO_DATES


def test_looking_at_a_group_leaves_it_idle() -> None:
    engine = Engine()
    _group(engine, 0)
    _submit(engine, Publish(_TOPIC, Outgoing([b"v"])))
    [topic] = engine.state.topics.values()
    [group] = topic.groups.values()
    assert group_info(group).ready == 1
    assert oldest_pending(group) == 0
    while engine.tick(1 << 40) is not None:
        pass
    restored = Engine()
    restored.apply(Restored(0, engine.snapshot(), []))
    for one in (group, restored.state.topics[topic.id].groups[group.id]):
        assert all(one.feeds.is_untouched(index) for index in range(len(one.feeds)))


def test_what_is_shared_refuses_to_be_changed() -> None:
    with pytest.raises(TypeError):
        NOTHING.add(1)
    with pytest.raises(TypeError):
        NOTHING.update(OffsetSet([1]))
    with pytest.raises(TypeError):
        NOTHING.add_span(0, 1)
    with pytest.raises(TypeError):
        NO_WHEEL.add(1, 1)
    with pytest.raises(TypeError):
        NO_DATES.add([(1, 1)])
    with pytest.raises(TypeError):
        NO_TIMELINE.append(0, 0, 0)
    with pytest.raises(TypeError):
        NO_KEYS.append(0, 1, None)
    assert NO_WHEEL.pop(5) == []
    assert NO_WHEEL.now == 0


def test_the_shared_set_is_like_any_empty_one() -> None:
    some = OffsetSet([1, 5])
    mine: OffsetSet = NOTHING
    mine |= some
    mine.add(7)
    assert (list(mine), list(some), list(NOTHING)) == ([1, 5, 7], [1, 5], [])
    NOTHING.subtract(some)
    NOTHING.discard(1)
    NOTHING.remove_span(0, 9)
    for made in (NOTHING & some, NOTHING - some, NOTHING.copy(), NOTHING.take(1), NOTHING.within(0, 9)):
        made.add(3)  # none of them is the shared one
        assert list(made) == [3]
    assert list(NOTHING | some) == [1, 5]
    assert OffsetSet() == NOTHING
    assert NOTHING.to_bytes() == OffsetSet().to_bytes()
