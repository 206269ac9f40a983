"""Looking into deliveries: why a message waits, who holds what, how a log lies before a group. And the routes to it."""

from __future__ import annotations

from functools import partial

import msgspec

from ortoo.model import queries as q
from ortoo.model.inspection import ConsumerInfo, DelayedCounts, Explanation, LeasesFound, LocksFound, Strip

from .call import Call
from .inspect_shapes import DelayedQuery, ExplainQuery, LeasesQuery, LocksQuery, StripQuery
from .paging import PageQuery, page
from .routing import Route


async def explain(call: Call) -> Explanation:
    query: ExplainQuery = call.query
    return await call.queue.explain(call.params["id"], query.group)


async def leases(call: Call) -> LeasesFound:
    query: LeasesQuery = call.query
    return await call.link.ask(q.ListLeases(call.topic, call.params["group"], query.limit, query.next))


async def locks(call: Call) -> LocksFound:
    query: LocksQuery = call.query
    return await call.link.ask(q.ListLocks(call.topic, call.params["group"], query.limit))


class ConsumerList(msgspec.Struct):
    """By name."""

    consumers: list[ConsumerInfo]
    next: str | None


async def consumers(call: Call) -> ConsumerList:
    found = await call.link.ask(q.ListConsumers(call.topic, call.params["group"]))
    return ConsumerList(*page(found.consumers, lambda info: (info.name,), call.query))


async def strip(call: Call) -> Strip:
    query: StripQuery = call.query
    return await call.link.ask(q.GetStrip(call.topic, query.group, query.width, query.partition))


async def delayed(call: Call) -> DelayedCounts:
    query: DelayedQuery = call.query
    return await call.link.ask(q.GetDelayed(call.topic, query.start, query.until, query.buckets))


_get = partial(Route, "GET")
_TOPIC = "/v1/topics/{topic}"
_GROUP = f"{_TOPIC}/groups/{{group}}"

INSPECTION = [
    _get(
        "/v1/messages/{id}/explain",
        explain,
        "Tell why a group gets a message, or does not, and what can be done about it",
        does=(q.ExplainMessage,),
        query=ExplainQuery,
        answer=Explanation,
    ),
    _get(
        f"{_GROUP}/leases",
        leases,
        "List what is leased, and by whom, the oldest first",
        does=(q.ListLeases,),
        query=LeasesQuery,
        answer=LeasesFound,
    ),
    _get(
        f"{_GROUP}/locks",
        locks,
        "List the keys and partitions that a message holds; those that most others wait for first",
        does=(q.ListLocks,),
        query=LocksQuery,
        answer=LocksFound,
    ),
    _get(
        f"{_GROUP}/consumers",
        consumers,
        "List who consumes a group, and what they hold",
        does=(q.ListConsumers,),
        query=PageQuery,
        answer=ConsumerList,
    ),
    _get(
        f"{_TOPIC}/strip",
        strip,
        "Count the messages of each stretch of a log by their state in a group",
        does=(q.GetStrip,),
        query=StripQuery,
        answer=Strip,
    ),
    _get(
        f"{_TOPIC}/delayed",
        delayed,
        "Count delayed messages by when they come due",
        does=(q.GetDelayed,),
        query=DelayedQuery,
        answer=DelayedCounts,
    ),
]
