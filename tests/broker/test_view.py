"""Who may see little looks at little, and never keeps others waiting for it. Counted, not timed."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from ortoo.broker import Broker, Sampler, SeriesReader
from ortoo.broker.rights import Rights
from ortoo.broker.view import View
from ortoo.model import queries as q
from ortoo.model.access import Grant, Principal
from ortoo.model.commands import CreateTopic, SetNamespace
from ortoo.model.names import TopicName
from ortoo.model.topic import TopicConfig
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock
from tests.turns import Turns, counting_turns

OTHERS = 500
LOOKS_PER_TURN = 200  # at most, with a single pattern
QUERIES = [
    q.ListTopics(None),
    q.BrowseTopics(None),
    q.ListNamespaces(None),
    q.GetStats(),
    q.GetMetrics(),
    q.GetSeries(),
    q.GetOverview(),
    q.GetActivity(),
]

pytestmark = pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)


@pytest_asyncio.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStore(), ManualClock())
    await broker.open()
    for number in range(OTHERS):
        await broker.call(CreateTopic(TopicName("others", f"topic-{number}"), TopicConfig(partitions=1)))
        await broker.call(SetNamespace(f"also-{number}"))
    for name in ("orders", "secret"):
        await broker.call(CreateTopic(TopicName("shop", name), TopicConfig(partitions=1)))
    sampler = Sampler(broker)
    broker.meters.series = SeriesReader(sampler)
    await sampler.sample()
    yield broker
    await broker.close()


class Looks:
    """Of a principal with these grants: at which topics and namespaces, and how many in a turn."""

    def __init__(self, turns: Turns, *grants: Grant) -> None:
        self._turns = turns
        self._rights = Rights(Principal("p", grants), lambda _: None, lambda _: None)
        self.seen: list[Any] = []
        self.by_turn: Counter[int] = Counter()
        self.view = View("p", grants, self._may_see, self._may_enter, Principal("p", grants).realm)

    def _may_see(self, topic: TopicName) -> bool:
        self._note(topic.namespace)
        return self._rights.may_see(topic)

    def _may_enter(self, namespace: str) -> bool:
        self._note(namespace)
        return self._rights.may_enter(namespace)

    def _note(self, namespace: str) -> None:
        self.seen.append(namespace)
        self.by_turn[self._turns.count] += 1


async def test_topics_and_namespaces_outside_of_a_realm_are_not_looked_at(broker: Broker, query: Any) -> None:
    async with counting_turns() as turns:
        looks = Looks(turns, Grant(("read",), "shop", ("orders",)))
        await broker.ask(query, looks.view)
    assert set(looks.seen) == {"shop"}
    assert len(looks.seen) <= 4


@pytest.mark.parametrize("namespace", ["others", "*"])
async def test_what_is_looked_at_and_not_shown_takes_turns(broker: Broker, query: Any, namespace: str) -> None:
    async with counting_turns() as turns:
        looks = Looks(turns, Grant(("read",), namespace, ("nothing-*",)))
        await broker.ask(query, looks.view)
    assert len(looks.seen) >= OTHERS
    assert max(looks.by_turn.values()) <= LOOKS_PER_TURN


async def test_the_more_patterns_are_tried_the_fewer_topics_are_looked_at_in_a_turn(broker: Broker, query: Any) -> None:
    patterns = tuple(f"*-x{number}-*" for number in range(64))
    async with counting_turns() as turns:
        looks = Looks(turns, *[Grant(("read",), "others", patterns)] * 20)
        await broker.ask(query, looks.view)
    assert len(looks.seen) >= OTHERS
    assert max(looks.by_turn.values()) <= 2


async def test_the_answer_has_what_may_be_seen_and_no_more(broker: Broker, query: Any) -> None:
    async with counting_turns() as turns:
        grants = (Grant(("read",), "shop", ("orders",)), Grant(("read",), "others", ("topic-7",)))
        answer = await broker.ask(query, Looks(turns, *grants).view)
    match query:
        case q.ListTopics():
            assert [(info.namespace, info.name) for info in answer] == [("others", "topic-7"), ("shop", "orders")]
        case q.BrowseTopics():
            assert [(info.namespace, info.name) for info in answer.topics] == [
                ("others", "topic-7"),
                ("shop", "orders"),
            ]
        case q.ListNamespaces():
            assert [(info.name, info.topics) for info in answer] == [("others", 1), ("shop", 1)]
        case q.GetStats():
            assert answer.topics == 2
        case q.GetSeries():
            assert (answer.topics, answer.left_out) == (2, 0)
        case q.GetOverview():
            assert [(row.namespace, row.name) for row in answer.topics] == [("others", "topic-7"), ("shop", "orders")]
            assert (answer.totals.topics, answer.matching, answer.sampler.topics) == (2, 2, 2)
        case q.GetActivity():
            seen = {(event.namespace, event.topic) for event in answer.events}
            assert seen == {("others", "topic-7"), ("shop", "orders")}
        case q.GetMetrics():
            assert [str(topic.name) for topic in answer.topics] == ["others/topic-7", "shop/orders"]
