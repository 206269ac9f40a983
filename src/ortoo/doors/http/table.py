"""Every route of the door, in one table: it serves, it is described at /openapi.json, and it is tested from here."""

from __future__ import annotations

from functools import partial

import msgspec

from ortoo.model import commands as c
from ortoo.model import errors
from ortoo.model import queries as q
from ortoo.model.replies import GroupInfo, KeysFound, Trace

from . import (
    by_id,
    history,
    id_shapes,
    leases,
    messages,
    operator_shapes,
    paging,
    publishing,
    raw,
    shapes,
    topic_shapes,
    topics,
)
from .inspecting import INSPECTION
from .operator_table import DEAD_LETTERS, GROUPS, MESSAGES
from .routing import Route
from .server_table import NAMESPACES, SERVER

_get, _post, _put, _patch, _delete = (partial(Route, method) for method in ("GET", "POST", "PUT", "PATCH", "DELETE"))

_TOPIC = "/v1/topics/{topic}"
_GROUP = f"{_TOPIC}/groups/{{group}}"
_MESSAGE = "/v1/messages/{id}"
_TRANSACTION = "/v1/transactions/{name}"

_TOPICS = [
    _get(
        "/v1/topics",
        topics.list_all,
        "List the topics of a namespace, or with `namespace=*` of all that may be seen",
        does=(q.BrowseTopics,),
        query=paging.TopicsQuery,
        answer=topic_shapes.TopicList,
    ),
    _post(
        "/v1/topics",
        topics.create,
        "Create a topic; one that exists with the same settings is fine, unless exist_ok is false",
        does=(c.CreateTopic, q.GetTopic),
        body=topic_shapes.NewTopic,
        is_checked_later=True,
        answer=topic_shapes.TopicView,
        status=201,
    ),
    _get(
        _TOPIC,
        topics.show,
        "Show a topic: settings, partitions, groups",
        does=(q.GetTopic,),
        query=paging.TopicQuery,
        answer=topic_shapes.TopicView,
    ),
    _patch(
        _TOPIC,
        topics.change,
        "Change some settings of a topic",
        does=(c.ChangeTopic, q.GetTopic),
        body=topic_shapes.TopicChanges,
        is_checked_later=True,
        answer=topic_shapes.TopicView,
    ),
    _delete(
        _TOPIC,
        topics.delete,
        "Delete a topic with all its messages",
        does=(c.DeleteTopic,),
        query=operator_shapes.IfIdQuery,
    ),
    _post(
        f"{_TOPIC}/purge",
        topics.purge,
        "Empty a topic for every group",
        does=(c.PurgeTopic,),
        query=operator_shapes.IfIdQuery,
        answer=topic_shapes.Affected,
    ),
    _get(
        f"{_TOPIC}/offsets",
        topics.offsets,
        "Tell an offset of each partition: the first, the next, or the first since a time",
        does=(q.GetOffsets,),
        query=shapes.OffsetsQuery,
        answer=topic_shapes.Offsets,
    ),
    _get(
        f"{_TOPIC}/history",
        history.history,
        "Tell what happened to the messages of a partition, from a position on",
        does=(q.ScanHistory,),
        query=shapes.HistoryQuery,
        answer=topic_shapes.HistoryList,
    ),
    _post(
        f"{_TOPIC}/archived",
        topics.mark_archived,
        "Say that messages below these offsets are kept elsewhere; answered with the marks of all partitions",
        does=(c.MarkArchived,),
        body=topic_shapes.ArchivedBody,
        answer=topic_shapes.Offsets,
    ),
]

_MESSAGES = [
    _post(
        f"{_TOPIC}/messages",
        publishing.publish,
        "Publish messages, all or nothing; answered once they are durable",
        does=(c.Publish,),
        body=shapes.PublishBody,
        takes_raw=True,
        answer=shapes.Placements,
        status=201,
    ),
    _post(
        f"{_TOPIC}/request",
        publishing.request,
        "Publish a request and wait for the answer",
        does=(c.Publish,),
        body=shapes.RequestBody,
        answer=shapes.MessageView,
        errors=(errors.NoReplyError,),
    ),
    _post(
        "/v1/find",
        by_id.find,
        "Find messages by their dedup ids, as long as these are remembered",
        does=(q.FindMessages,),
        body=id_shapes.FindBody,
        answer=id_shapes.Found,
    ),
    _get(
        _MESSAGE,
        messages.show,
        "Show a message and its state in each group",
        does=(q.GetMessage,),
        query=shapes.MessageQuery,
        answer=shapes.MessageDetail,
    ),
    _get(
        f"{_MESSAGE}/value",
        raw.value,
        "Read the value of a message as it was sent, with its content type",
        does=(q.GetMessage,),
        media_types=("*/*",),
    ),
    _delete(_MESSAGE, messages.delete, "Delete a message for every group", does=(c.DeleteMessage,)),
    _get(f"{_MESSAGE}/trace", messages.trace, "Tell what happened to a message", does=(q.GetTrace,), answer=Trace),
    _post(
        f"{_MESSAGE}/retry",
        messages.retry,
        "Make a waiting message deliverable at once",
        does=(c.RetryNow,),
        body=shapes.RetryBody,
        body_optional=True,
    ),
    _post(
        f"{_MESSAGE}/dead-letter",
        messages.dead_letter,
        "Move a pending message to the dead letters",
        does=(c.DeadLetter,),
        body=shapes.DeadLetterBody,
        body_optional=True,
    ),
]

_ACTIONS: dict[leases.Action, str] = {
    "ack": "Done with these",
    "ack_through": "Done with everything of these leases and partitions up to and including these",
    "nack": "These failed: deliver them again, later",
    "reject": "These can never succeed: to the dead letters",
    "release": "Not now: others may have these at once, uncounted",
    "extend": "More time for the leases of these",
}

_LEASES = [
    _post(
        f"{_GROUP}/lease",
        leases.lease,
        "Lease messages, waiting for the first if asked to; an empty list when none came",
        does=(c.Lease, c.Settle),
        body=shapes.LeaseBody,
        body_optional=True,
        answer=shapes.MessageList,
    ),
    _post(
        "/v1/lease",
        leases.lease_anywhere,
        "Lease across every topic that has these labels, the most urgent topic first",
        does=(c.Lease, c.Settle),
        body=shapes.LeaseAnywhereBody,
        answer=shapes.MessageList,
    ),
    *(
        _post(
            f"{where}/{action}",
            leases.settle(action),
            summary if where == "/v1" else f"{summary}; receipts of this group only",
            does=(c.Extend,) if action == "extend" else (c.Settle,),
            body=shapes.SettleBody,
            answer=shapes.SettleResults,
            errors=() if where == "/v1" else (errors.NotFoundError,),
        )
        for where in (_GROUP, "/v1")
        for action, summary in _ACTIONS.items()
    ),
    *(
        _post(
            f"/v1/by-id/{action}",
            by_id.settle(action),
            f"{summary}; without receipts, whoever has leased them",
            does=(c.ExtendById,) if action == "extend" else (c.SettleById,),
            body=id_shapes.ByIdBody,
            answer=id_shapes.IdResults,
        )
        for action, summary in _ACTIONS.items()
        if action != "ack_through"
    ),
]

_GROUPS = [
    _get(
        f"{_TOPIC}/groups",
        topics.list_groups,
        "List the groups of a topic",
        does=(q.BrowseGroups,),
        query=paging.PageQuery,
        answer=topic_shapes.GroupList,
    ),
    _get(_GROUP, topics.show_group, "Show a group: backlog, leases, consumers", does=(q.GetTopic,), answer=GroupInfo),
    _post(
        _GROUP,
        topics.create_group,
        "Create a group",
        does=(c.CreateGroup, q.GetTopic),
        body=topic_shapes.NewGroup,
        body_optional=True,
        answer=GroupInfo,
        status=201,
    ),
    _delete(_GROUP, topics.delete_group, "Delete a group and its state", does=(c.DeleteGroup,)),
    _get(
        f"{_GROUP}/keys",
        topics.list_keys,
        "List the keys of the newest messages, and how many of each are in which state",
        does=(q.ListKeys,),
        query=topics.KeysQuery,
        answer=KeysFound,
    ),
    _post(
        f"{_GROUP}/heartbeat",
        topics.heartbeat,
        "A consumer's sign of life without leasing",
        does=(c.Heartbeat,),
        body=topic_shapes.HeartbeatBody,
        answer=topic_shapes.Owned,
    ),
    _post(
        f"{_GROUP}/leave",
        topics.leave,
        "A consumer leaves the group: its leases return at once",
        does=(c.Leave,),
        body=topic_shapes.LeaveBody,
    ),
    _post(
        "/v1/leave",
        topics.leave_anywhere,
        "A consumer leaves every group, or those of one topic",
        does=(c.Leave,),
        body=topic_shapes.LeaveAnywhereBody,
    ),
]

_TRANSACTIONS = [
    _post(
        "/v1/transactions",
        publishing.transact,
        "Acks and publishes that happen together or not at all",
        does=(c.Transact,),
        body=shapes.TransactionBody,
        answer=shapes.Placements,
    ),
    _post(
        _TRANSACTION,
        publishing.begin,
        "Open, or join, a named transaction",
        does=(c.Begin,),
        body=shapes.BeginBody,
        body_optional=True,
        answer=shapes.TransactionView,
    ),
    _post(
        f"{_TRANSACTION}/stage",
        publishing.stage,
        "Add messages to a named transaction; nobody sees them until it is committed",
        does=(c.Stage,),
        body=shapes.StageBody,
    ),
    _post(
        f"{_TRANSACTION}/commit",
        publishing.commit,
        "Publish what was staged, all at once; committing again changes nothing",
        does=(c.Commit,),
        body=shapes.CommitBody,
        body_optional=True,
        answer=topic_shapes.Affected,
    ),
    _post(
        f"{_TRANSACTION}/abort",
        publishing.abort,
        "Drop what was staged",
        does=(c.Abort,),
    ),
]

ROUTES: list[Route] = [
    msgspec.structs.replace(route, tag=tag)
    for tag, routes in {
        "Topics": _TOPICS,
        "Messages": _MESSAGES + MESSAGES,
        "Leases": _LEASES,
        "Groups": _GROUPS + GROUPS,
        "Dead letters": DEAD_LETTERS,
        "Transactions": _TRANSACTIONS,
        "Inspection": INSPECTION,
        "Namespaces": NAMESPACES,
        "Server": SERVER,
    }.items()
    for route in routes
]
