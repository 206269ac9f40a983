"""The observing half of Queen's API: analytics, resources, status, consumer groups, traces, the dashboard."""

from __future__ import annotations

import msgspec

from ortoo.doors.http.routing import Handler, Route, SocketHandler
from ortoo.model.queries import GetStats

from . import analytics, dashboard, groups, prometheus, rates, resources, status, traces, unserved
from .observing import READING, LookQuery

_API = "/api/v1"
_GROUP = f"{_API}/consumer-groups/{{group}}"
_GROUP_QUEUE = f"{_GROUP}/queues/{{queue}}"
_SEES = (GetStats,)  # anything at all


def _get(
    path: str, handler: Handler, summary: str, does: tuple[type, ...], query: type[msgspec.Struct] = LookQuery
) -> Route:
    return Route("GET", path, handler, summary, tuple(dict.fromkeys(does)), query=query)


def _unserved(method: str, path: str, handler: Handler) -> Route:
    return Route(method, path, handler, "Is not served here: what is used instead", query=LookQuery)


_ANALYTICS = (
    _get(f"{_API}/analytics", analytics.grouped_stats, "Counts of the queues of a namespace or a task", READING),
    _get(f"{_API}/analytics/queues", analytics.all_stats, "Counts of all queues", READING),
    _get(f"{_API}/analytics/queue/{{queue}}", analytics.queue_stats, "Counts of a queue", READING),
    _get(f"{_API}/analytics/queue-depths", analytics.depths, "What waits in each queue", READING),
    _get(f"{_API}/analytics/throughput", analytics.throughput, "Rates of the last hour", rates.RATING),
    _get(f"{_API}/analytics/queue-lag", analytics.lag, "How long messages wait", (*READING, *groups.GROUPS)),
    _get(f"{_API}/analytics/queue-stats", analytics.group_stats, "Counts by partition and group", READING),
)

_RESOURCES = (
    _get(f"{_API}/resources/queues", resources.list_queues, "List queues", READING),
    _get(f"{_API}/resources/queues/{{queue}}", resources.show_queue, "Look at a queue", READING),
    _get(f"{_API}/resources/queues/{{queue}}/depth", resources.show_depth, "What is left to do", READING),
    _get(f"{_API}/resources/partitions", resources.list_partitions, "List partitions", READING),
    _get(f"{_API}/resources/namespaces", resources.list_namespaces, "List namespaces", READING),
    _get(f"{_API}/resources/tasks", resources.list_tasks, "List tasks", READING),
    _get(f"{_API}/resources/overview", resources.overview, "Count everything", READING),
)

_STATUS = (
    _get(f"{_API}/status", status.status, "What passes through", (*READING, *rates.RATING)),
    _get(f"{_API}/status/queues", status.list_queues, "List queues, a page at a time", READING),
    _get(f"{_API}/status/queues/{{queue}}", status.show_queue, "Look at a queue and its options", READING),
    _get(
        f"{_API}/status/queues/{{queue}}/messages",
        status.queue_messages,
        "List the newest messages",
        status.MESSAGES_OF,
    ),
    _get(f"{_API}/status/analytics", status.analytics, "Messages pushed over time", rates.RATING),
    Route(
        "POST", f"{_API}/stats/refresh", status.refresh, "Have figures made anew: they are new", _SEES, query=LookQuery
    ),
    _get(f"{_API}/status/buffers", status.buffers, "What waits to be stored: nothing", _SEES),
)

_GROUPS = (
    _get(f"{_API}/consumer-groups", groups.list_groups, "List consumer groups", groups.GROUPS),
    _get(f"{_API}/consumer-groups/lagging", groups.lagging, "List what lags", groups.PARTITIONS),
    _get(_GROUP, groups.show_group, "Look at a group's partitions", groups.PARTITIONS),
    Route("DELETE", _GROUP, groups.delete_group, "Delete a group", groups.DELETING, query=groups.DeleteQuery),
    Route(
        "POST",
        f"{_GROUP}/subscription",
        groups.subscribe,
        "Move a group to an instant",
        groups.SEEKING,
        body=groups.SubscriptionBody,
        query=LookQuery,
    ),
    Route(
        "DELETE",
        _GROUP_QUEUE,
        groups.delete_group_of_queue,
        "Delete a group of a queue",
        groups.DELETING,
        query=groups.DeleteQuery,
    ),
    Route(
        "POST",
        f"{_GROUP_QUEUE}/seek",
        groups.seek,
        "Move a group of a queue",
        groups.SEEKING,
        body=groups.SeekBody,
        query=LookQuery,
    ),
    _unserved("POST", f"{_GROUP_QUEUE}/partitions/{{partition}}/seek", groups.seek_partition),
)

_TRACES = (
    Route(
        "POST",
        f"{_API}/traces",
        traces.record,
        "Record a trace: none are kept",
        _SEES,
        body=traces.TraceBody,
        query=LookQuery,
    ),
    _get(f"{_API}/traces/names", traces.names, "List names of traces: there are none", _SEES),
    _get(f"{_API}/traces/by-name/{{name}}", traces.by_name, "Traces of a name: there are none", _SEES),
    _get(
        f"{_API}/traces/{{partition_id}}/{{transaction_id}}",
        traces.of_message,
        "What happened to a message",
        traces.TRACING,
    ),
)

_SYSTEM = (
    _get(f"{_API}/system/maintenance", unserved.maintenance, "Whether pushes are set aside: never", _SEES),
    _get(f"{_API}/system/maintenance/pop", unserved.pop_maintenance, "Whether pops are off: never", _SEES),
    Route(
        "POST",
        f"{_API}/system/maintenance",
        unserved.set_maintenance,
        "Have pushes set aside",
        _SEES,
        body=unserved.MaintenanceBody,
        query=LookQuery,
    ),
    Route(
        "POST",
        f"{_API}/system/maintenance/pop",
        unserved.set_pop_maintenance,
        "Have pops off",
        _SEES,
        body=unserved.MaintenanceBody,
        query=LookQuery,
    ),
    *(
        _unserved("GET", f"{_API}/analytics/{name}", unserved.server_metrics)
        for name in ("system-metrics", "worker-metrics", "postgres-stats")
    ),
    _unserved("POST", "/streams/v1/{what}", unserved.streams),
    _unserved("POST", "/streams/v1/state/get", unserved.streams),
    _unserved("GET", f"{_API}/migration/{{what}}", unserved.migration),
    _unserved("POST", f"{_API}/migration/{{what}}", unserved.migration),
)

OBSERVING: tuple[Route, ...] = (*_ANALYTICS, *_RESOURCES, *_STATUS, *_GROUPS, *_TRACES, *_SYSTEM)
OWN_OBSERVING: tuple[Route, ...] = (  # on a port of its own
    _get("/metrics/prometheus", prometheus.expose, "Metrics for Prometheus", prometheus.EXPOSING),
)
SOCKETS: dict[bytes, SocketHandler] = {b"/ws/dashboard": dashboard.serve}
