"""Answers `GetMetrics`: looks at everything there is to measure, at the moment it is asked for, in turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import product
from time import monotonic
from typing import Protocol

from ortoo.engine import Engine
from ortoo.model import metrics as m
from ortoo.model.errors import (
    FullError,
    OrtooError,
    OutcomeUnknownError,
    StoreFailedError,
    TooManyError,
    UnauthenticatedError,
)
from ortoo.model.namespaces import QUOTAS
from ortoo.model.operations import FAMILIES
from ortoo.model.replies import Counters
from ortoo.ports import Store

from .meters import INTERNAL, DoorMeters, Meters
from .namespaces import list_namespaces
from .topic_figures import measure_all, measure_some
from .turns import Turns
from .view import View
from .waiters import Waiters

# Errors that somebody should look at, before there is one: see `possible_ends`.
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


async def measure(
    broker: Measured, view: View | None = None, namespace: str | None = None, topic: str | None = None
) -> m.MetricFigures:
    """Each topic and each group as it is when its turn comes. What is answered is a copy of everything that goes on counting.

    Who may not see everything, or asks for some topics only, is told of these, and nothing of the server.
    """
    turns = Turns()
    if view is not None or namespace is not None or topic is not None:
        namespaces = [] if topic is not None else await _namespaces(broker, turns, view, namespace)
        found = await measure_some(broker, turns, view, namespace, topic)
        return m.MetricFigures(found.topics, found.deliveries, {}, None, None, namespaces, latencies=found.latencies)
    namespaces = await _namespaces(broker, turns, None, None)
    found, other_groups = await measure_all(broker, turns)
    doors = {name: _door(meters) for name, meters in broker.meters.doors.items()}
    figures, store = _broker(broker, found.total), broker.store
    stored = await asyncio.to_thread(store.figures)
    mqtt = None if broker.meters.mqtt is None else broker.meters.mqtt()
    redis = None if broker.meters.redis is None else broker.meters.redis()
    return m.MetricFigures(
        found.topics,
        found.deliveries,
        doors,
        figures,
        stored,
        namespaces,
        mqtt,
        redis,
        found.latencies,
        found.groups,
        other_groups,
    )


async def _namespaces(
    broker: Measured, turns: Turns, view: View | None, namespace: str | None
) -> list[m.NamespaceFigures]:
    """Those with a quota, as far as they are told."""
    state, throttle, found = broker.engine.state, broker.meters.throttle, list[m.NamespaceFigures]()
    if not state.namespaces:
        return found
    refusals = state.soft.refusals + (Counter() if throttle is None else throttle.refusals)
    for info in await list_namespaces(state, namespace, view, turns):
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
