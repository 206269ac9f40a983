"""The index of subscriptions gives what a simple search through all of them gives, kept answers included."""

from __future__ import annotations

import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ortoo.doors.mqtt.routing import filter_tree, subscriptions
from ortoo.doors.mqtt.routing.subscriptions import Match, Recipient, SubscriptionIndex
from ortoo.doors.mqtt.wire.topics import Filter, matches, parse_filter

Index = SubscriptionIndex[int]
level = st.sampled_from(["a", "b", "", "$x"])
topics = st.lists(level, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    parts = draw(st.lists(level | st.just("+"), min_size=1, max_size=4))
    if draw(st.booleans()):
        parts.append("#")
    text = "/".join(parts) or "+"
    return parse_filter(f"$share/{draw(st.sampled_from('gh'))}/{text}" if draw(st.booleans()) else text)


def recipients(subscriber: int) -> st.SearchStrategy[Recipient[int]]:
    ids = st.just(()) | st.integers(1, 9).map(lambda one: (one,))
    return st.builds(Recipient, st.just(subscriber), st.integers(0, 2), ids, st.booleans(), st.booleans())


def told(found: Recipient[int] | None) -> object:
    if found is None:
        return None
    own = told(found.own) if found.no_local else "the same"
    return found.subscriber, found.qos, sorted(found.ids), found.retain_as_published, own


class Naive:
    """All subscriptions in one list, by the letter of the specification."""

    def __init__(self) -> None:
        self.all: dict[tuple[Filter, int], Recipient[int]] = {}

    def expected(self, topic: str) -> tuple[object, object]:
        plain: dict[int, list[Recipient[int]]] = {}
        shared: dict[tuple[str, Filter], set[int]] = {}
        for (filter, who), recipient in self.all.items():
            if matches(filter.levels, topic):
                if filter.group is None:
                    plain.setdefault(who, []).append(recipient)
                else:
                    shared.setdefault((filter.group, filter), set()).add(who)
        found = []
        for who, some in plain.items():
            others = [one for one in some if not one.no_local]
            own: object = "the same" if len(others) == len(some) else self.merged(who, others)
            found.append((*self.merged(who, some)[:4], own) if some else None)
        return sorted(map(str, found)), sorted((str(key), sorted(members)) for key, members in shared.items())

    def merged(self, who: int, some: list[Recipient[int]]) -> tuple[object, ...]:
        if not some:
            return None  # type: ignore[return-value]
        ids = sorted(number for one in some for number in one.ids)
        return who, max(one.qos for one in some), ids, any(one.retain_as_published for one in some), "the same"


def seen(match: Match[int]) -> tuple[object, object]:
    groups = [(str((group.filter.group, group.filter)), sorted(members(group))) for group in match.groups]
    return sorted(str(told(one)) for one in match.recipients), sorted(groups)


def members(group: subscriptions.SharedGroup[int]) -> set[int]:
    found = set()
    for _ in range(len(group)):
        picked = group.pick(lambda _: True)
        assert picked is not None
        found.add(picked.subscriber)
    return found


class Subscribing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index: Index = SubscriptionIndex()
        self.naive = Naive()
        self.asked: set[str] = set()

    @rule(filter=filters(), recipient=st.integers(1, 3).flatmap(recipients))
    def add(self, filter: Filter, recipient: Recipient[int]) -> None:
        key = (filter, recipient.subscriber)
        assert self.index.add(filter, recipient) == (key not in self.naive.all)
        self.naive.all[key] = recipient

    @rule(filter=filters(), subscriber=st.integers(1, 3))
    def remove(self, filter: Filter, subscriber: int) -> None:
        assert self.index.remove(filter, subscriber) == ((filter, subscriber) in self.naive.all)
        self.naive.all.pop((filter, subscriber), None)

    @rule(data=st.data())
    def remove_one_that_is_there(self, data: st.DataObject) -> None:
        if self.naive.all:
            filter, subscriber = data.draw(st.sampled_from(list(self.naive.all)))
            self.remove(filter, subscriber)

    @rule(topic=topics)
    def match(self, topic: str) -> None:
        self.asked.add(topic)

    @invariant()
    def what_was_asked_is_still_right(self) -> None:
        for topic in self.asked:
            assert seen(self.index.match(topic)) == self.naive.expected(topic)
        assert self.index.count == len(self.naive.all)

    def teardown(self) -> None:
        for filter, subscriber in list(self.naive.all):
            assert self.index.remove(filter, subscriber)
        assert self.index.count == 0
        for tree in (self.index._tree, self.index._shared):
            assert not tree._root.below  # nothing is left behind


TestSubscribing = Subscribing.TestCase
TestSubscribing.settings = settings(max_examples=100, stateful_step_count=30)


def filled(*texts: str) -> Index:
    index: Index = SubscriptionIndex()
    for number, text in enumerate(texts):
        index.add(parse_filter(text), Recipient(number))
    return index


def who(index: Index, topic: str) -> list[int]:
    return sorted(one.subscriber for one in index.match(topic).recipients)


def test_examples_of_the_specification() -> None:
    """5:[MQTT-4.7.2-1] 3:[MQTT-4.7.2-1] 5:[MQTT-4.7.3-4] 3:[MQTT-4.7.3-4] 5:[MQTT-3.3.2-3] 3:[MQTT-3.3.2-3]"""
    index = filled("sport/tennis/player1/#", "sport/#", "#", "+", "/+", "+/+", "$SYS/#", "$SYS/monitor/+", "sport/+")
    assert who(index, "sport/tennis/player1") == [0, 1, 2]
    assert who(index, "sport/tennis/player1/score/wimbledon") == [0, 1, 2]
    assert who(index, "sport") == [1, 2, 3]
    assert who(index, "sport/") == [1, 2, 5, 8]
    assert who(index, "/finance") == [2, 4, 5]
    assert who(index, "$SYS/monitor/Clients") == [6, 7]
    assert who(index, "SPORT") == [2, 3]


def test_one_copy_for_a_client_whose_filters_overlap() -> None:
    """5:[MQTT-3.3.4-2] 3:[MQTT-3.3.5-1] 5:[MQTT-3.3.4-4]"""
    index: Index = SubscriptionIndex()
    index.add(parse_filter("a/#"), Recipient(1, 0, (7,)))
    index.add(parse_filter("a/+"), Recipient(1, 2, (8,)))
    index.add(parse_filter("a/b"), Recipient(1, 1))
    [found] = index.match("a/b").recipients
    assert (found.qos, sorted(found.ids)) == (2, [7, 8])


def test_a_subscription_replaces_the_one_before() -> None:
    """5:[MQTT-3.8.4-3] 3:[MQTT-3.8.4-3]"""
    index: Index = SubscriptionIndex()
    assert index.add(parse_filter("a/b"), Recipient(1, 0))
    assert not index.add(parse_filter("a/b"), Recipient(1, 2))
    assert [one.qos for one in index.match("a/b").recipients] == [2]
    assert index.count == 1


def test_members_of_a_group_take_turns() -> None:
    index: Index = SubscriptionIndex()
    for number in range(3):
        index.add(parse_filter("$share/g/a"), Recipient(number))
    [group] = index.match("a").groups
    picked = [group.pick(lambda who: who != 1) for _ in range(4)]
    assert [one.subscriber for one in picked if one] == [0, 2, 0, 2]
    assert group.pick(lambda _: False) is None
    assert index.match("a").recipients == []


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "TOPICS_KEPT", 5)
    monkeypatch.setattr(subscriptions, "RECIPIENTS_KEPT", 20)
    index = filled("#", "+", "a/#")
    for number in range(50):
        assert who(index, f"t{number}") == [0, 1]
        assert len(index._kept) <= 5
        assert index._kept_recipients == sum(1 + len(one.recipients) for one in index._kept.values()) <= 20


def test_only_what_a_change_concerns_is_found_anew() -> None:
    index = filled("a/#", "b/#", "a/b")
    before = index.match("b/x"), index.match("a/x")
    index.add(parse_filter("a/+"), Recipient(9))
    index.add(parse_filter("b/y"), Recipient(9))
    assert index.match("b/x") is before[0]
    assert index.match("a/x") is not before[1]
    for number in range(subscriptions.CHANGES_KEPT + 1):
        index.add(parse_filter(f"c/{number}/+"), Recipient(9))
    assert index.match("b/x") is not before[0]  # it does not know any more


def test_what_changes_while_others_run_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_tree, "STEPS", 1)
    index = filled("a/#", "a/+", "a/b/#")
    walk = index.matching("a/b")
    assert next(walk) is None
    index.add(parse_filter("a/b"), Recipient(9))
    found = [one for one in walk if one is not None]
    assert len(found) == 1
    assert who(index, "a/b") == [0, 1, 2, 9]


def test_a_long_search_lets_others_run() -> None:
    """Filters made to be walked through, all of them: 2 ** 13 of a and +."""
    index: Index = SubscriptionIndex()
    for number in range(2**13):
        text = "/".join("a+"[number >> place & 1] for place in range(13))
        index.add(parse_filter(text), Recipient(number))
    *pauses, found = index.matching("/".join("a" * 13))
    assert found is not None
    assert len(found.recipients) == 2**13
    assert len(pauses) >= 2**13 / filter_tree.STEPS - 1
    assert set(pauses) == {None}


def test_filters_that_begin_otherwise_cost_no_steps() -> None:
    index: Index = SubscriptionIndex()
    random = Random(1)
    for number in range(20_000):
        index.add(parse_filter(f"z/{'/'.join(random.choices('a+', k=12))}/{number}"), Recipient(number))
    index.add(parse_filter("a/+"), Recipient(1))
    assert len(list(index.matching("a/b"))) == 1


@given(st.lists(topics, max_size=3))
def test_a_lone_filter_is_not_spread_over_nodes(some: list[str]) -> None:
    index = filled("/".join("a" * 100) + "/#")
    [leaf] = index._tree._root.below.values()
    assert sys.getsizeof(leaf) < 100
