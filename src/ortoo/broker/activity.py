"""Answers `GetActivity`: what happened in the last seconds, found in the rings of the sampler.

Where much happens the last two seconds are enough; where they are not, more are looked at. So no more rows are looked at than are
worth telling, or few.
"""

from __future__ import annotations

from heapq import nsmallest

from ortoo.engine.state import State
from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.live import Activity, ActivityEvent, ActivityKind
from ortoo.model.names import TopicName, is_inbox_name
from ortoo.model.queries import GetActivity

from .rings import OF_TOPIC
from .sampler import Sampler
from .turns import Turns
from .view import View, visible

_GATHERED = 20  # times as many as are told, before the others are left out
_STRETCHES = (2, 10, 60, limits.SERIES_SECONDS)  # seconds
_KINDS: dict[ActivityKind, int] = {
    "pushed": OF_TOPIC.names.index("published"),
    "delivered": OF_TOPIC.names.index("delivered"),
    "completed": OF_TOPIC.names.index("acked"),
    "failed": OF_TOPIC.names.index("failed"),
    "dead_lettered": OF_TOPIC.names.index("dead_lettered"),
}

_Event = tuple[int, ActivityKind, TopicName, int]  # tick first


async def read_activity(state: State, sampler: Sampler, query: GetActivity, view: View | None) -> Activity:
    namespace, limit = query.namespace, query.limit
    if not 1 <= limit <= limits.ACTIVITY_EVENTS_MAX:
        raise InvalidError(f"limit must be 1 to {limits.ACTIVITY_EVENTS_MAX}, not {limit}")
    turns = Turns()
    topics = [
        (topic, sampler.topics[topic.id])
        for topic in await visible(state, view, turns, namespace)
        if topic.id in sampler.topics
    ]
    found: list[_Event] = []
    for seconds in _STRETCHES:
        first = sampler.newest + 1 - seconds
        found = _deleted(sampler, first, namespace, view)
        for topic, series in topics:
            made = topic.created // 1_000 - sampler.shift
            if made >= first:
                found.append((made, "topic_created", topic.name, 1))
            ring = series.rings.seconds
            if ring.newest >= first:
                columns = ring.read(first, seconds)
                found += _happened(columns, first, topic.name)
                if len(found) > _GATHERED * limit:
                    found = nsmallest(limit, found, key=_newest_first)
                await turns.worked(2 + seconds // 10)
            else:
                await turns.worked(0.2)
        if len(found) >= limit:
            break
    return Activity(
        [
            ActivityEvent(float(tick + sampler.shift), kind, topic.namespace, topic.name, count)
            for tick, kind, topic, count in nsmallest(limit, found, key=_newest_first)
        ]
    )


def _newest_first(event: _Event) -> tuple[int, TopicName, ActivityKind]:
    return -event[0], event[2], event[1]


def _happened(columns: list[list[int]], first: int, topic: TopicName) -> list[_Event]:
    return [
        (first + place, kind, topic, count)
        for kind, which in _KINDS.items()
        if any(columns[which])
        for place, count in enumerate(columns[which])
        if count
    ]


def _deleted(sampler: Sampler, first: int, namespace: str | None, view: View | None) -> list[_Event]:
    return [
        (tick, "topic_deleted", topic, 1)
        for tick, topic in sampler.deleted
        if tick >= first
        and (namespace is None or topic.namespace == namespace)
        and (
            view is None or (not is_inbox_name(topic.name) and view.may_see(topic))
        )  # whose it was, nobody knows any more
    ]
