"""The part of the metrics that grows: topics and groups, so many of them with series of their own, in turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ortoo.engine import Engine
from ortoo.engine.group import Group, Tally, add_tallies
from ortoo.engine.topic import Topic, TopicCounters
from ortoo.engine.view import group_info, group_load, oldest_pending
from ortoo.model import metrics as m
from ortoo.model.histogram import Histogram
from ortoo.model.latency import HISTOGRAM_WIDTH, to_histogram
from ortoo.model.names import TopicName
from ortoo.model.records import DeathReason
from ortoo.model.replies import Counters
from ortoo.model.topic import TopicConfig

from .meters import Meters
from .own_series import Rank
from .turns import Turns
from .view import View, visible

_FAILED: tuple[DeathReason, ...] = ("attempts", "timeout", "rejected", "moved")
_EXPIRED: tuple[DeathReason, ...] = ("ttl", "max_wait")
_REASONS: tuple[DeathReason, ...] = (*_FAILED, *_EXPIRED, "superseded")
_COUNTERS = Counters.__struct_fields__
TOPIC_WIDTH = len(_COUNTERS) + 2 * len(_REASONS)
_DELIVERY_AT = len(m.GROUP_COUNTERS)
_ACK_AT = _DELIVERY_AT + HISTOGRAM_WIDTH
_TALLY_UNITS = 0.1  # of a group, in units of turns


class Measured(Protocol):
    engine: Engine
    meters: Meters

    def now(self) -> int: ...


class Found(NamedTuple):
    """What a look at topics found."""

    topics: list[m.TopicFigures]
    deliveries: list[tuple[TopicName, Histogram]]
    latencies: list[m.GroupLatencies]
    total: Counters
    groups: list[m.GroupFound]  # with series of their own, of topics without


async def measure_all(broker: Measured, turns: Turns) -> tuple[Found, m.GroupFigures | None]:
    """With as many series as the settings allow, and what the groups without one sum up to."""
    state, now = broker.engine.state, broker.now()
    topic_series, group_series = broker.meters.own_series(state.epoch, TOPIC_WIDTH)
    topic_series.begin(_to_vector(state.soft.past_topics))
    group_series.begin(state.soft.past_groups)
    found = Found([], [], [], state.past_counters(), [])
    others, other_groups = m.TopicFigures(m.OTHER_TOPICS, dead_lettered={}, dropped={}), m.GroupFigures()
    for topic in await visible(state, None, turns):
        figures, counted = _topic(topic), _to_vector(topic.counters)
        found.total.add(figures.counters)
        shown = topic_series.see(topic.id, counted, _topic_rank(figures))
        if shown is None:
            others.add(figures)
        else:
            _set_vector(figures, shown)
            found.topics.append(figures)
            _tell_deliveries(found, topic)
        group_series.count_past(topic.gone_groups)
        for key, name, groups, gone in _candidates(topic):
            seen, tally = await _look_at(topic, groups, gone, now, turns)
            if (told := group_series.see((topic.id, key), tally, _group_rank(seen, tally))) is None:
                other_groups.add(seen)
            else:
                _tell_group(found, topic.name, None if shown is None else figures, name, seen, told)
        await turns.worked(len(topic.partitions) + _TALLY_UNITS * len(topic.groups))
    if (rest := topic_series.end()) is not None:
        _set_vector(others, rest)
        found.topics.append(others)
    if (rest := group_series.end()) is None:
        return found, None
    _tell_group(found, m.OTHER_TOPICS, m.TopicFigures(m.OTHER_TOPICS), m.OTHER, other_groups, rest)
    return found, other_groups


async def measure_some(
    broker: Measured, turns: Turns, view: View | None, namespace: str | None, wanted: str | None
) -> Found:
    """Of these the first. Nothing is summed up: whoever looks at something else tomorrow would see a sum that went down."""
    now = broker.now()
    found, left = Found([], [], [], Counters(), []), m.GROUPS_TOLD
    for topic in await visible(broker.engine.state, view, turns, namespace):
        if wanted not in (None, topic.name.name):
            continue
        if len(found.topics) >= m.TOPICS_TOLD:
            break
        figures = _topic(topic)
        found.topics.append(figures)
        _tell_deliveries(found, topic)
        for _, name, groups, gone in _candidates(topic):
            if left > 0:
                left -= 1
                seen, tally = await _look_at(topic, groups, gone, now, turns)
                _tell_group(found, topic.name, figures, name, seen, tally)
        await turns.worked(len(topic.partitions) + _TALLY_UNITS * len(topic.groups))
    return found


def _candidates(topic: Topic) -> Iterator[tuple[int, str, list[Group], Tally | None]]:
    """What may have a series: each group, and all together that go with their consumer, with what was counted of those that are
    gone: at one instant, for more of them go between the turns, and none may be counted twice."""
    passing, gone = [], topic.gone_ephemeral
    for group in list(topic.groups.values()):
        if group.ephemeral:
            passing.append(group)
        else:
            yield group.id, group.name, [group], None
    if passing or gone is not None:
        yield 0, m.EPHEMERAL, passing, gone


async def _look_at(
    topic: Topic, groups: list[Group], tally: Tally | None, now: int, turns: Turns
) -> tuple[m.GroupFigures, Tally | None]:
    seen = m.GroupFigures()
    for group in groups:
        seen.add(_group(group, now))
        tally = add_tallies(tally, group.tally())
        await turns.worked(len(topic.partitions))
    return seen, tally


def _tell_group(
    found: Found,
    topic: TopicName,
    figures: m.TopicFigures | None,
    name: str,
    seen: m.GroupFigures,
    tally: Tally | None,
) -> None:
    if tally is not None:
        seen.delivered, seen.acked, seen.retried, seen.dead_lettered = tally[:_DELIVERY_AT]
        delivery, ack = to_histogram(tally[_DELIVERY_AT:_ACK_AT]), to_histogram(tally[_ACK_AT:])
        if delivery.count or ack.count:
            found.latencies.append(m.GroupLatencies(topic, name, delivery, ack))
    if figures is None:
        found.groups.append(m.GroupFound(topic, name, seen))
    else:
        figures.groups[name] = seen


def _tell_deliveries(found: Found, topic: Topic) -> None:
    tally = topic.tally()
    if tally is not None and (delivery := to_histogram(tally[_DELIVERY_AT:_ACK_AT])).count:
        found.deliveries.append((topic.name, delivery))


def _topic_rank(figures: m.TopicFigures) -> Rank:
    counters = figures.counters
    failures = counters.dead_lettered + counters.dropped + counters.retried
    return Rank(failures > 0, counters.published + counters.delivered + figures.depth)


def _group_rank(seen: m.GroupFigures, tally: Tally | None) -> Rank:
    delivered, _, retried, dead = (0, 0, 0, 0) if tally is None else tally[:_DELIVERY_AT]
    return Rank(retried + dead + seen.dead > 0, delivered + seen.backlog)


def _to_vector(counters: TopicCounters) -> list[int]:
    dead, dropped = counters.dead_reasons, counters.drop_reasons
    return [
        *(getattr(counters, name) for name in _COUNTERS),
        *(dead.get(reason, 0) for reason in _REASONS),
        *(dropped.get(reason, 0) for reason in _REASONS),
    ]


def _set_vector(figures: m.TopicFigures, shown: list[int]) -> None:
    """Reasons that are not there are zero."""
    for name, value in zip(_COUNTERS, shown, strict=False):
        setattr(figures.counters, name, value)
    at = len(_COUNTERS)
    for reasons in (figures.dead_lettered, figures.dropped):
        for reason, value in zip(_REASONS, shown[at:], strict=False):
            if value or reason in reasons:
                reasons[reason] = value
        at += len(_REASONS)


def _topic(topic: Topic) -> m.TopicFigures:
    counters = Counters()
    counters.add(topic.counters)
    dead, dropped = possible_ends(topic.config)
    return m.TopicFigures(
        topic.name,
        depth=topic.depth(),
        messages=topic.messages(),
        bytes=sum(partition.bytes_held for partition in topic.partitions),
        not_durable=sum(max(0, p.end - p.durable) for p in topic.partitions),
        leases=sum(len(group.leases) for group in topic.groups.values()),
        counters=counters,
        dead_lettered=dead | topic.counters.dead_reasons,
        dropped=dropped | topic.counters.drop_reasons,
        groups={},
    )


def possible_ends(config: TopicConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Zeros, by reason, of what may become of messages that fail: a dead letter, or nothing.

    A counter that begins with its first event hides that event: a rate needs a value before it.
    """
    failed: dict[str, int] = dict.fromkeys(_FAILED, 0)
    expired: dict[str, int] = dict.fromkeys(_EXPIRED, 0)
    if not config.dlq:
        return {}, failed | expired
    return (failed | expired, {}) if config.on_expire == "dlq" else (failed, expired)


def _group(group: Group, now: int) -> m.GroupFigures:
    info, oldest, due = group_info(group), oldest_pending(group), group_load(group).oldest
    return m.GroupFigures(
        info.backlog,
        info.ready,
        info.delayed,
        info.leased,
        info.blocked,
        info.dead,
        info.leases,
        len(info.consumers),
        0.0 if oldest is None else max(0, now - oldest) / 1000,
        0.0 if due is None else max(0, now - due) / 1000,
    )
