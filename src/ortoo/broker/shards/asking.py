"""Queries, by the shards that they are about: one of a topic or a message is that shard's; what is about all is asked of all that
are open, and put together. What a server tells of itself, the first one knows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from operator import add
from typing import Any

import msgspec

from ortoo.broker.broker import Broker
from ortoo.broker.overview import in_order
from ortoo.broker.view import View
from ortoo.model import limits
from ortoo.model import metrics as m
from ortoo.model import queries as q
from ortoo.model.browsing import TopicsFound
from ortoo.model.histogram import sum_histograms
from ortoo.model.keys import KeysInfo
from ortoo.model.latency import slowest
from ortoo.model.live import Activity, Overview, SamplerCost, TopicRow, Totals
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.replies import Counters, NamespaceInfo, Stats, TopicInfo
from ortoo.model.series import Series
from ortoo.model.shards import ShardInfo, shard_of

from .brokers import ShardBrokers

_OF_MESSAGE = (q.GetMessage, q.GetTrace, q.ExplainMessage)
_FROM_FIRST = (q.GetMe, q.GetSettings, q.ListPipelines)
_LARGEST = ("oldest_pending_seconds",)


async def ask(shards: ShardBrokers, query: Any, view: View | None) -> Any:
    kind, count = type(query), len(shards.brokers)
    if (together := _TOGETHER.get(kind)) is not None:
        return await together(shards, query, view)
    if kind in _FROM_FIRST:
        return await shards.at(0).ask(query, view)
    if kind in _OF_MESSAGE:
        return await shards.of_id(query.message.topic).ask(query, view)
    if kind is q.GetSeries and query.topic is None:
        return await _series(shards, query, view)
    if kind is q.FindMessages:
        return await _find(shards, query, view)
    return await shards.at(shard_of(query.topic, count)).ask(query, view)


async def _all(shards: ShardBrokers, query: Any, view: View | None, brokers: list[Broker] | None = None) -> list[Any]:
    """A shard that is away has nothing to tell; that it is, the problems tell."""
    return await asyncio.gather(*(broker.ask(query, view) for broker in brokers or shards.taking()))


async def _topics(shards: ShardBrokers, query: q.ListTopics, view: View | None) -> list[TopicInfo]:
    found = [info for infos in await _all(shards, query, view) for info in infos]
    return sorted(found, key=lambda info: (info.namespace, info.name))


async def _browse_topics(shards: ShardBrokers, query: q.BrowseTopics, view: View | None) -> TopicsFound:
    """Of the first ones of each shard, those before the place where the first of their pages ends."""
    pages: list[TopicsFound] = await _all(shards, query, view)
    ends = [page.next for page in pages if page.next is not None]
    found = sorted((info for page in pages for info in page.topics), key=lambda info: (info.namespace, info.name))
    known = [info for info in found if not ends or (info.namespace, info.name) <= min(ends)]
    shown = known[: query.count]
    is_all = not ends and len(shown) == len(found)
    return TopicsFound(shown, None if is_all else TopicName(shown[-1].namespace, shown[-1].name))


async def _namespaces(shards: ShardBrokers, query: q.ListNamespaces, view: View | None) -> list[NamespaceInfo]:
    found: dict[str, NamespaceInfo] = {}
    for info in (info for infos in await _all(shards, query, view) for info in infos):
        same = found.get(info.name)
        if same is not None:
            counted = {
                name: getattr(same, name) + getattr(info, name) for name in ("topics", "groups", "messages", "bytes")
            }
            info = msgspec.structs.replace(same, **counted)  # noqa: PLW2901
        found[info.name] = info
    return sorted(found.values(), key=lambda info: info.name)


async def _stats(shards: ShardBrokers, query: q.GetStats, view: View | None) -> Stats:
    found: list[Stats] = await _all(shards, query, view)
    counters = Counters()
    for one in found:
        counters.add(one.counters)
    summed = {
        name: sum(getattr(one, name) for one in found) for name in ("topics", "groups", "depth", "leases", "waiters")
    }
    return Stats(
        **summed,
        transactions=max(one.transactions for one in found),  # each is known to all
        epoch=max(one.epoch for one in found),
        counters=counters,
        problems=shards.problems() if view is None else [],
    )


# -- live


async def _overview(shards: ShardBrokers, query: q.GetOverview, view: View | None) -> Overview:
    """Each shard tells its first ones; of those together, the ones that were asked for."""
    wanted = query.offset + query.limit
    first = msgspec.structs.replace(query, offset=0, limit=min(max(query.limit, wanted), limits.OVERVIEW_TOPICS_MAX))
    checked = query if query.offset < 0 or query.limit < 1 or query.limit > limits.OVERVIEW_TOPICS_MAX else first
    brokers = shards.taking()
    found: list[Overview] = await _all(shards, checked, view, brokers)
    rows = [row for one in found for row in one.topics]
    if wanted > limits.OVERVIEW_TOPICS_MAX:
        for broker, one in zip(brokers, found, strict=True):
            rows += await _rest(broker.ask, first, view, one.matching)
    page = in_order(rows, query.sort)[query.offset : wanted]
    needs = sorted((need for one in found for need in one.needs), key=lambda need: need.severity != "error")
    return Overview(
        max(one.timestamp for one in found),
        _sum_totals([one.totals for one in found]),
        page,
        sum(one.matching for one in found),
        needs[: limits.OVERVIEW_NEEDS_MAX],
        _sum_costs([one.sampler for one in found]),
        next((one.memory for one in found), None),  # of the one process
    )


async def _rest(
    ask_shard: Callable[[Any, View | None], Awaitable[Any]], first: q.GetOverview, view: View | None, matching: int
) -> list[TopicRow]:
    rows = list[TopicRow]()
    for offset in range(first.limit, matching, limits.OVERVIEW_TOPICS_MAX):
        page = msgspec.structs.replace(first, offset=offset, limit=limits.OVERVIEW_TOPICS_MAX)
        rows += (await ask_shard(page, view)).topics
    return rows


def _sum_totals(found: list[Totals]) -> Totals:
    latencies = {
        "delivery_latency": slowest(one.delivery_latency for one in found),
        "ack_latency": slowest(one.ack_latency for one in found),
    }
    counts = [name for name in Totals.__struct_fields__ if name not in latencies]
    summed: dict[str, Any] = {name: sum(getattr(one, name) for one in found) for name in counts}
    for name in ("incoming", "out", "acked", "failed", "dead_lettered"):
        summed[name] = round(summed[name], 1)
    return Totals(**summed | latencies | {"oldest_seconds": max(one.oldest_seconds for one in found)})


def _sum_costs(found: list[SamplerCost]) -> SamplerCost:
    summed = {name: sum(getattr(one, name) for one in found) for name in SamplerCost.__struct_fields__}
    return SamplerCost(**summed | {"longest_turn": max(one.longest_turn for one in found)})


async def _activity(shards: ShardBrokers, query: q.GetActivity, view: View | None) -> Activity:
    events = [event for one in await _all(shards, query, view) for event in one.events]
    return Activity(sorted(events, key=lambda event: -event.timestamp)[: query.limit])


async def _series(shards: ShardBrokers, query: q.GetSeries, view: View | None) -> Series:
    """All sample the same seconds; one that began later knows nothing of those before."""
    found: list[Series] = await _all(shards, query, view)
    timestamps = max((one.timestamps for one in found), key=len)
    places = {timestamp: place for place, timestamp in enumerate(timestamps)}
    figures = {name: [0] * len(timestamps) for one in found for name in one.figures}
    for one in found:
        for name, values in one.figures.items():
            put = max if name in _LARGEST else add
            column = figures[name]
            for timestamp, value in zip(one.timestamps, values, strict=True):
                if (place := places.get(timestamp)) is not None:
                    column[place] = put(column[place], value)
    return Series(
        query.resolution, timestamps, figures, sum(one.topics for one in found), sum(one.left_out for one in found)
    )


# -- messages and keys


async def _find(shards: ShardBrokers, query: q.FindMessages, view: View | None) -> list[MessageRef | None]:
    if query.topic is not None:
        return await shards.of(TopicName(query.namespace, query.topic)).ask(query, view)
    found: list[MessageRef | None] = [None] * len(query.ids)
    for one in await _all(shards, query, view):
        found = [known or new for known, new in zip(found, one, strict=True)]
    return found


async def _keys(shards: ShardBrokers, query: q.GetKeys, view: View | None) -> KeysInfo:
    found: list[KeysInfo] = await _all(shards, query, view)
    if not query.with_uses:
        return found[0]
    uses = [use for one in found for use in one.uses or ()]
    return msgspec.structs.replace(found[0], uses=uses)


# -- metrics


async def _metrics(shards: ShardBrokers, query: q.GetMetrics, view: View | None) -> m.MetricFigures:
    """Answered also by shards that take nothing. Doors, quotas and MQTT are the first one's to tell. The answers are shared with
    others who ask, so nothing in them is changed."""
    found: list[m.MetricFigures] = await asyncio.gather(*(broker.ask(query, view) for broker in shards.brokers))
    brokers = [one.broker for one in found if one.broker is not None]
    stores = {number: one.store for number, one in enumerate(found) if one.store is not None}
    return msgspec.structs.replace(
        found[0],
        topics=_sum_topics([topic for one in found for topic in one.topics]),
        deliveries=[told for one in found for told in one.deliveries],
        latencies=[told for one in found for told in one.latencies],
        groups=[told for one in found for told in one.groups],
        other_groups=_sum_groups([one.other_groups for one in found if one.other_groups is not None]),
        broker=_sum_brokers(brokers, len(shards.problems())) if brokers else None,
        store=_sum_stores(stores) if stores else None,
    )


def _sum_topics(topics: list[m.TopicFigures]) -> list[m.TopicFigures]:
    """Each shard has its share of the series; what the others of all shards sum up to is one."""
    rest = [topic for topic in topics if topic.name == m.OTHER_TOPICS]
    if not rest:
        return topics
    others = m.TopicFigures(m.OTHER_TOPICS, dead_lettered={}, dropped={})
    for topic in rest:
        others.add(topic)
    return [*(topic for topic in topics if topic.name != m.OTHER_TOPICS), others]


def _sum_groups(found: list[m.GroupFigures]) -> m.GroupFigures | None:
    if not found:
        return None
    total = m.GroupFigures()
    for one in found:
        total.add(one)
    return total


def _sum_brokers(found: list[m.BrokerFigures], problems: int) -> m.BrokerFigures:
    counters = Counters()
    for one in found:
        counters.add(one.counters)
    summed = ("topics", "groups", "waiters", "recoveries", "sampler_seconds", "overview_seconds")
    return msgspec.structs.replace(
        found[0],
        **{name: sum(getattr(one, name) for one in found) for name in summed},
        is_ready=any(one.is_ready for one in found),
        epoch=max(one.epoch for one in found),
        transactions=max(one.transactions for one in found),
        problems=problems,
        sampler_longest_turn_seconds=max(one.sampler_longest_turn_seconds for one in found),
        counters=counters,
        commit_seconds=sum_histograms([one.commit_seconds for one in found]),
        commit_records=sum_histograms([one.commit_records for one in found]),
    )


def _sum_stores(stores: dict[int, m.StoreFigures]) -> m.StoreFigures:
    """By the number of the shard."""
    found = list(stores.values())
    free = [one.free_bytes for one in found if one.free_bytes is not None]
    return msgspec.structs.replace(
        found[0],
        sync_seconds=sum_histograms([one.sync_seconds for one in found]),
        checkpoint_seconds=sum_histograms([one.checkpoint_seconds for one in found]),
        wal_bytes=sum(one.wal_bytes for one in found),
        segment_bytes=sum(one.segment_bytes for one in found),
        free_bytes=min(free, default=None),
        shards={str(number): health for number, one in stores.items() for health in one.shards.values()},
    )


# -- shards


async def _shards(shards: ShardBrokers, query: q.ListShards, view: View | None) -> list[ShardInfo]:
    found = list[ShardInfo]()
    for number, (broker, store) in enumerate(zip(shards.brokers, shards.stores, strict=True)):
        if broker.refusal is None:
            [info] = await broker.ask(query, view)
            found.append(msgspec.structs.replace(info, shard=number, store=store))
        else:
            found.append(ShardInfo(number, store, False, 0, 0, 0, 0, [shards.why_not(number)]))
    return found


_TOGETHER: dict[type, Callable[[ShardBrokers, Any, View | None], Awaitable[Any]]] = {
    q.ListTopics: _topics,
    q.BrowseTopics: _browse_topics,
    q.ListNamespaces: _namespaces,
    q.GetStats: _stats,
    q.GetOverview: _overview,
    q.GetActivity: _activity,
    q.GetKeys: _keys,
    q.GetMetrics: _metrics,
    q.ListShards: _shards,
}
