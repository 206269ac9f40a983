"""The index of retained messages gives what a simple search through all topics gives, also while it changes."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from ortoo.doors.mqtt.routing import retained
from ortoo.doors.mqtt.routing.retained import RetainedIndex
from ortoo.doors.mqtt.wire.topics import matches, parse_filter

level = st.sampled_from(["a", "b", "", "$x"])
topics = st.lists(level, min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.builds(
    lambda parts, is_open: "/".join([*parts, "#"] if is_open else parts) or "+",
    st.lists(level | st.just("+"), max_size=4),
    st.booleans(),
)


class Retaining(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index: RetainedIndex[int] = RetainedIndex()
        self.naive: dict[str, int] = {}

    @rule(topic=topics, value=st.integers(1, 9))
    def set(self, topic: str, value: int) -> None:
        self.index.set(topic, value)
        self.naive[topic] = value

    @rule(topic=topics)
    def delete(self, topic: str) -> None:
        assert self.index.delete(topic) == self.naive.pop(topic, None)

    @rule(data=st.data())
    def delete_one_that_is_there(self, data: st.DataObject) -> None:
        if self.naive:
            self.delete(data.draw(st.sampled_from(list(self.naive))))

    @rule(text=filters)
    def find(self, text: str) -> None:
        levels = parse_filter(text).levels
        found = [one for one in self.index.matching(levels) if one is not None]
        assert sorted(found) == sorted(one for one in self.naive.items() if matches(levels, one[0]))
        assert len(self.index) == len(self.naive)

    def teardown(self) -> None:
        for topic in list(self.naive):
            self.index.delete(topic)
        assert not self.index._root.below  # nothing is left behind


TestRetaining = Retaining.TestCase
TestRetaining.settings = settings(max_examples=150, stateful_step_count=30)


@given(st.sets(topics, max_size=12), st.lists(st.tuples(topics, st.booleans()), max_size=12), filters)
@settings(max_examples=300)
def test_what_is_there_all_the_time_is_found_once(start: set[str], changes: list[tuple[str, bool]], text: str) -> None:
    index: RetainedIndex[int] = RetainedIndex()
    for topic in start:
        index.set(topic, 1)
    levels = parse_filter(text).levels
    kept, found = {topic for topic in start if matches(levels, topic)}, []
    ever = set(start) | {topic for topic, _ in changes}
    walk = index.matching(levels)
    for topic, is_set in changes:
        found += [one[0] for one in islice(walk, 1) if one]
        if is_set:
            index.set(topic, 1)
        else:
            index.delete(topic)
            kept.discard(topic)
    found += [one[0] for one in walk if one]
    assert kept <= set(found) <= {topic for topic in ever if matches(levels, topic)}
    assert len(found) == len(set(found)) or any(not is_set for _, is_set in changes)


@pytest.mark.parametrize("text", ["#", "+/+", "s/#"])
def test_a_long_walk_lets_others_run(text: str) -> None:
    index: RetainedIndex[int] = RetainedIndex()
    for number in range(10_000):
        index.set(f"s/{number}", number)
    walk = list(index.matching(parse_filter(text).levels))
    assert len([one for one in walk if one]) == 10_000
    assert walk.count(None) >= 10_000 // retained.STEPS
    longest = gap = 0
    for one in walk:
        gap = 0 if one is None else gap + 1
        longest = max(longest, gap)
    assert longest <= retained.STEPS


def test_a_walk_begins_without_looking_at_all() -> None:
    index: RetainedIndex[int] = RetainedIndex()
    for number in range(5_000):
        index.set(f"site/{number}/temp", number)
    first = next(index.matching(parse_filter("site/+/temp").levels))
    assert first == ("site/0/temp", 0)
