"""Every metric a server exposes: its name, its kind, its labels and what it tells. The table in the documents is made of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ortoo.model.settings import DialectName

Kind = Literal["gauge", "counter", "histogram", "summary"]


class Family(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    dialect: DialectName | None = None  # exposed only where that API is served: the name is its own


_TOPIC = ("namespace", "topic")
_GROUP = ("namespace", "topic", "group")
_QUEUE = ("namespace", "queue")


def _gauges(labels: tuple[str, ...], helps: dict[str, str]) -> list[Family]:
    return [Family(name, "gauge", labels, text) for name, text in helps.items()]


def _counters(labels: tuple[str, ...], helps: dict[str, str]) -> list[Family]:
    return [Family(name, "counter", labels, text) for name, text in helps.items()]


def _histograms(labels: tuple[str, ...], helps: dict[str, str]) -> list[Family]:
    return [Family(name, "histogram", labels, text) for name, text in helps.items()]


SECTIONS: dict[str, list[Family]] = {
    "Topics": [
        *_gauges(
            _TOPIC,
            {
                "ortoo_topic_depth": "largest backlog of a durable group; everything in the log until there is one",
                "ortoo_topic_messages": "messages in the log, whatever their state",
                "ortoo_topic_bytes": "bytes of the values in the log",
            },
        ),
        *_counters(
            _TOPIC,
            {
                "ortoo_messages_published_total": "messages published, including dead letters in their topic",
                "ortoo_messages_duplicate_total": "messages not published because their dedup id was known",
                "ortoo_messages_delivered_total": "deliveries, including redeliveries",
                "ortoo_messages_acked_total": "messages acknowledged",
                "ortoo_messages_retried_total": "failed deliveries that are retried: nacks and expired leases",
                "ortoo_messages_released_total": "deliveries returned, not counted as attempts: released, revoked, consumer left",
                "ortoo_messages_skipped_total": "messages that retention removed before a group had settled them",
                "ortoo_messages_superseded_total": "messages superseded by a later one with the same key",
            },
        ),
        *_counters(
            (*_TOPIC, "reason"),
            {
                "ortoo_messages_dead_lettered_total": "messages dead-lettered",
                "ortoo_messages_dropped_total": "messages dropped instead of dead-lettered",
            },
        ),
    ],
    "Groups": [
        *_gauges(
            _GROUP,
            {
                "ortoo_group_backlog": "consumer lag: messages not settled yet",
                "ortoo_group_ready": "of these, deliverable now",
                "ortoo_group_delayed": "of these, not due yet or waiting for a retry",
                "ortoo_group_leased": "of these, in flight: delivered and not settled",
                "ortoo_group_blocked": "of these, blocked by an unsettled message with the same key or partition",
                "ortoo_group_lag_seconds": (
                    "consumer lag: longest time that one of these is due, since publishing or the end of its delay; 0 if none"
                ),
                "ortoo_group_oldest_pending_seconds": "age of the oldest of these, due or not, since it was published",
                "ortoo_group_dead": "messages of the group in the dead-letter topic",
                "ortoo_group_leases": "leases that hold messages",
                "ortoo_group_consumers": "live consumers",
            },
        ),
        *_counters(
            _GROUP,
            {
                "ortoo_group_delivered_total": "deliveries to the group, including redeliveries",
                "ortoo_group_acked_total": "messages that the group acknowledged",
                "ortoo_group_retried_total": "its failed deliveries that are retried: nacks and expired leases",
                "ortoo_group_dead_lettered_total": "its messages that were dead-lettered",
            },
        ),
        *_histograms(
            _GROUP,
            {
                "ortoo_delivery_latency_seconds": (
                    "time from publishing to the first delivery to the group, including delays; one observation per lease and "
                    "partition, for its oldest message"
                ),
                "ortoo_ack_latency_seconds": (
                    "time from delivery to acknowledgement; one observation for what is acknowledged together"
                ),
            },
        ),
    ],
    "Namespaces": [
        *_gauges(
            ("namespace", "quota"),
            {
                "ortoo_namespace_used": "usage of a quota; for a rate, in the last minute",
                "ortoo_namespace_limit": "the quota",
            },
        ),
        *_counters(
            ("namespace", "quota"),
            {"ortoo_namespace_refusals_total": "requests and connections refused because of a quota"},
        ),
    ],
    "MQTT": [
        *_gauges(
            (),
            {
                "ortoo_mqtt_sessions": "sessions: of connected clients, and persistent ones",
                "ortoo_mqtt_subscriptions": "subscriptions to ordinary topics",
                "ortoo_mqtt_retained": "retained messages",
            },
        ),
        *_counters(
            (),
            {
                "ortoo_mqtt_received_total": "messages that clients published",
                "ortoo_mqtt_sent_total": "messages sent to clients",
                "ortoo_mqtt_dropped_total": "messages not sent to a client: its queue was full, or they were too large",
            },
        ),
    ],
    "Doors": [
        *_gauges(("door",), {"ortoo_connections": "clients connected"}),
        *_counters(
            ("door",),
            {
                "ortoo_connections_opened_total": "clients that connected",
                "ortoo_connections_refused_total": "clients refused because of limits.connections or connections_per_ip",
            },
        ),
        *_counters(("door", "operation"), {"ortoo_requests_total": "requests, including failed ones"}),
        *_counters(("door", "operation", "code"), {"ortoo_request_errors_total": "requests answered with an error"}),
        *_histograms(
            ("door", "operation"),
            {
                "ortoo_request_seconds": "time until the broker's reply, without errors and without the waiting time of leases"
            },
        ),
        *_gauges(
            (),
            {
                "ortoo_in_flight_bytes": "bytes of requests in flight",
                "ortoo_in_flight_limit_bytes": "the limit on these, limits.in_flight_bytes",
                "ortoo_tls_certificate_expiry_seconds": "time until the server's certificate expires, negative afterwards",
            },
        ),
    ],
    "Broker": [
        *_gauges(
            (),
            {
                "ortoo_ready": "1 if the queue accepts commands and its store has room",
                "ortoo_topics": "topics",
                "ortoo_groups": "groups, all topics",
                "ortoo_leases": "leases that hold messages, all groups",
                "ortoo_waiters": "leases waiting for a message",
                "ortoo_transactions_open": "open named transactions",
                "ortoo_epoch": "how many times the data directory has been opened",
                "ortoo_problems": "problems that need an operator",
                "ortoo_event_loop_longest_stall_seconds": "longest event loop stall in the last minute, for any reason",
                "ortoo_event_loop_longest_turn_seconds": (
                    "longest time the event loop was busy with one task in the last minute: a stall minus the machine's share"
                ),
                "ortoo_sampler_seconds": "CPU time of the last sample of all topics",
                "ortoo_sampler_longest_turn_seconds": "longest time that this sample blocked the event loop",
                "ortoo_overview_seconds": "CPU time of the last overview, shared by all viewers; 0 until there is one",
            },
        ),
        *_counters((), {"ortoo_recoveries_total": "recoveries after a store failure"}),
        *_histograms(
            (),
            {
                "ortoo_commit_seconds": "time of an append to the store, including the sync",
                "ortoo_commit_records": "records in a commit",
                "ortoo_event_loop_stall_seconds": "how late the event loop was, sampled fifty times a second",
            },
        ),
    ],
    "Disk": [
        *_histograms(
            (),
            {
                "ortoo_sync_seconds": "time of a sync of the write-ahead log",
                "ortoo_checkpoint_seconds": "time of a checkpoint",
            },
        ),
        *_gauges(
            (),
            {
                "ortoo_wal_bytes": "size of the write-ahead log on disk",
                "ortoo_segment_bytes": "size of the segments on disk",
                "ortoo_disk_free_bytes": "free space on the disk of the data directory",
            },
        ),
        *_gauges(
            ("shard",),
            {
                "ortoo_shard_healthy": "1 if commits go to the shard's database, 0 while it is unreachable",
                "ortoo_spilled_commits": "commits that wait in the spill for the shard's database",
                "ortoo_spilled_bytes": "size of the spill",
            },
        ),
        *_counters(("shard",), {"ortoo_drained_commits_total": "commits moved from the spill to the shard's database"}),
        *_gauges(
            ("shard",),
            {
                "ortoo_buffer_on": "1 while the shard's commits are confirmed from its buffer, else 0; only with a buffer",
                "ortoo_buffer_commits": "commits in the buffer that the shard's database does not have yet",
                "ortoo_buffer_bytes": "size of these",
            },
        ),
        *_counters(
            ("shard",),
            {
                "ortoo_buffer_drained_total": "commits drained from the buffer to the shard's database",
                "ortoo_buffer_failures_total": "how often the buffer became unreachable, or lost data",
            },
        ),
    ],
    "Redis": [
        *_gauges((), {"ortoo_redis_up": "1 if Redis answers; these metrics exist only with Redis"}),
        *_counters(
            (),
            {
                "ortoo_redis_calls_total": "scripts run by Redis",
                "ortoo_redis_failures_total": "how often Redis became unreachable",
            },
        ),
        *_counters(
            ("use",),
            {"ortoo_redis_fallbacks_total": "operations done without Redis: quota reports, publishes with a dedup id"},
        ),
    ],
    "Webhooks": [
        *_counters(
            ("outcome",),
            {
                "ortoo_webhook_letters_total": "webhook notifications: delivered, failed, dropped, or refused by webhooks.allow"
            },
        ),
        *_counters((), {"ortoo_webhook_retries_total": "failed webhook calls that were retried"}),
        *_gauges((), {"ortoo_webhook_pending": "webhook notifications waiting to be sent"}),
    ],
    "Build": [Family("ortoo_build_info", "gauge", ("version", "python"), "always 1; the labels show the versions")],
}

# What the documents of other queues call these. `GET /metrics` has a dialect's names while `http.dialects` has it.
_ALIASES: dict[DialectName, list[Family]] = {
    "mqtt-queues": [
        *_gauges(_QUEUE, {"mqtt_queue_depth": "as ortoo_topic_depth"}),
        *_counters(
            _QUEUE,
            {
                "mqtt_queue_enqueue_total": "as ortoo_messages_published_total",
                "mqtt_queue_dequeue_total": "as ortoo_messages_delivered_total",
                "mqtt_queue_ack_total": "as ortoo_messages_acked_total",
                "mqtt_queue_nack_total": "as ortoo_messages_retried_total",
            },
        ),
        Family(
            "mqtt_queue_delivery_latency_seconds",
            "summary",
            _QUEUE,
            "as ortoo_delivery_latency_seconds, since the start",
        ),
        Family("mqtt_queue_dlq_total", "counter", (*_QUEUE, "reason"), "as ortoo_messages_dead_lettered_total"),
        Family("mqtt_queue_active_consumers", "gauge", (*_QUEUE, "group"), "as ortoo_group_consumers"),
    ],
    "mqueue": [
        *_counters(
            (),
            {
                "mqueue_enqueue_total": "messages published, all topics",
                "mqueue_dequeue_total": "deliveries, all topics",
                "mqueue_ack_total": "messages acknowledged, all topics",
                "mqueue_nack_total": "failed deliveries that are retried, all topics",
                "mqueue_backpressure_rejected_total": "requests refused for lack of room: full, too_many, rate_limited",
            },
        ),
        *_gauges(
            (),
            {
                "mqueue_buffer_queue_depth": "messages published and not durable yet",
                "mqueue_ready_queue_depth": "messages deliverable now, all groups with their own series",
            },
        ),
        Family("mqueue_shard_health", "gauge", ("shard", "type"), "as ortoo_ready; there is one shard"),
        *_histograms(
            (),
            {
                "mqueue_enqueue_latency_seconds": "as ortoo_request_seconds of publishing, all doors",
                "mqueue_dequeue_latency_seconds": "as ortoo_request_seconds of leasing, all doors",
                "mqueue_flush_latency_seconds": "as ortoo_commit_seconds",
            },
        ),
    ],
}
SECTIONS["Names of other queues"] = [
    msgspec.structs.replace(family, dialect=dialect) for dialect, families in _ALIASES.items() for family in families
]

FAMILIES: dict[str, Family] = {family.name: family for families in SECTIONS.values() for family in families}
