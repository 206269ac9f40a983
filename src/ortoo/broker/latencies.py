"""How long deliveries and acks took of late in the topics of an overview. Each is looked at once, when somebody sees it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ortoo.engine.group import Group
from ortoo.engine.state import State
from ortoo.engine.view import Latencies
from ortoo.model import limits
from ortoo.model.latency import WINDOW_MS, Latency
from ortoo.model.names import TopicId

from .turns import Turns

_ADD_UNITS = 0.5  # of one group, in units of turns
_LOOK_UNITS = 0.1
QUIET_TICKS = 2 * WINDOW_MS // 1_000  # after which nothing is known any more

Pair = tuple[Latency | None, Latency | None]  # of deliveries, and of acks
_NOTHING: Pair = (None, None)


class TopicLatencies:
    def __init__(self, state: State, now: int) -> None:
        self._state = state
        self._now = now
        self._found: dict[TopicId, Pair] = {}

    def of(self, topic: TopicId) -> Pair:
        found = self._found.get(topic)
        if found is None:
            groups = self._groups(topic)
            found = self._found[topic] = self._sum_up(groups) if groups else _NOTHING
        return found

    def _sum_up(self, groups: list[Group]) -> Pair:
        latencies = Latencies(self._now)
        for group in groups:
            latencies.add(group)
        return latencies.found()

    async def total(self, topics: Iterable[TopicId], turns: Turns) -> Pair:
        latencies = Latencies(self._now)
        for topic in topics:
            for group in self._groups(topic):
                await turns.worked(_LOOK_UNITS + _ADD_UNITS * latencies.add(group))
        return latencies.found()

    def _groups(self, topic: TopicId) -> list[Group]:
        """As many as are sampled."""
        found = self._state.topics.get(topic)
        if found is None or not found.groups:
            return []
        return list(islice(found.groups.values(), limits.SERIES_TOPIC_GROUPS_MAX))
