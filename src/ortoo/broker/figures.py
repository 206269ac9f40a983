"""Answers `GetMetrics`: looks at everything there is to measure, at the moment it is asked for, in turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import product
from time import monotonic
from typing import Protocol

from ortoo.engine import Engine
from ortoo.engine.group import Group
from ortoo.engine.topic import Topic
from ortoo.engine.view import group_info, oldest_pending
from ortoo.model import metrics as m
from ortoo.model.errors import (
    FullError,
    OrtooError,
    OutcomeUnknownError,
    StoreFailedError,
    TooManyError,
    UnauthenticatedError,
)
from ortoo.model.histogram import Histogram
from ortoo.model.names import TopicName
from ortoo.model.namespaces import QUOTAS
from ortoo.model.operations import FAMILIES
from ortoo.model.records import DeathReason
from ortoo.model.replies import Counters
from ortoo.model.topic import TopicConfig
from ortoo.ports import Store

from .meters import INTERNAL, DoorMeters, Meters
from .namespaces import list_namespaces
from .turns import Turns
from .view import View, visible
from .waiters import Waiters

_DELIVERIES_UNITS = 5  # what a topic's histogram costs, in partitions
_FAILED: tuple[DeathReason, ...] = ("attempts", "timeout", "rejected", "moved")
_EXPIRED: tuple[DeathReason, ...] = ("ttl", "max_wait")
# Errors that somebody should look at, before there is one: see `_possible_ends`.
_POSSIBLE_ERRORS: dict[tuple[str, str], int] = dict.fromkeys(
    [
        ("connect", UnauthenticatedError.code),
        *product(
            FAMILIES,
            (FullError.code, TooManyError.code, StoreFailedError.code, OutcomeUnknownError.code, INTERNAL),
        ),
    ],
    0,
)


class Measured(Protocol):
    engine: Engine
    meters: Meters
    store: Store
    waiters: Waiters

    @property
    def refusal(self) -> OrtooError | None: ...

    def now(self) -> int: ...

    def problems(self) -> list[str]: ...

    def full(self) -> str | None: ...


async def measure(broker: Measured, view: View | None = None) -> m.MetricFigures:
    """Each topic and each group as it is when its turn comes. What is answered is a copy of everything that goes on counting.

    Who may not see everything is told of its topics, and nothing of the server.
    """
    turns = Turns()
    namespaces = await _namespaces(broker, turns, view)
    if view is not None:
        topics = await _topics(broker, turns, Counters(), view)
        return m.MetricFigures(topics, await _deliveries(broker, turns, view), {}, None, None, namespaces)
    total = broker.engine.state.past_counters()
    topics = await _topics(broker, turns, total, None)
    deliveries = await _deliveries(broker, turns, None)
    doors = {name: _door(meters) for name, meters in broker.meters.doors.items()}
    figures, store = _broker(broker, total), broker.store
    stored = await asyncio.to_thread(store.figures)
    mqtt = None if broker.meters.mqtt is None else broker.meters.mqtt()
    redis = None if broker.meters.redis is None else broker.meters.redis()
    return m.MetricFigures(topics, deliveries, doors, figures, stored, namespaces, mqtt, redis)


async def _namespaces(broker: Measured, turns: Turns, view: View | None) -> list[m.NamespaceFigures]:
    """Those with a quota, as far as they are told."""
    state, throttle, found = broker.engine.state, broker.meters.throttle, list[m.NamespaceFigures]()
    if not state.namespaces:
        return found
    refusals = state.soft.refusals + (Counter() if throttle is None else throttle.refusals)
    for info in await list_namespaces(state, None, view, turns):
        limits = {name: limit for name in QUOTAS if (limit := getattr(info.quota, name)) is not None}
        if limits and len(found) < m.NAMESPACES_MAX:
            used = {"topics": info.topics, "groups": info.groups, "stored_bytes": info.bytes}
            if throttle is not None:
                used |= throttle.used(info.name)
            found.append(
                m.NamespaceFigures(
                    info.name,
                    {name: used.get(name, 0) for name in limits},
                    limits,
                    {name: refusals[info.name, name] for name in limits},
                )
            )
    return found


async def _deliveries(broker: Measured, turns: Turns, view: View | None) -> list[tuple[TopicName, Histogram]]:
    found: list[tuple[TopicName, Histogram]] = []
    for topic, histogram in broker.meters.known_deliveries(broker.engine.state.names):
        if view is None or (topic is not None and view.may_see(topic)):
            found.append((topic or m.OTHER_TOPICS, histogram.copy()))
        await turns.worked(_DELIVERIES_UNITS if view is None else _DELIVERIES_UNITS + view.units)
    return found


async def _topics(broker: Measured, turns: Turns, total: Counters, view: View | None) -> list[m.TopicFigures]:
    found: list[m.TopicFigures] = []
    others: m.TopicFigures | None = None
    for topic in await visible(broker.engine.state, view, turns):
        figures = _topic(topic)
        total.add(figures.counters)
        if len(found) < m.TOPICS_MAX:
            found.append(figures)
            for group, name in _named(topic):
                seen = _group(group, broker.now())
                if (same := figures.groups.setdefault(name, seen)) is not seen:
                    same.add(seen)
                await turns.worked(len(topic.partitions))
        elif others is None:
            others = figures
            others.name = m.OTHER_TOPICS
        else:
            others.add(figures)
        await turns.worked(len(topic.partitions))
    return found if others is None else [*found, others]


def _topic(topic: Topic) -> m.TopicFigures:
    counters = Counters()
    counters.add(topic.counters)
    dead, dropped = _possible_ends(topic.config)
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
    )


def _possible_ends(config: TopicConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Zeros, by reason, of what may become of messages that fail: a dead letter, or nothing.

    A counter that begins with its first event hides that event: a rate needs a value before it.
    """
    failed: dict[str, int] = dict.fromkeys(_FAILED, 0)
    expired: dict[str, int] = dict.fromkeys(_EXPIRED, 0)
    if not config.dlq:
        return {}, failed | expired
    return (failed | expired, {}) if config.on_expire == "dlq" else (failed, expired)


def _named(topic: Topic) -> Iterator[tuple[Group, str]]:
    for number, group in enumerate(list(topic.groups.values())):
        yield group, m.EPHEMERAL if group.ephemeral else group.name if number < m.GROUPS_MAX else m.OTHER


def _group(group: Group, now: int) -> m.GroupFigures:
    info, oldest = group_info(group), oldest_pending(group)
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
    )


def _door(meters: DoorMeters) -> m.DoorFigures:
    return m.DoorFigures(
        meters.connections,
        meters.connections_total,
        meters.refused,
        {family: histogram.copy() for family, histogram in meters.seconds.items()},
        [(family, code, count) for (family, code), count in (_POSSIBLE_ERRORS | meters.errors).items()],
    )


def _broker(broker: Measured, total: Counters) -> m.BrokerFigures:
    state, meters, budget = broker.engine.state, broker.meters, broker.meters.budget
    return m.BrokerFigures(
        is_ready=broker.refusal is None and broker.full() is None,
        topics=len(state.topics),
        groups=sum(len(topic.groups) for topic in state.topics.values()),
        waiters=len(broker.waiters),
        transactions=len(state.transactions),
        epoch=state.epoch,
        problems=len(broker.problems()),
        recoveries=meters.recoveries,
        longest_stall_seconds=meters.longest_stall.largest(monotonic()),
        longest_turn_seconds=meters.longest_turn.largest(monotonic()),
        counters=total,
        commit_seconds=meters.commit_seconds.copy(),
        commit_records=meters.commit_records.copy(),
        stall_seconds=meters.stall_seconds.copy(),
        in_flight_bytes=None if budget is None else budget.bytes,
        in_flight_bytes_max=None if budget is None else budget.bytes_max,
        sampler_seconds=0.0 if meters.series is None else meters.series.sampler.spent,
        sampler_longest_turn_seconds=0.0 if meters.series is None else meters.series.sampler.longest_turn,
        overview_seconds=meters.overview_seconds,
    )
