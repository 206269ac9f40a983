"""Health, metrics and the names of topics."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ortoo.doors.http.answers import Answer, Refusal
from ortoo.doors.http.call import Call
from ortoo.doors.http.monitoring import METRICS_TYPE
from ortoo.model.errors import InvalidError
from ortoo.model.metrics import TopicFigures
from ortoo.model.names import is_inbox
from ortoo.model.queries import GetMetrics, ListTopics

from .items import NOTHING
from .texts import text

_encode = msgspec.json.Encoder().encode

_COUNTERS = {
    "mqueue_enqueue_total": ("published", "items enqueued"),
    "mqueue_dequeue_total": ("delivered", "items dequeued, each time they were"),
    "mqueue_ack_total": ("acked", "items acknowledged"),
    "mqueue_nack_total": ("retried", "failed deliveries that are retried: nacks and expired leases"),
}


async def health(call: Call) -> Answer:
    reason = "the server is stopping" if call.services.is_closing else call.services.ready()
    return text("OK") if reason is None else text(f"{reason}\n", 503)


async def topics(call: Call) -> bytes:
    if not call.query.namespace:
        raise InvalidError("Missing namespace")
    infos = await call.link.ask(ListTopics(call.query.namespace))
    dead = {info.dlq for info in infos}
    names = sorted(info.name for info in infos if info.name not in dead and not is_inbox(info.config.labels))
    return _encode(names) if names else NOTHING


async def metrics(call: Call) -> Answer:
    figures = await call.link.ask(GetMetrics())
    lines: list[str] = []
    for name, (counter, help_text) in _COUNTERS.items():
        values = ((topic, getattr(topic.counters, counter)) for topic in figures.topics)
        lines += _family(name, "counter", help_text, values)
    waiting = ((topic, topic.not_durable) for topic in figures.topics)
    lines += _family("mqueue_buffer_queue_depth", "gauge", "items that are not durable yet", waiting)
    ready = ((topic, sum(group.ready for group in topic.groups.values())) for topic in figures.topics)
    lines += _family("mqueue_ready_queue_depth", "gauge", "items that can be dequeued now", ready)
    is_well = call.services.ready() is None
    lines.append("# HELP mqueue_shard_health 1 when items are taken, 0 when they are not")
    lines.append("# TYPE mqueue_shard_health gauge")
    lines.append(f'mqueue_shard_health{{shard="0",type="primary"}} {int(is_well)}\n')
    return Answer("\n".join(lines).encode(), content_type=METRICS_TYPE.encode())


def _family(name: str, kind: str, help_text: str, values: Iterable[tuple[TopicFigures, int]]) -> list[str]:
    lines = [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
    for topic, value in values:
        place = f'namespace="{_escaped(topic.name.namespace)}",topic="{_escaped(topic.name.name)}"'
        lines.append(f"{name}{{{place}}} {value}")
    return lines


def _escaped(words: str) -> str:
    return words.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


async def no_dashboard(call: Call) -> Answer:
    raise Refusal(501, "There is no such dashboard here; see /metrics", code="not_implemented")
