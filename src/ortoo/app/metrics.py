"""What `/metrics` tells: the queue is asked for its figures, which get their Prometheus names. Nothing runs between scrapes."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Collection

from ortoo.client.link import Link
from ortoo.model.histogram import Histogram
from ortoo.model.metrics import (
    GROUP_COUNTERS,
    OTHER,
    OTHER_TOPICS,
    BrokerFigures,
    DoorFigures,
    GroupFigures,
    MetricFigures,
    MqttFigures,
    NamespaceFigures,
    RedisFigures,
    StoreFigures,
    TopicFigures,
)
from ortoo.model.queries import GetMetrics
from ortoo.model.settings import DialectName
from ortoo.model.version import __version__

from .readings import Readings
from .webhook import Webhook

_EVERYTHING = GetMetrics()
_NO_ROOM = ("full", "too_many", "rate_limited")
# What the documents of MQTT queues call our reasons; the rest keep their names.
_MQTT_REASONS = {"attempts": "max_retries"}
_LATENCIES = {"publish": "mqueue_enqueue_latency_seconds", "lease": "mqueue_dequeue_latency_seconds"}


class Metrics:
    def __init__(
        self,
        link: Link,
        webhook: Webhook | None = None,
        certificate_seconds: Callable[[], float | None] = lambda: None,
        dialects: Collection[DialectName] = (),
    ) -> None:
        """A link that meters nothing, such as the broker itself: a scrape is no request of a client.

        `certificate_seconds`: until the server's certificate expires; None when it has none. `dialects`: those
        whose names for metrics are exposed beside our own.
        """
        self._link = link
        self._webhook = webhook
        self._certificate_seconds = certificate_seconds
        self._dialects = dialects

    async def render(self, link: Link | None = None, query: GetMetrics = _EVERYTHING) -> bytes:
        """Prometheus text. Others are served while it is put together. `link`: of somebody who may see only some topics.
        `query`: for some topics only."""
        figures, readings = await (link or self._link).ask(query), Readings(self._dialects)
        is_whole = query == _EVERYTHING
        if self._webhook is not None and link is None and is_whole:
            _read_webhook(readings, self._webhook)
        if is_whole and (seconds := self._certificate_seconds()) is not None:
            readings.add("ortoo_tls_certificate_expiry_seconds", seconds)
        return await asyncio.to_thread(_render, readings, figures)


def _render(readings: Readings, figures: MetricFigures) -> bytes:
    for topic in figures.topics:
        _read_topic(readings, topic)
        for group, found in topic.groups.items():
            _read_group(readings, found, *topic.name, group)
    for name, histogram in figures.deliveries:
        readings.add_histogram("mqtt_queue_delivery_latency_seconds", histogram, *name)
    for one in figures.groups:
        _read_group(readings, one.figures, *one.topic, one.name)
    if figures.other_groups is not None:
        _read_group(readings, figures.other_groups, *OTHER_TOPICS, OTHER)
    for latencies in figures.latencies:
        labels = (*latencies.topic, latencies.group)
        readings.add_histogram("ortoo_delivery_latency_seconds", latencies.delivery, *labels)
        readings.add_histogram("ortoo_ack_latency_seconds", latencies.ack, *labels)
    for namespace in figures.namespaces:
        _read_namespace(readings, namespace)
    if figures.broker is not None:
        _read_doors(readings, figures.doors)
        _read_broker(readings, figures.broker)
        _read_mqtt(readings, figures.mqtt or MqttFigures())
    if figures.redis is not None:
        _read_redis(readings, figures.redis)
    if figures.store is not None:
        _read_store(readings, figures.store)
    return readings.render(with_process=figures.broker is not None)


def _read_mqtt(readings: Readings, figures: MqttFigures) -> None:
    for name in ("sessions", "subscriptions", "retained"):
        readings.add(f"ortoo_mqtt_{name}", getattr(figures, name))
    for name in ("received", "sent", "dropped"):
        readings.add(f"ortoo_mqtt_{name}_total", getattr(figures, name))


def _read_redis(readings: Readings, redis: RedisFigures) -> None:
    readings.add("ortoo_redis_up", redis.is_up)
    readings.add("ortoo_redis_calls_total", redis.calls)
    readings.add("ortoo_redis_failures_total", redis.failures)
    for use, count in redis.fallbacks.items():
        readings.add("ortoo_redis_fallbacks_total", count, use)


def _read_topic(readings: Readings, topic: TopicFigures) -> None:
    counters = topic.counters
    for metrics, value in (
        (("ortoo_topic_depth", "mqtt_queue_depth"), topic.depth),
        (("ortoo_topic_messages",), topic.messages),
        (("ortoo_topic_bytes",), topic.bytes),
        (("ortoo_messages_published_total", "mqtt_queue_enqueue_total"), counters.published),
        (("ortoo_messages_delivered_total", "mqtt_queue_dequeue_total"), counters.delivered),
        (("ortoo_messages_acked_total", "mqtt_queue_ack_total"), counters.acked),
        (("ortoo_messages_retried_total", "mqtt_queue_nack_total"), counters.retried),
        (("ortoo_messages_duplicate_total",), counters.duplicates),
        (("ortoo_messages_released_total",), counters.released),
        (("ortoo_messages_skipped_total",), counters.skipped),
        (("ortoo_messages_superseded_total",), counters.superseded),
    ):
        for metric in metrics:
            readings.add(metric, value, *topic.name)
    for reason, count in topic.dead_lettered.items():
        readings.add("ortoo_messages_dead_lettered_total", count, *topic.name, reason)
        readings.add("mqtt_queue_dlq_total", count, *topic.name, _MQTT_REASONS.get(reason, reason))
    for reason, count in topic.dropped.items():
        readings.add("ortoo_messages_dropped_total", count, *topic.name, reason)
    readings.add("mqueue_buffer_queue_depth", topic.not_durable)
    readings.add("ortoo_leases", topic.leases)


def _read_group(readings: Readings, group: GroupFigures, *labels: str) -> None:
    for figure in GroupFigures.__struct_fields__:
        name = f"{figure}_total" if figure in GROUP_COUNTERS else figure
        readings.add(f"ortoo_group_{name}", getattr(group, figure), *labels)
    readings.add("mqtt_queue_active_consumers", group.consumers, *labels)
    readings.add("mqueue_ready_queue_depth", group.ready)


def _read_namespace(readings: Readings, namespace: NamespaceFigures) -> None:
    for quota, limit in namespace.limits.items():
        readings.add("ortoo_namespace_used", namespace.used[quota], namespace.name, quota)
        readings.add("ortoo_namespace_limit", limit, namespace.name, quota)
        readings.add("ortoo_namespace_refusals_total", namespace.refusals[quota], namespace.name, quota)


def _read_doors(readings: Readings, doors: dict[str, DoorFigures]) -> None:
    readings.add("mqueue_backpressure_rejected_total", 0)
    for alias in _LATENCIES.values():
        readings.add_histogram(alias, Histogram())
    for name, door in doors.items():
        readings.add("ortoo_connections", door.connections, name)
        readings.add("ortoo_connections_opened_total", door.connections_opened, name)
        readings.add("ortoo_connections_refused_total", door.connections_refused, name)
        for operation, histogram in door.seconds.items():
            failed = sum(count for failing, _, count in door.errors if failing == operation)
            readings.add("ortoo_requests_total", histogram.count + failed, name, operation)
            readings.add_histogram("ortoo_request_seconds", histogram, name, operation)
            if operation in _LATENCIES:
                readings.add_histogram(_LATENCIES[operation], histogram)
        for operation, code, count in door.errors:
            readings.add("ortoo_request_errors_total", count, name, operation, code)
            if code in _NO_ROOM:
                readings.add("mqueue_backpressure_rejected_total", count)


def _read_broker(readings: Readings, broker: BrokerFigures) -> None:
    for metric, value in {
        "ortoo_ready": broker.is_ready,
        "ortoo_topics": broker.topics,
        "ortoo_groups": broker.groups,
        "ortoo_leases": 0,  # and what the topics have
        "ortoo_waiters": broker.waiters,
        "ortoo_transactions_open": broker.transactions,
        "ortoo_epoch": broker.epoch,
        "ortoo_problems": broker.problems,
        "ortoo_event_loop_longest_stall_seconds": broker.longest_stall_seconds,
        "ortoo_event_loop_longest_turn_seconds": broker.longest_turn_seconds,
        "ortoo_sampler_seconds": broker.sampler_seconds,
        "ortoo_sampler_longest_turn_seconds": broker.sampler_longest_turn_seconds,
        "ortoo_overview_seconds": broker.overview_seconds,
        "ortoo_recoveries_total": broker.recoveries,
        "mqueue_enqueue_total": broker.counters.published,
        "mqueue_dequeue_total": broker.counters.delivered,
        "mqueue_ack_total": broker.counters.acked,
        "mqueue_nack_total": broker.counters.retried,
        "mqueue_buffer_queue_depth": 0,
        "mqueue_ready_queue_depth": 0,
    }.items():
        readings.add(metric, value)
    if broker.in_flight_bytes is not None and broker.in_flight_bytes_max is not None:
        readings.add("ortoo_in_flight_bytes", broker.in_flight_bytes)
        readings.add("ortoo_in_flight_limit_bytes", broker.in_flight_bytes_max)
    readings.add("mqueue_shard_health", broker.is_ready, "0", "primary")
    readings.add_histogram("ortoo_commit_seconds", broker.commit_seconds)
    readings.add_histogram("mqueue_flush_latency_seconds", broker.commit_seconds)
    readings.add_histogram("ortoo_commit_records", broker.commit_records)
    readings.add_histogram("ortoo_event_loop_stall_seconds", broker.stall_seconds)
    readings.add("ortoo_build_info", 1, __version__, platform.python_version())


def _read_store(readings: Readings, store: StoreFigures) -> None:
    readings.add_histogram("ortoo_sync_seconds", store.sync_seconds)
    readings.add_histogram("ortoo_checkpoint_seconds", store.checkpoint_seconds)
    if store.free_bytes is not None:
        readings.add("ortoo_wal_bytes", store.wal_bytes)
        readings.add("ortoo_segment_bytes", store.segment_bytes)
        readings.add("ortoo_disk_free_bytes", store.free_bytes)
    for name, shard in store.shards.items():
        readings.add("ortoo_shard_healthy", shard.is_healthy, name)
        readings.add("ortoo_spilled_commits", shard.spilled_commits, name)
        readings.add("ortoo_spilled_bytes", shard.spilled_bytes, name)
        readings.add("ortoo_drained_commits_total", shard.drained, name)
        if (buffer := shard.buffer) is not None:
            readings.add("ortoo_buffer_on", buffer.is_on, name)
            readings.add("ortoo_buffer_commits", buffer.commits, name)
            readings.add("ortoo_buffer_bytes", buffer.bytes, name)
            readings.add("ortoo_buffer_drained_total", buffer.drained, name)
            readings.add("ortoo_buffer_failures_total", buffer.failures, name)


def _read_webhook(readings: Readings, webhook: Webhook) -> None:
    for outcome in ("delivered", "failed", "dropped", "refused"):
        readings.add("ortoo_webhook_letters_total", getattr(webhook.tally, outcome), outcome)
    readings.add("ortoo_webhook_retries_total", webhook.tally.retried)
    readings.add("ortoo_webhook_pending", webhook.pending)
