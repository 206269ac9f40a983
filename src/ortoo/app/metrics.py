"""Reads everything there is to measure, at the moment it is asked for. Nothing here runs between two scrapes."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator, Mapping
from itertools import product
from time import monotonic

from ortoo.broker import Broker, Gate
from ortoo.broker.meters import INTERNAL
from ortoo.broker.turns import Turns
from ortoo.engine.group import Group
from ortoo.engine.topic import Topic
from ortoo.engine.view import group_info, oldest_pending
from ortoo.model.errors import FullError, OutcomeUnknownError, StoreFailedError, TooManyError, UnauthenticatedError
from ortoo.model.histogram import Histogram
from ortoo.model.operations import FAMILIES
from ortoo.model.records import DeathReason
from ortoo.model.topic import TopicConfig
from ortoo.model.version import __version__
from ortoo.stores.disk import DiskStore

from .readings import Readings
from .webhook import Webhook

TOPICS_MAX = 1_000  # the oldest are told one by one; of the others only totals, and nothing of their groups
GROUPS_MAX = 100  # of a topic
OTHER = "_other"
EPHEMERAL = "_ephemeral"

_DELIVERIES_UNITS = 5  # what a topic's histogram costs, in partitions
_NO_ROOM = ("full", "too_many", "rate_limited")
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
# What the documents of MQTT queues call our reasons; the rest keep their names.
_MQTT_REASONS = {"attempts": "max_retries"}


class Metrics:
    def __init__(self, broker: Broker, gates: Mapping[str, Gate], webhook: Webhook | None = None) -> None:
        self._broker = broker
        self._gates = gates
        self._webhook = webhook

    async def render(self) -> bytes:
        """Prometheus text. Others are served while it is put together."""
        readings, turns = Readings(), Turns()
        for number, topic in enumerate(list(self._broker.engine.state.topics.values())):
            is_named = number < TOPICS_MAX
            labels = topic.name if is_named else ("", OTHER)
            self._read_topic(readings, topic, *labels)
            for group, label in _labelled(topic) if is_named else ():
                self._read_group(readings, group, *labels, label)
                await turns.worked(len(topic.partitions))
            await turns.worked(len(topic.partitions))
        await self._read_deliveries(readings, turns)
        self._read_doors(readings)
        self._read_broker(readings)
        self._read_webhook(readings)
        return await asyncio.to_thread(self._finish, readings)

    def _finish(self, readings: Readings) -> bytes:
        self._read_disk(readings)
        return readings.render()

    # -- topics and groups

    def _read_topic(self, readings: Readings, topic: Topic, namespace: str, name: str) -> None:
        depth, counters = topic.depth(), topic.counters
        readings.add("ortoo_topic_depth", depth, namespace, name)
        readings.add("mqtt_queue_depth", depth, namespace, name)
        readings.add("ortoo_topic_messages", topic.messages(), namespace, name)
        readings.add("ortoo_topic_bytes", sum(partition.bytes_held for partition in topic.partitions), namespace, name)
        for metrics, count in (
            (("ortoo_messages_published_total", "mqtt_queue_enqueue_total"), counters.published),
            (("ortoo_messages_delivered_total", "mqtt_queue_dequeue_total"), counters.delivered),
            (("ortoo_messages_acked_total", "mqtt_queue_ack_total"), counters.acked),
            (("ortoo_messages_retried_total", "mqtt_queue_nack_total"), counters.retried),
            (("ortoo_messages_duplicate_total",), counters.duplicates),
            (("ortoo_messages_released_total",), counters.released),
            (("ortoo_messages_skipped_total",), counters.skipped),
        ):
            for metric in metrics:
                readings.add(metric, count, namespace, name)
        dead, dropped = _possible_ends(topic.config)
        for reason, count in (dead | counters.dead_reasons).items():
            readings.add("ortoo_messages_dead_lettered_total", count, namespace, name, reason)
            readings.add("mqtt_queue_dlq_total", count, namespace, name, _MQTT_REASONS.get(reason, reason))
        for reason, count in (dropped | counters.drop_reasons).items():
            readings.add("ortoo_messages_dropped_total", count, namespace, name, reason)
        readings.add("mqueue_buffer_queue_depth", sum(max(0, p.end - p.durable) for p in topic.partitions))
        readings.add("ortoo_leases", sum(len(group.leases) for group in topic.groups.values()))

    def _read_group(self, readings: Readings, group: Group, *labels: str) -> None:
        info, oldest = group_info(group), oldest_pending(group)
        for state in ("backlog", "ready", "delayed", "leased", "blocked", "dead", "leases"):
            readings.add(f"ortoo_group_{state}", getattr(info, state), *labels)
        readings.add("ortoo_group_consumers", len(info.consumers), *labels)
        readings.add("mqtt_queue_active_consumers", len(info.consumers), *labels)
        age = 0 if oldest is None else max(0, self._broker.now() - oldest) / 1000
        readings.raise_to("ortoo_group_oldest_pending_seconds", age, *labels)
        readings.add("mqueue_ready_queue_depth", info.ready)

    async def _read_deliveries(self, readings: Readings, turns: Turns) -> None:
        names = self._broker.engine.state.names
        for topic, histogram in self._broker.meters.known_deliveries(names):
            labels = topic or ("", OTHER)
            readings.add_histogram("ortoo_delivery_latency_seconds", histogram, *labels)
            readings.add_histogram("mqtt_queue_delivery_latency_seconds", histogram, *labels)
            await turns.worked(_DELIVERIES_UNITS)

    # -- the rest

    def _read_doors(self, readings: Readings) -> None:
        latencies = {"publish": "mqueue_enqueue_latency_seconds", "lease": "mqueue_dequeue_latency_seconds"}
        readings.add("mqueue_backpressure_rejected_total", 0)
        for alias in latencies.values():
            readings.add_histogram(alias, Histogram())
        for name, gate in self._gates.items():
            meters = self._broker.meters.door(name)
            readings.add("ortoo_connections", gate.connections, name)
            readings.add("ortoo_connections_opened_total", meters.connections_total, name)
            readings.add("ortoo_connections_refused_total", meters.refused, name)
            for operation, histogram in meters.seconds.items():
                failed = sum(count for (failing, _), count in meters.errors.items() if failing == operation)
                readings.add("ortoo_requests_total", histogram.count + failed, name, operation)
                readings.add_histogram("ortoo_request_seconds", histogram, name, operation)
                if operation in latencies:
                    readings.add_histogram(latencies[operation], histogram)
            for (operation_name, code), count in (_POSSIBLE_ERRORS | meters.errors).items():
                readings.add("ortoo_request_errors_total", count, name, operation_name, code)
                if code in _NO_ROOM:
                    readings.add("mqueue_backpressure_rejected_total", count)
        for gate in list(self._gates.values())[:1]:  # all doors share one
            readings.add("ortoo_in_flight_bytes", gate.budget.bytes)
            readings.add("ortoo_in_flight_limit_bytes", gate.budget.bytes_max)

    def _read_broker(self, readings: Readings) -> None:
        state, meters, status = self._broker.engine.state, self._broker.meters, self._broker.store.status()
        is_ready = self._broker.refusal is None and status.full is None
        counters = state.counters
        for metric, value in {
            "ortoo_ready": is_ready,
            "ortoo_topics": len(state.topics),
            "ortoo_groups": sum(len(topic.groups) for topic in state.topics.values()),
            "ortoo_leases": 0,  # and what the groups have
            "ortoo_waiters": len(self._broker.waiters),
            "ortoo_transactions_open": len(state.transactions),
            "ortoo_epoch": state.epoch,
            "ortoo_problems": len(self._broker.problems()),
            "ortoo_event_loop_longest_stall_seconds": meters.longest_stall.largest(monotonic()),
            "ortoo_event_loop_longest_turn_seconds": meters.longest_turn.largest(monotonic()),
            "ortoo_recoveries_total": meters.recoveries,
            "mqueue_enqueue_total": counters.published,
            "mqueue_dequeue_total": counters.delivered,
            "mqueue_ack_total": counters.acked,
            "mqueue_nack_total": counters.retried,
            "mqueue_buffer_queue_depth": 0,
            "mqueue_ready_queue_depth": 0,
        }.items():
            readings.add(metric, value)
        readings.add("mqueue_shard_health", is_ready, "0", "primary")
        readings.add_histogram("ortoo_commit_seconds", meters.commit_seconds)
        readings.add_histogram("mqueue_flush_latency_seconds", meters.commit_seconds)
        readings.add_histogram("ortoo_commit_records", meters.commit_records)
        readings.add_histogram("ortoo_event_loop_stall_seconds", meters.stall_seconds)
        readings.add("ortoo_build_info", 1, __version__, platform.python_version())

    def _read_disk(self, readings: Readings) -> None:
        store = self._broker.store
        if isinstance(store, DiskStore):
            readings.add_histogram("ortoo_sync_seconds", store.sync_seconds)
            readings.add_histogram("ortoo_checkpoint_seconds", store.checkpoint_seconds)
            readings.add("ortoo_wal_bytes", store.wal_bytes)
            readings.add("ortoo_segment_bytes", store.segment_bytes)
            readings.add("ortoo_disk_free_bytes", store.disk.free_bytes())

    def _read_webhook(self, readings: Readings) -> None:
        if self._webhook is not None:
            tally = self._webhook.tally
            for outcome in ("delivered", "failed", "dropped"):
                readings.add("ortoo_webhook_letters_total", getattr(tally, outcome), outcome)
            readings.add("ortoo_webhook_retries_total", tally.retried)
            readings.add("ortoo_webhook_pending", self._webhook.pending)


def _possible_ends(config: TopicConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Zeros, by reason, of what may become of messages that fail: a dead letter, or nothing.

    A counter that begins with its first event hides that event: a rate needs a value before it.
    """
    failed: dict[str, int] = dict.fromkeys(_FAILED, 0)
    expired: dict[str, int] = dict.fromkeys(_EXPIRED, 0)
    if not config.dlq:
        return {}, failed | expired
    return (failed | expired, {}) if config.on_expire == "dlq" else (failed, expired)


def _labelled(topic: Topic) -> Iterator[tuple[Group, str]]:
    for number, group in enumerate(list(topic.groups.values())):
        yield group, EPHEMERAL if group.ephemeral else group.name if number < GROUPS_MAX else OTHER
