"""GoQueue's routes. Where its documents, its server and its clients disagree on a path, each has its own."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Raw

from ortoo.doors.http.answers import Answer, Problem
from ortoo.doors.http.routing import Dialect, Route
from ortoo.doors.http.shapes import BODY_BYTES_MAX, LIST_BYTES_MAX
from ortoo.model import commands as c
from ortoo.model import queries as q

from . import absent, delayed, groups, monitoring, offsets, polling, publishing, settling, shapes, topics, traces
from .shapes import AnyQuery

_get, _post, _delete = (partial(Route, method) for method in ("GET", "POST", "DELETE"))
_encode = msgspec.json.Encoder().encode


def _topic_routes(prefix: str) -> dict[str, Route]:
    """By what each is for."""
    topic = f"{prefix}/topics/{{topic}}"
    return {
        "create": _post(
            f"{prefix}/topics",
            topics.create,
            "Create a topic; 409 when there is one",
            does=(c.CreateTopic,),
            body=shapes.NewTopic,
            bytes_max=BODY_BYTES_MAX,
            query=AnyQuery,
            status=201,
        ),
        "list": _get(f"{prefix}/topics", topics.list_all, "List topics", does=(q.ListTopics,), query=AnyQuery),
        "show": _get(topic, topics.show, "Show a topic", does=(q.GetTopic,), query=AnyQuery),
        "delete": _delete(topic, topics.delete, "Delete a topic", does=(c.DeleteTopic,), query=AnyQuery),
        "publish": _post(
            f"{topic}/messages",
            publishing.publish,
            "Publish messages, whose values are text",
            does=(c.Publish,),
            body=shapes.PublishBody,
            query=AnyQuery,
        ),
        "publish one": _post(
            f"{topic}/publish",
            publishing.publish_one,
            "Publish a message, whose value is base64",
            does=(c.Publish,),
            body=shapes.NewMessage,
            query=AnyQuery,
        ),
        "partitions": _get(
            f"{topic}/partitions", topics.partitions, "List partitions", does=(q.GetTopic,), query=AnyQuery
        ),
        "read": _get(
            f"{topic}/partitions/{{partition}}/messages",
            topics.read,
            "Read a partition",
            does=(q.Scan,),
            query=shapes.ReadQuery,
        ),
        **_delayed_routes(topic),
    }


def _delayed_routes(topic: str) -> dict[str, Route]:
    return {
        "delayed": _get(
            f"{topic}/delayed",
            delayed.list_all,
            "List messages that are not due yet",
            does=(q.GetTopic, q.ListMessages, q.Scan, q.GetTrace),
            query=delayed.DelayedQuery,
        ),
        "show delayed": _get(
            f"{topic}/delayed/{{offset}}",
            delayed.show,
            "Show a message that is not due yet",
            does=(q.GetTopic, q.GetTrace),
            query=AnyQuery,
        ),
        "cancel": _delete(
            f"{topic}/delayed/{{partition}}/{{offset}}",
            delayed.cancel,
            "Delete a message that is not due yet",
            does=(q.GetTopic, q.GetTrace, c.DeleteMessage),
            query=AnyQuery,
        ),
    }


_PLAIN, _V1, _LOAD = _topic_routes(""), _topic_routes("/v1"), _topic_routes("/api/v1")
_LOAD["publish"] = msgspec.structs.replace(_LOAD["publish"], handler=publishing.publish_anything, body=Raw)

# On the port that all share, these are ours, or mqueue's.
_CLASHING = (_PLAIN["list"], *(_V1[name] for name in ("create", "list", "show", "delete", "publish", "delayed")))

_LOAD_TESTS = (
    _get(
        "/api/v1/topics/{topic}/consume",
        polling.consume,
        "Lease messages without joining",
        does=(c.Lease, c.Settle),
        query=shapes.ConsumeQuery,
    ),
    _post(
        "/api/v1/topics/{topic}/ack",
        settling.settle("ack"),
        "Acknowledge a message",
        does=(c.Settle,),
        body=shapes.SettleBody,
        bytes_max=LIST_BYTES_MAX,
        query=AnyQuery,
    ),
)

_GROUP = "/groups/{group}"
_JOINING = {
    "join": (groups.join, "Join a group", (q.GetTopic, c.CreateGroup, c.Heartbeat), shapes.JoinBody),
    "heartbeat": (groups.heartbeat, "A sign of life", (c.Heartbeat,), shapes.MemberBody),
    "leave": (groups.leave, "Leave a group", (c.Leave,), shapes.MemberBody),
}
_GROUPS = (
    _get("/groups", groups.list_all, "List groups", does=(q.ListTopics,), query=AnyQuery),
    _get(_GROUP, groups.show, "Show a group", does=(q.ListTopics,), query=AnyQuery),
    _delete(_GROUP, groups.delete, "Delete a group", does=(q.ListTopics, c.DeleteGroup), query=AnyQuery),
    *(
        _post(
            f"{_GROUP}/{name}{kind}", handler, summary, does=does, body=body, bytes_max=BODY_BYTES_MAX, query=AnyQuery
        )
        for name, (handler, summary, does, body) in _JOINING.items()
        for kind in ("", "/cooperative")
    ),
    _get(
        f"{_GROUP}/assignment",
        groups.assignment,
        "What a member gets",
        does=(q.GetTopic, c.Heartbeat),
        query=shapes.PollQuery,
    ),
    _get(f"{_GROUP}/poll", polling.poll, "Lease messages", does=(c.Lease, c.Settle), query=shapes.PollQuery),
    _get(
        f"{_GROUP}/offsets",
        offsets.show,
        "Tell how far a group is",
        does=(q.GetTopic, q.ListTopics),
        query=shapes.GroupQuery,
    ),
    _post(
        f"{_GROUP}/offsets",
        offsets.commit,
        "Acknowledge all messages before these",
        does=(q.GetTopic, c.SettleById, c.Lease, c.Settle),
        body=shapes.CommitBody,
        bytes_max=BODY_BYTES_MAX,
        query=AnyQuery,
    ),
    _post(
        f"{_GROUP}/offsets/reset",
        offsets.reset,
        "Move a group",
        does=(q.GetTopic, c.Seek),
        body=shapes.ResetBody,
        bytes_max=BODY_BYTES_MAX,
        query=AnyQuery,
    ),
)

_FAILING: dict[settling.Action, str] = {"nack": "Failed: again, later", "reject": "To the dead letters"}
_SETTLING = (
    _post(
        "/messages/ack",
        settling.settle("ack"),
        "Done",
        does=(c.Settle,),
        body=shapes.SettleBody,
        bytes_max=LIST_BYTES_MAX,
        query=AnyQuery,
    ),
    *(
        _post(
            f"/messages/{action}",
            settling.settle(action),
            summary,
            does=(c.Settle, q.GetTopic, q.GetTrace),
            body=shapes.SettleBody,
            bytes_max=LIST_BYTES_MAX,
            query=AnyQuery,
        )
        for action, summary in _FAILING.items()
    ),
    _post(
        "/messages/visibility",
        settling.settle("extend"),
        "More time",
        does=(c.Extend,),
        body=shapes.SettleBody,
        bytes_max=LIST_BYTES_MAX,
        query=AnyQuery,
    ),
)

_WATCHING = (
    _get("/stats", monitoring.stats, "Statistics", does=(q.ListTopics,), query=AnyQuery),
    _get("/reliability/stats", monitoring.reliability, "Acks and failures", does=(q.GetMetrics,), query=AnyQuery),
    _get("/delay/stats", monitoring.delay, "Delayed messages", does=(q.GetMetrics,), query=AnyQuery),
    _get(
        "/priority/stats",
        monitoring.priority,
        "Waiting messages by priority",
        does=(q.ListTopics, q.ListMessages),
        query=AnyQuery,
    ),
    *(
        _get(
            path,
            traces.search,
            "The newest messages, and what became of them",
            does=(q.ListTopics, q.Scan, q.GetTrace),
            query=traces.TracesQuery,
        )
        for path in ("/traces", "/traces/search")
    ),
    _get("/traces/stats", traces.stats, "Counts of traces", does=(q.GetStats,), query=AnyQuery),
    _get("/traces/{trace}", traces.show, "What happened to a message", does=(q.GetTrace,), query=AnyQuery),
)

_open = partial(Route, "GET", needs_token=False, query=AnyQuery)
_PROBES = (
    _open("/health", monitoring.health, "Whether the server is there"),
    _open("/healthz", monitoring.alive, "The same"),
    _open("/livez", monitoring.alive, "The same"),
    Route(
        "GET",
        "/readyz",
        monitoring.ready,
        "Whether it takes requests",
        needs_token=False,
        query=monitoring.VerboseQuery,
    ),
    _open("/version", monitoring.version, "Which server this is"),
    _get("/metrics", monitoring.metrics, "Metrics for Prometheus", does=(q.GetMetrics,), query=AnyQuery),
)


def refuse(problem: Problem) -> Answer:
    """GoQueue's clients read `error`."""
    return Answer(_encode({"error": problem.detail, "code": problem.code}), problem.status)


_TOPICS = [route for some in (_PLAIN, _V1, _LOAD) for route in some.values() if route not in _CLASHING]

GOQUEUE = Dialect(
    name="goqueue",
    system="GoQueue",
    port=8080,
    routes=(*_TOPICS, *_LOAD_TESTS, *_GROUPS, *_SETTLING, *_WATCHING, *absent.ROUTES),
    refuse=refuse,
    own_routes=(*_CLASHING, *_PROBES),
)
