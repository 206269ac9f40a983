"""Figures of queues: one by one, and as the metrics that the document promises."""

from __future__ import annotations

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.dialects.callers import namespace_of
from ortoo.dialects.exposition import CONTENT_TYPE, Exposition
from ortoo.doors.http.answers import Answer
from ortoo.doors.http.call import Call
from ortoo.model.metrics import MetricFigures, TopicFigures
from ortoo.model.names import TopicName
from ortoo.model.queries import GetMetrics, GetTopic

from .names import queue_of
from .queues import REASONS, name_of
from .shapes import GroupStats, Health, Latency, PartitionStats, QueueStats

_QUANTILES = (0.5, 0.99)
_encode = msgspec.json.Encoder().encode


async def stats(call: Call) -> QueueStats:
    return await stats_of(call.link, name_of(call))


async def stats_of(link: AuthorizedLink, name: TopicName) -> QueueStats:
    info = await link.ask(GetTopic(name))
    groups = [
        GroupStats(
            each.name,
            each.backlog,
            each.ready,
            each.delayed,
            each.leased,
            each.blocked,
            each.dead,
            len(each.consumers),
        )
        for each in info.groups
    ]
    partitions = [
        PartitionStats(each.partition, each.start, each.end, each.messages, each.bytes) for each in info.partitions
    ]
    consumers = sum(each.active_consumers for each in groups)
    told = QueueStats(queue_of(info.name), info.depth, info.messages, info.bytes, consumers, partitions, groups)
    _add_totals(told, name, await link.ask(GetMetrics(name.namespace, name.name)))
    return told


def _add_totals(told: QueueStats, name: TopicName, figures: MetricFigures) -> None:
    topic = next((each for each in figures.topics if each.name == name), None)
    if topic is not None:
        counters = topic.counters
        told.enqueue_total, told.dequeue_total = counters.published, counters.delivered
        told.ack_total, told.nack_total = counters.acked, counters.retried
        told.dlq_total = {REASONS.get(reason, reason): count for reason, count in topic.dead_lettered.items()}
    latency = next((histogram for each, histogram in figures.deliveries if each == name), None)
    if latency is not None:
        told.delivery_latency_seconds = Latency(*map(latency.quantile, _QUANTILES))


# -- on a port of its own


async def metrics(call: Call) -> Answer:
    figures, namespace = await call.link.ask(GetMetrics()), namespace_of(call.link)
    text = Exposition()
    _tell_queues(text, [each for each in figures.topics if each.name.namespace == namespace])
    text.family("mqtt_queue_delivery_latency_seconds", "summary", "From publishing to the first delivery")
    for name, histogram in figures.deliveries:
        if name.namespace == namespace:
            text.add_summary("mqtt_queue_delivery_latency_seconds", histogram, queue=queue_of(name.name))
    return Answer(text.render(), content_type=CONTENT_TYPE)


def _tell_queues(text: Exposition, topics: list[TopicFigures]) -> None:
    text.family("mqtt_queue_depth", "gauge", "Messages that wait, of the group that is furthest behind")
    text.family("mqtt_queue_enqueue_total", "counter", "Messages published")
    text.family("mqtt_queue_dequeue_total", "counter", "Deliveries, repeated ones too")
    text.family("mqtt_queue_ack_total", "counter", "Messages acknowledged")
    text.family("mqtt_queue_nack_total", "counter", "Deliveries that failed and are retried")
    text.family("mqtt_queue_dlq_total", "counter", "Messages sent to the dead letters")
    text.family("mqtt_queue_active_consumers", "gauge", "Live consumers")
    for topic in topics:
        queue, counters = queue_of(topic.name.name), topic.counters
        text.add("mqtt_queue_depth", topic.depth, queue=queue)
        text.add("mqtt_queue_enqueue_total", counters.published, queue=queue)
        text.add("mqtt_queue_dequeue_total", counters.delivered, queue=queue)
        text.add("mqtt_queue_ack_total", counters.acked, queue=queue)
        text.add("mqtt_queue_nack_total", counters.retried, queue=queue)
        for reason, count in topic.dead_lettered.items():
            text.add("mqtt_queue_dlq_total", count, queue=queue, reason=REASONS.get(reason, reason))
        for group, found in topic.groups.items():
            text.add("mqtt_queue_active_consumers", found.consumers, queue=queue, group=group)


async def health(call: Call) -> Health:
    return Health("ok")


async def ready(call: Call) -> Answer:
    reason = "the server is stopping" if call.services.is_closing else call.services.ready()
    told = Health("ready") if reason is None else Health("not ready", reason)
    return Answer(_encode(told), 200 if reason is None else 503)
