"""Alarms against the simplest thing that does the same; and that they take no more room than what is set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ortoo.engine.alarms import (
    Alarm,
    Alarms,
    DelaysDue,
    ExpiriesDue,
    LeasesRunOut,
    MembersDue,
    SharedIdsOutdated,
    TopicAlarm,
    WindowCloses,
)
from ortoo.model.names import GroupId, TopicId

ONE, TWO = TopicId(1), TopicId(2)
NAMES: list[Alarm] = [
    LeasesRunOut(),
    SharedIdsOutdated(),
    DelaysDue(ONE, 0),
    DelaysDue(ONE, 1),
    ExpiriesDue(ONE, 0),
    MembersDue(TWO, GroupId(3)),
    WindowCloses(TWO),
]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from(NAMES), st.integers(0, 50)),
        st.tuples(st.just("pop"), st.just(NAMES[0]), st.integers(0, 50)),
        st.tuples(st.just("forget"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("forget topic"), st.just(NAMES[0]), st.integers(1, 2)),
    ),
    max_size=200,
)


@given(STEPS)
def test_they_do_what_a_plain_dict_does(steps: list[tuple[str, Alarm, int]]) -> None:
    alarms, model = Alarms(), dict[Alarm, int]()
    for what, alarm, number in steps:
        if what == "set":
            alarms.set(alarm, number)
            model[alarm] = min(number, model.get(alarm, number))
        elif what == "forget":
            alarms.forget(alarm)
            model.pop(alarm, None)
        elif what == "forget topic":
            alarms.forget_topic(TopicId(number))
            model = {
                other: when
                for other, when in model.items()
                if not isinstance(other, TopicAlarm) or other.topic != number
            }
        elif (popped := alarms.pop(number)) is not None:
            earliest = min(model.values())
            assert model.pop(popped) == earliest <= number
        else:
            assert all(when > number for when in model.values())
        assert alarms.next() == min(model.values(), default=None)
        assert len(alarms) == len(model)


def test_an_alarm_that_is_overtaken_again_and_again_leaves_nothing() -> None:
    alarms, far = Alarms(), 10**9
    for now in range(10_000):
        alarms.set(DelaysDue(ONE, 0), far)
        alarms.set(DelaysDue(ONE, 0), now)
        assert alarms.pop(now) == DelaysDue(ONE, 0)
    assert len(alarms.heap) < 200


def test_a_topic_that_is_gone_leaves_nothing() -> None:
    alarms = Alarms()
    for topic in range(1, 1_000):
        alarms.set(DelaysDue(TopicId(topic), 0), 10**9)
        alarms.forget_topic(TopicId(topic))
    assert len(alarms) == 0
    assert len(alarms.heap) < 200
