"""The working core of Queen's API: queues, push, pop, ack, transactions, single messages."""

from __future__ import annotations

from ortoo.doors.http.routing import Route
from ortoo.model import commands as c
from ortoo.model import queries as q

from . import acking, browsing, configuring, health, popping, pushing, transacting
from .shapes import (
    Ack,
    AckBatchBody,
    AnyQuery,
    ConfigureBody,
    DlqQuery,
    ExtendBody,
    GroupQuery,
    MessagesQuery,
    PartitionQuery,
    PopQuery,
    PushBody,
    TransactionBody,
    check_counts,
)

_API = "/api/v1"
_MESSAGE = f"{_API}/messages/{{transaction_id}}"
_SETTLING = (c.Settle, c.SettleById, q.FindMessages)


def _message_routes(path: str) -> tuple[Route, ...]:
    """Of one message."""
    return (
        Route("GET", path, browsing.show, "Look at a message", browsing.LOOKING, query=AnyQuery),
        Route("DELETE", path, browsing.delete, "Delete a message", browsing.DELETING, query=AnyQuery),
        Route("POST", f"{path}/retry", browsing.retry, "Deliver a message again", browsing.RETRYING, query=GroupQuery),
        Route("POST", f"{path}/dlq", browsing.move_to_dlq, "Give a message up", browsing.BURYING, query=GroupQuery),
    )


ROUTES = (
    Route(
        "POST",
        f"{_API}/configure",
        configuring.configure,
        "Make a queue, or change it",
        (c.CreateTopic, c.ChangeTopic),
        body=ConfigureBody,
        query=AnyQuery,
        status=201,
    ),
    Route(
        "POST",
        f"{_API}/push",
        pushing.push,
        "Push messages",
        (c.Publish, c.Transact),
        body=PushBody,
        check=check_counts,
        query=AnyQuery,
        status=201,
    ),
    Route(
        "GET", f"{_API}/pop/queue/{{queue}}", popping.pop_queue, "Pop of a queue", (c.Lease, c.Settle), query=PopQuery
    ),
    Route(
        "GET",
        f"{_API}/pop/queue/{{queue}}/partition/{{partition}}",
        popping.pop_partition,
        "Pop of a partition",
        (c.Lease, c.Settle),
        query=PopQuery,
    ),
    Route(
        "GET",
        f"{_API}/pop",
        popping.pop_anywhere,
        "Pop of all queues of a namespace or a task",
        (c.Lease, c.Settle),
        query=PopQuery,
    ),
    Route("POST", f"{_API}/ack", acking.ack, "Tell what became of a message", _SETTLING, body=Ack, query=AnyQuery),
    Route(
        "POST",
        f"{_API}/ack/batch",
        acking.ack_batch,
        "Tell what became of messages",
        _SETTLING,
        body=AckBatchBody,
        check=check_counts,
        query=AnyQuery,
    ),
    Route(
        "POST",
        f"{_API}/lease/{{lease}}/extend",
        acking.extend,
        "Extend a lease",
        (c.Extend,),
        body=ExtendBody,
        body_optional=True,
        query=AnyQuery,
    ),
    Route(
        "POST",
        f"{_API}/transaction",
        transacting.transact,
        "Push and ack, all or nothing",
        (c.Transact, *_SETTLING),
        body=TransactionBody,
        check=check_counts,
        query=AnyQuery,
    ),
    Route(
        "GET",
        f"{_API}/messages",
        browsing.list_messages,
        "List messages by status",
        browsing.LISTING,
        query=MessagesQuery,
    ),
    *_message_routes(_MESSAGE),
    *_message_routes(f"{_API}/messages/{{partition_id}}/{{transaction_id}}"),  # of the later generation
    Route(
        "GET",
        f"{_MESSAGE}/related",
        browsing.related,
        "Look at the messages around one",
        browsing.LOOKING,
        query=AnyQuery,
    ),
    Route("GET", f"{_API}/dlq", browsing.dead_letters, "List dead letters", browsing.LETTERS, query=DlqQuery),
    Route(
        "DELETE",
        f"{_API}/queues/{{queue}}/clear",
        configuring.clear,
        "Empty a queue, or one of its partitions",
        configuring.CLEARING,
        query=PartitionQuery,
    ),
    Route(
        "DELETE",
        f"{_API}/resources/queues/{{queue}}",
        configuring.delete,
        "Delete a queue",
        (c.DeleteTopic,),
        query=AnyQuery,
    ),
)

OWN_ROUTES = (  # on the port that we share, these paths are ours
    Route("GET", "/health", health.health, "Whether the server is well", needs_token=False, query=AnyQuery),
    Route("GET", "/metrics", health.metrics, "Figures of the server", (q.GetMetrics,), query=AnyQuery),
)
