"""Alarms against the simplest thing that does the same; and that they take no more room than what is set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ortoo.engine.alarms import Alarm, Alarms

NAMES: list[Alarm] = [("leases",), ("dedup",), ("delays", 1, 0), ("delays", 1, 1), ("members", 2, 3), ("window", 2)]
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
            alarms.forget_topic(number)
            model = {other: when for other, when in model.items() if len(other) == 1 or other[1] != number}
        else:
            due = sorted((when, other) for other, when in model.items() if when <= number)
            assert alarms.pop(number) == (due[0][1] if due else None)
            if due:
                del model[due[0][1]]
        assert alarms.next() == min(model.values(), default=None)
        assert len(alarms) == len(model)


def test_an_alarm_that_is_overtaken_again_and_again_leaves_nothing() -> None:
    alarms, far = Alarms(), 10**9
    for now in range(10_000):
        alarms.set(("delays", 1, 0), far)
        alarms.set(("delays", 1, 0), now)
        assert alarms.pop(now) == ("delays", 1, 0)
    assert len(alarms.heap) < 200


def test_a_topic_that_is_gone_leaves_nothing() -> None:
    alarms = Alarms()
    for topic in range(1, 1_000):
        alarms.set(("delays", topic, 0), 10**9)
        alarms.forget_topic(topic)
    assert len(alarms) == 0
    assert len(alarms.heap) < 200
