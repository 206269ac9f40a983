"""Metrics under the names that Queen's later servers give them. Ours are at `/metrics` of the HTTP port."""

from __future__ import annotations

from typing import NamedTuple

from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.answers import Answer
from ortoo.doors.http.call import Call
from ortoo.doors.http.monitoring import METRICS_TYPE
from ortoo.model.errors import NotFoundError
from ortoo.model.metrics import MetricFigures, TopicFigures
from ortoo.model.queries import GetMetrics, GetSeries
from ortoo.model.replies import Counters
from ortoo.model.series import Series

EXPOSING = (GetMetrics, GetSeries)
_REQUESTS = {"push_requests": "publish", "pop_requests": "lease", "ack_requests": "settle", "transactions": "transact"}


class _Family(NamedTuple):
    kind: str
    help: str


_FAMILIES = {
    "queen_cluster_push_requests_total": _Family("counter", "pushes that were served"),
    "queen_cluster_pop_requests_total": _Family("counter", "pops that were served"),
    "queen_cluster_ack_requests_total": _Family("counter", "acks that were served"),
    "queen_cluster_transactions_total": _Family("counter", "transactions that were served"),
    "queen_cluster_push_messages_total": _Family("counter", "messages pushed"),
    "queen_cluster_pop_messages_total": _Family("counter", "messages popped, in all groups and again"),
    "queen_cluster_ack_messages_total": _Family("counter", "messages acked, as completed or failed"),
    "queen_cluster_ack_total": _Family("counter", "messages acked, by result"),
    "queen_cluster_dlq_total": _Family("counter", "messages that became dead letters"),
    "queen_queue_push_messages_per_minute": _Family("gauge", "messages pushed in the last minute that is over"),
    "queen_queue_pop_messages_per_minute": _Family("gauge", "messages popped in the last minute that is over"),
    "queen_queue_ack_per_minute": _Family("gauge", "messages acked in the last minute that is over, by result"),
    "queen_dlq_depth": _Family("gauge", "messages that groups gave up, as far as they are still stored"),
    "queen_dlq_depth_by_queue": _Family("gauge", "the same, by queue"),
}


class _Lines:
    """By family, in the order of the table."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def add(self, name: str, value: float, **labels: str) -> None:
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        self._found.setdefault(name, []).append(f"{name}{{{pairs}}} {value}\n")

    def render(self) -> bytes:
        parts = []
        for name, family in _FAMILIES.items():
            if found := self._found.get(name):
                parts += [f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n", *found]
        return "".join(parts).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


async def expose(call: Call) -> Answer:
    """Of the client's namespace. Requests are told to those alone who may see everything."""
    namespace, figures, lines = namespace_of(call.link), await call.link.ask(GetMetrics()), _Lines()
    topics = [topic for topic in figures.topics if topic.name.namespace == namespace]
    _read_totals(lines, topics)
    _read_requests(lines, figures)
    for topic in topics:
        lines.add("queen_dlq_depth_by_queue", _dead(topic), queue=topic.name.name)
        try:
            series = await call.link.ask(GetSeries(topic=topic.name, resolution="minute", count=2))
        except NotFoundError:
            continue  # deleted meanwhile
        _read_minute(lines, topic.name.name, series)
    return Answer(lines.render(), content_type=METRICS_TYPE.encode())


def _read_totals(lines: _Lines, topics: list[TopicFigures]) -> None:
    total = Counters()
    for topic in topics:
        total.add(topic.counters)
    failed = total.retried + total.dead_lettered + total.dropped
    for name, value in (
        ("queen_cluster_push_messages_total", total.published),
        ("queen_cluster_pop_messages_total", total.delivered),
        ("queen_cluster_ack_messages_total", total.acked + failed),
        ("queen_cluster_dlq_total", total.dead_lettered),
        ("queen_dlq_depth", sum(map(_dead, topics))),
    ):
        lines.add(name, value, scope="cluster")
    lines.add("queen_cluster_ack_total", total.acked, scope="cluster", result="success")
    lines.add("queen_cluster_ack_total", failed, scope="cluster", result="failed")


def _read_requests(lines: _Lines, figures: MetricFigures) -> None:
    if not figures.doors:
        return
    for name, family in _REQUESTS.items():
        served = sum(door.seconds[family].count for door in figures.doors.values() if family in door.seconds)
        lines.add(f"queen_cluster_{name}_total", served, scope="cluster")


def _read_minute(lines: _Lines, queue: str, series: Series) -> None:
    """The newest but one: the newest is not over."""
    if len(series.timestamps) < 2:
        return
    rates = {name: series.figures[name][-2] for name in ("published", "delivered", "acked", "failed")}
    lines.add("queen_queue_push_messages_per_minute", rates["published"], queue=queue)
    lines.add("queen_queue_pop_messages_per_minute", rates["delivered"], queue=queue)
    lines.add("queen_queue_ack_per_minute", rates["acked"], queue=queue, result="success")
    lines.add("queen_queue_ack_per_minute", rates["failed"], queue=queue, result="failed")


def _dead(topic: TopicFigures) -> int:
    return sum(group.dead for group in topic.groups.values())
