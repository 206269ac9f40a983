"""The routes of mqueue: all of its document, and where it leads elsewhere."""

from __future__ import annotations

from ortoo.doors.http.routing import Dialect, Route
from ortoo.model.commands import DeleteMessage, Lease, Publish, Settle, SettleById, Transact
from ortoo.model.queries import GetMessage, GetMetrics, GetTopic, ListTopics, Scan

from . import items, monitoring, settling
from .shapes import NamedItem, NamespaceQuery, NewItem, TopicQuery
from .texts import refuse

_Settled = NamedItem | list[NamedItem]

_ROUTES = (
    Route(
        "POST",
        "/enqueue",
        items.enqueue,
        "Enqueue items",
        (Publish, Transact),
        body=list[NewItem],
        query=NamespaceQuery,
    ),
    Route("GET", "/dequeue", items.dequeue, "Lease items", (Lease, Settle), query=TopicQuery),
    Route("POST", "/ack", settling.ack, "Acknowledge items", (SettleById,), body=_Settled, query=NamespaceQuery),
    Route("POST", "/nack", settling.nack, "Fail items", (SettleById,), body=_Settled, query=NamespaceQuery),
    Route("GET", "/dlq", settling.dead_items, "List dead items", (GetTopic, Scan), query=TopicQuery),
    Route(
        "POST",
        "/dlq/delete",
        settling.delete_dead_item,
        "Delete a dead item",
        (GetMessage, DeleteMessage),
        body=NamedItem,
        query=NamespaceQuery,
    ),
    Route("GET", "/topics", monitoring.topics, "List topics", (ListTopics,), query=NamespaceQuery),
)

_OWN_ROUTES = (
    Route("GET", "/health", monitoring.health, "Whether it is there", query=NamespaceQuery, needs_token=False),
    Route("GET", "/metrics", monitoring.metrics, "Prometheus metrics", (GetMetrics,), query=NamespaceQuery),
    Route("GET", "/dashboard", monitoring.no_dashboard, "Not here", query=NamespaceQuery),
    Route("GET", "/dashboard/foqs", monitoring.no_dashboard, "Not here", query=NamespaceQuery),
    Route("GET", "/api/dashboard/stats", monitoring.no_dashboard, "Not here", query=NamespaceQuery),
)

MQUEUE = Dialect(
    name="mqueue",
    system="mqueue",
    port=8080,
    routes=_ROUTES,
    own_routes=_OWN_ROUTES,
    refuse=refuse,
    token_headers=(b"authorization", b"authorisation"),
)
