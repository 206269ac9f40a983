"""The routes of the admin API."""

from __future__ import annotations

from functools import partial

import msgspec

from ortoo.doors.http.answers import Answer, Problem
from ortoo.doors.http.routing import Dialect, Route
from ortoo.model import commands as c
from ortoo.model import queries as q

from . import monitoring, queues, shapes

_encode = msgspec.json.Encoder().encode


class _Any(msgspec.Struct):
    """No parameter is known, and none is refused."""


_get, _post = (partial(Route, method) for method in ("GET", "POST"))
_ALL = "/api/v1/queues"
_ONE = f"{_ALL}/{{name}}"

_ROUTES = (
    _post(
        _ALL,
        queues.create,
        "Create a queue; 409 when there is one",
        does=(c.CreateTopic, q.GetTopic),
        body=shapes.QueueBody,
        status=201,
        query=_Any,
    ),
    _get(_ALL, queues.list_all, "List queues", does=(q.ListTopics,), query=shapes.ListQuery),
    _get(_ONE, queues.show, "Show a queue", does=(q.GetTopic,), query=_Any),
    *(
        Route(
            method,
            f"{_ONE}/config",
            queues.change,
            "Change some settings of a queue",
            does=(c.ChangeTopic, q.GetTopic),
            body=shapes.QueueBody,
            query=_Any,
        )
        for method in ("PUT", "PATCH")
    ),
    Route("DELETE", _ONE, queues.delete, "Delete a queue", does=(c.DeleteTopic,), query=_Any),
    _get(f"{_ONE}/stats", monitoring.stats, "Figures of a queue", does=(q.GetTopic, q.GetMetrics), query=_Any),
    _get(f"{_ONE}/consumers", queues.consumers, "List consumers", does=(q.GetTopic,), query=_Any),
    _post(f"{_ONE}/purge", queues.purge, "Empty a queue", does=(c.PurgeTopic,), query=_Any),
    _get(f"{_ONE}/dlq", queues.letters, "List dead letters", does=(q.GetTopic, q.Scan), query=shapes.LettersQuery),
    _post(
        f"{_ONE}/dlq/{{id}}/retry",
        queues.retry,
        "Deliver a dead letter again",
        does=(q.GetTopic, q.GetMessage, c.Redrive),
        query=_Any,
    ),
)

_OWN = (
    _get("/metrics", monitoring.metrics, "Metrics for Prometheus", does=(q.GetMetrics,), query=_Any),
    _get("/health", monitoring.health, "Whether the server is there", needs_token=False, query=_Any),
    _get("/ready", monitoring.ready, "Whether it takes requests", needs_token=False, query=_Any),
)


def refuse(problem: Problem) -> Answer:
    return Answer(_encode({"error": problem.detail, "code": problem.code}), problem.status)


MQTT_QUEUES = Dialect(
    name="mqtt-queues",
    system="MQTT durable queues",
    port=8082,
    routes=_ROUTES,
    refuse=refuse,
    own_routes=_OWN,
)
