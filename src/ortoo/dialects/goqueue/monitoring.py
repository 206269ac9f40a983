"""How the queue is: statistics, probes, and metrics under GoQueue's names. Only what is measured is told."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic, time

import msgspec

from ortoo.dialects.callers import namespace_of
from ortoo.dialects.durations import duration_text
from ortoo.dialects.exposition import CONTENT_TYPE, Exposition
from ortoo.doors.http.answers import Answer
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text
from ortoo.model.metrics import MetricFigures, TopicFigures
from ortoo.model.names import TopicName
from ortoo.model.queries import GetMetrics, ListMessages
from ortoo.model.replies import TopicInfo
from ortoo.model.topic import DEFAULT_PRIORITY
from ortoo.model.version import __version__

from . import priorities
from .topics import NODE, all_topics

_PRIORITY_TOPICS_MAX = 100  # whose waiting messages are looked at
_PRIORITY_MESSAGES_MAX = 1_000  # of each of them

_encode = msgspec.json.Encoder().encode
_began = monotonic()


class TopicStats(msgspec.Struct):
    partitions: int
    messages: int
    size_bytes: int


class BrokerStats(msgspec.Struct):
    node_id: str
    uptime: str
    topics: int
    total_size_bytes: int
    topic_list: list[str]
    topic_stats: dict[str, TopicStats]


async def stats(call: Call) -> BrokerStats:
    infos = await all_topics(call)
    return BrokerStats(
        NODE,
        duration_text(monotonic() - _began),
        len(infos),
        sum(info.bytes for info in infos),
        [info.name for info in infos],
        {info.name: TopicStats(len(info.partitions), info.messages, info.bytes) for info in infos},
    )


async def _figures(call: Call) -> tuple[MetricFigures, list[TopicFigures]]:
    """All there are, and those of the topics of the caller's namespace."""
    found, namespace = await call.link.ask(GetMetrics()), namespace_of(call.link)
    return found, [each for each in found.topics if each.name.namespace == namespace]


class AckStats(msgspec.Struct):
    total_acks: int
    total_retries: int
    total_rejects: int
    total_dlq: int


class VisibilityStats(msgspec.Struct):
    current_in_flight: int
    total_acked: int


class DlqStats(msgspec.Struct):
    total_routed: int
    routes_by_reason: dict[str, int]
    routes_by_topic: dict[str, int]


class ReliabilityStats(msgspec.Struct):
    """`total_retries` and `nacks_total` are nacks and timeouts together."""

    acks_total: int
    nacks_total: int
    rejects_total: int
    dlq_messages: int
    ack_manager: AckStats
    visibility_tracker: VisibilityStats
    dlq: DlqStats


async def reliability(call: Call) -> ReliabilityStats:
    _, topics = await _figures(call)
    acked = sum(each.counters.acked for each in topics)
    retried = sum(each.counters.retried for each in topics)
    routed = sum(each.counters.dead_lettered for each in topics)
    rejected = sum(each.dead_lettered.get("rejected", 0) for each in topics)
    reasons: dict[str, int] = {}
    for each in topics:
        for reason, count in each.dead_lettered.items():
            reasons[reason] = reasons.get(reason, 0) + count
    groups = [group for each in topics for group in each.groups.values()]
    return ReliabilityStats(
        acked,
        retried,
        rejected,
        sum(group.dead for group in groups),
        AckStats(acked, retried, rejected, routed),
        VisibilityStats(sum(group.leased for group in groups), acked),
        DlqStats(routed, reasons, {each.name.name: each.counters.dead_lettered for each in topics}),
    )


class DelayStats(msgspec.Struct):
    """Those that wait for a retry are among them."""

    pending_count: int
    total_pending: int
    by_topic: dict[str, int]


async def delay(call: Call) -> DelayStats:
    _, topics = await _figures(call)
    by_topic = {each.name.name: count for each in topics if (count := _delayed(each))}
    total = sum(by_topic.values())
    return DelayStats(total, total, by_topic)


def _delayed(topic: TopicFigures) -> int:
    """Of the group that waits for most: a message is delayed for all of them."""
    return max((group.delayed for group in topic.groups.values()), default=0)


class PriorityStats(msgspec.Struct):
    """Of the messages that wait: of each topic, those of the group that is furthest behind, and so many at most."""

    messages_by_priority: dict[str, int]
    total_by_priority: list[int]
    avg_wait_time_by_priority: dict[str, str]
    topics: dict[str, dict[str, list[int]]]
    sampled_messages_max: int = _PRIORITY_MESSAGES_MAX


async def priority(call: Call) -> PriorityStats:
    totals, waits = [0] * len(priorities.NAMES), [0.0] * len(priorities.NAMES)
    topics: dict[str, dict[str, list[int]]] = {}
    infos = [info for info in await all_topics(call) if any(group.ready for group in info.groups)]
    for info in infos[:_PRIORITY_TOPICS_MAX]:
        counts = [0] * len(priorities.NAMES)
        for level, seconds in await _waiting(call, info):
            counts[level] += 1
            waits[level] += seconds
        topics[info.name] = {"total_by_priority": counts}
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    averages = {
        name: duration_text(wait / total)
        for name, wait, total in zip(priorities.NAMES, waits, totals, strict=True)
        if total
    }
    return PriorityStats(dict(zip(priorities.NAMES, totals, strict=True)), totals, averages, topics)


async def _waiting(call: Call, info: TopicInfo) -> Iterable[tuple[int, float]]:
    """Which of the priorities each has, and for how long it has waited."""
    now, group = time(), max(info.groups, key=lambda each: each.ready)
    name = TopicName(info.namespace, info.name)
    found: list[tuple[int, float]] = []
    for page in await call.link.ask(ListMessages(name, group.name, "ready", _PRIORITY_MESSAGES_MAX)):
        given = page.columns.priorities or [DEFAULT_PRIORITY] * len(page.columns)
        levels = [priorities.NAMES.index(priorities.name_of(number)) for number in given]
        found += zip(levels, [max(0.0, now - stamp / 1000) for stamp in page.columns.timestamps], strict=True)
    return found


# -- probes; on a port of its own


class Health(msgspec.Struct):
    status: str
    timestamp: str


class Check(msgspec.Struct, omit_defaults=True):
    status: str
    message: str = ""


class Probe(msgspec.Struct, omit_defaults=True):
    status: str
    timestamp: str
    uptime: str
    message: str = ""
    checks: dict[str, Check] = {}


class VerboseQuery(msgspec.Struct):
    verbose: str = ""


class Version(msgspec.Struct):
    version: str
    server: str = NODE


def _now() -> str:
    return instant_text(round(time() * 1000), digits=0)


async def health(call: Call) -> Health:
    return Health("ok", _now())


async def alive(call: Call) -> Probe:
    return Probe("pass", _now(), duration_text(monotonic() - _began))


async def ready(call: Call) -> Answer:
    query: VerboseQuery = call.query
    reason = "the server is stopping" if call.services.is_closing else call.services.ready()
    probe = Probe("pass" if reason is None else "fail", _now(), duration_text(monotonic() - _began), reason or "")
    if query.verbose == "true":
        probe.checks = {"broker": Check(probe.status, probe.message)}
    return Answer(_encode(probe), 200 if reason is None else 503)


async def version(call: Call) -> Version:
    return Version(__version__)


# -- metrics; the same


async def metrics(call: Call) -> Answer:
    figures, topics = await _figures(call)
    text = Exposition()
    _tell_topics(text, topics)
    for name, histogram in figures.deliveries:
        if name.namespace == namespace_of(call.link):
            text.family("goqueue_delivery_latency_seconds", "histogram", "from publishing to the first delivery")
            text.add_histogram("goqueue_delivery_latency_seconds", histogram, topic=name.name)
    _tell_groups(text, topics)
    _tell_server(text, figures)
    return Answer(text.render(), content_type=CONTENT_TYPE)


def _tell_topics(text: Exposition, topics: list[TopicFigures]) -> None:
    for name, words, values in (
        ("messages_published_total", "messages published", [each.counters.published for each in topics]),
        ("messages_consumed_total", "deliveries, repeated ones too", [each.counters.delivered for each in topics]),
        ("messages_acked_total", "messages acknowledged", [each.counters.acked for each in topics]),
        ("messages_nacked_total", "deliveries that failed and are retried", [each.counters.retried for each in topics]),
        (
            "messages_rejected_total",
            "messages sent to the dead letters",
            [each.counters.dead_lettered for each in topics],
        ),
    ):
        for family in (f"goqueue_{name}", f"goqueue_broker_{name}"):  # as its documents write it, and its server
            text.family(family, "counter", words)
            for each, value in zip(topics, values, strict=True):
                text.add(family, value, topic=each.name.name)
    for name, words, values in (
        ("goqueue_topic_messages", "messages in the log", [each.messages for each in topics]),
        ("goqueue_partition_size_bytes", "bytes of the values in the log", [each.bytes for each in topics]),
        ("goqueue_delayed_messages_pending", "messages not due yet", [_delayed(each) for each in topics]),
    ):
        text.family(name, "gauge", words)
        for each, value in zip(topics, values, strict=True):
            text.add(name, value, topic=each.name.name)


def _tell_groups(text: Exposition, topics: list[TopicFigures]) -> None:
    for name, figure, words in (
        ("goqueue_consumer_lag", "backlog", "messages not settled yet"),
        ("goqueue_consumer_group_members", "consumers", "live members"),
        ("goqueue_messages_in_flight", "leased", "messages delivered and not settled"),
    ):
        text.family(name, "gauge", words)
        for each in topics:
            for group, found in each.groups.items():
                text.add(name, getattr(found, figure), topic=each.name.name, consumer_group=group)
    text.family("goqueue_rebalances_total", "counter", "there are none")
    text.add("goqueue_rebalances_total", 0)


def _tell_server(text: Exposition, figures: MetricFigures) -> None:
    """For who may see everything."""
    if figures.broker is None:
        return
    for family, name in (("publish", "goqueue_publish_latency_seconds"), ("lease", "goqueue_poll_latency_seconds")):
        text.family(name, "histogram", "until the broker's reply, without waiting for messages")
        for door, found in figures.doors.items():
            text.add_histogram(name, found.seconds[family], door=door)
    text.family("goqueue_broker_active_connections", "gauge", "clients connected")
    text.add("goqueue_broker_active_connections", sum(door.connections for door in figures.doors.values()))
    text.family("goqueue_broker_topic_count", "gauge", "topics")
    text.add("goqueue_broker_topic_count", figures.broker.topics)
    if figures.store is not None:
        text.family("goqueue_fsync_latency_seconds", "histogram", "of the write-ahead log")
        text.add_histogram("goqueue_fsync_latency_seconds", figures.store.sync_seconds)
