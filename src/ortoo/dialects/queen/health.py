"""The server as Queen's operators look at it, on a port of its own: `/health`, and `/metrics` as JSON."""

from __future__ import annotations

import resource
from time import monotonic

import msgspec
from msgspec import UNSET, UnsetType

from ortoo.broker.memory import resident_bytes
from ortoo.doors.http.answers import Answer
from ortoo.doors.http.call import Call
from ortoo.model.metrics import MetricFigures
from ortoo.model.queries import GetMetrics

_started = monotonic()  # as good as when the server did: this is imported by what starts it


class Pool(msgspec.Struct):
    """Of connections to a database. There is none."""

    total: int = 0
    idle: int = 0
    waiting: int = 0


class HealthStats(msgspec.Struct, rename="camel"):
    requests: int
    messages: int
    requests_per_second: str
    messages_per_second: str
    pool: Pool


class Health(msgspec.Struct):
    status: str
    uptime: str
    connections: int | UnsetType = UNSET
    stats: HealthStats | UnsetType = UNSET


class Count(msgspec.Struct):
    total: int
    rate: float


class Memory(msgspec.Struct, rename="camel"):
    """A process here has no heap of that kind, so all of it is `rss`."""

    rss: int
    heap_total: int
    heap_used: int
    external: int
    array_buffers: int


class Processor(msgspec.Struct):
    """In microseconds."""

    user: int
    system: int


class Database(msgspec.Struct, rename="camel"):
    """There is none."""

    pool_size: int = 0
    idle_connections: int = 0
    waiting_requests: int = 0


class MetricsView(msgspec.Struct):
    uptime: float
    requests: Count
    messages: Count
    database: Database
    memory: Memory
    cpu: Processor


async def health(call: Call) -> Answer:
    """For anybody. So it tells figures only where everybody may ask for everything."""
    gate = call.services.gate
    reason = "the server is stopping" if call.services.is_closing else call.services.ready()
    found = Health("healthy" if reason is None else f"unhealthy: {reason}", f"{int(_uptime())}s")
    if reason is None and not gate.needs_token:
        figures = await gate.host().ask(GetMetrics())
        requests, messages = _requests(figures), _messages(figures)
        found.connections = sum(door.connections for door in figures.doors.values())
        found.stats = HealthStats(
            requests, messages, f"{requests / _uptime():.2f}", f"{messages / _uptime():.2f}", Pool()
        )
    return Answer(msgspec.json.encode(found), 200 if reason is None else 503)


async def metrics(call: Call) -> MetricsView:
    figures = await call.link.ask(GetMetrics())
    requests, messages = _requests(figures), _messages(figures)
    used, rss = resource.getrusage(resource.RUSAGE_SELF), resident_bytes()
    return MetricsView(
        round(_uptime(), 3),
        Count(requests, requests / _uptime()),
        Count(messages, messages / _uptime()),
        Database(),
        Memory(rss, rss, rss, 0, 0),
        Processor(round(used.ru_utime * 1e6), round(used.ru_stime * 1e6)),
    )


def _uptime() -> float:
    return max(monotonic() - _started, 0.001)


def _requests(figures: MetricFigures) -> int:
    """That were served, through all doors."""
    return sum(histogram.count for door in figures.doors.values() for histogram in door.seconds.values())


def _messages(figures: MetricFigures) -> int:
    return sum(topic.counters.published for topic in figures.topics)
