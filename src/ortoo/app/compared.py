"""Two stores compared: whether one has all that the other has, and nothing else.

State is compared as its snapshot tells it, field by field; messages and history by what is read of both. How many bytes a store
counts at which instant, and which dedup ids it looks up in its log, are its own affair.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec

from ortoo.engine.dedup import Known
from ortoo.engine.dumps import FeedDump, GroupDump, PartitionDump, StateDump, TopicDump, WheelDump, peek
from ortoo.engine.leases import LeaseDump
from ortoo.engine.partition import Partition
from ortoo.engine.snapshot import Snapshot
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns, filter_columns
from ortoo.ports import Contents

from .republished import how_many

DIFFERENCES_MAX = 100
HISTORY_TOGETHER = 2_000
_ABOUT = 100  # the part by which bytes may differ: stores round them where messages were deleted
_OF_THE_STORE = {"bytes_total", "bytes_gone", "bytes_cut", "trimmed_at", "partitions", "groups", "topics"}
_OF_THE_STORE |= {"dedup_ids", "dedup_forgotten", "dedup_ends"}  # what counts of them is compared by itself
_SETS = {"delayed", "expired", "evicted", "deleted", "empties", "open", "dead", "retrying", "due_early", "ahead"}
Fact = tuple[str, object]


async def compare(
    source: Contents, state: State, target: Contents, other: State, progress: Callable[[str], None]
) -> AsyncIterator[str]:
    """What is not the same, in words; no more than can be read."""
    told = 0
    async for difference in _compare(source, state, target, other, progress):
        yield difference
        told += 1
        if told == DIFFERENCES_MAX:
            yield "and more"
            return


async def _compare(
    source: Contents, state: State, target: Contents, other: State, progress: Callable[[str], None]
) -> AsyncIterator[str]:
    for difference in differences(dict(facts(state)), dict(facts(other))):
        yield difference
    for topic in state.topics.values():
        if topic.id not in other.topics:
            continue  # told already
        for partition, beside in zip(topic.partitions, other.topics[topic.id].partitions, strict=False):
            where = f"partition {partition.index} of topic {str(topic.name)!r}"
            progress(f"comparing {where}")
            if abs(partition.bytes_held - beside.bytes_held) > partition.bytes_held / _ABOUT:
                yield f"{where}: they count {beside.bytes_held} bytes, not {partition.bytes_held}"
            if what := await _messages_differ(source, target, topic, partition, beside):
                yield f"{where}: {what}"
            if what := await _history_differs(source, target, topic, partition):
                yield f"{where}: {what}"
    for name in state.transactions:
        if await _staged_differs(source, target, *name):
            yield f"transaction {'/'.join(name)}: what was staged is not the same"


def differences(found: dict[str, object], other: dict[str, object]) -> Iterator[str]:
    for what, value in found.items():
        if what not in other:
            yield f"{what} is missing"
        elif other[what] != value:
            yield f"{what} is {_shown(other[what])}, not {_shown(value)}"
    for what in other.keys() - found.keys():
        yield f"{what} is there, and was not"


def _shown(value: object) -> str:
    text = f"{len(value)} offsets" if isinstance(value, OffsetSet) and len(value) > 5 else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- the state


def facts(state: State) -> Iterator[Fact]:
    """Everything that the state says, by name."""
    dump = peek(Snapshot(state).finish())
    yield from _fields("the queue", _sorted(dump))
    for topic in dump.topics:
        where = f"topic {topic.namespace}/{topic.name}"
        yield from _fields(where, topic)
        for index, partition in enumerate(topic.partitions):
            yield from _partition(f"{where}, partition {index}", partition)
        for group in topic.groups:
            yield from _group(f"{where}, group {group.name}", group)
        yield f"{where}: dedup ids", _dedup_ids(state.topics, topic, state.now)


def _sorted(dump: StateDump) -> StateDump:
    """The order in which they came tells nothing."""
    return msgspec.structs.replace(
        dump,
        transactions=sorted(dump.transactions),
        ended=sorted(dump.ended),
        producers=sorted(dump.producers, key=lambda one: one[0]),
        commits=sorted(dump.commits, key=lambda one: (one.namespace, one.name)),
        namespaces=sorted(dump.namespaces, key=lambda one: one[0]),
    )


def _fields(where: str, dump: Any) -> Iterator[Fact]:
    for name in dump.__struct_fields__:
        if name not in _OF_THE_STORE:
            yield f"{where}: {name}", _plain(name, getattr(dump, name))


def _plain(name: str, value: Any) -> object:
    if isinstance(value, WheelDump):
        return sorted(_rows(value.pairs, 2))
    if name in _SETS:
        return OffsetSet.from_bytes(value) if value is not None else OffsetSet()
    if name == "lanes":
        return {lane: OffsetSet.from_bytes(offsets) for lane, offsets in value.items()}
    return msgspec.to_builtins(value)


def _rows(data: bytes, width: int) -> list[tuple[int, ...]]:
    numbers = array("q", data)
    return [tuple(numbers[at : at + width]) for at in range(0, len(numbers), width)]


def _partition(where: str, dump: PartitionDump) -> Iterator[Fact]:
    yield from _fields(where, dump)


def _group(where: str, dump: GroupDump) -> Iterator[Fact]:
    for name in ("id", "ephemeral", "paused"):
        yield f"{where}: {name}", getattr(dump, name)
    for index, feed in enumerate(dump.feeds):
        yield from _feed(f"{where}, partition {index}", feed)
    for lease in dump.leases:
        yield f"{where}: lease {lease.id}", _lease(lease)
    yield f"{where}: settled leases", sorted(bytes(one) for one in dump.settled)


def _feed(where: str, dump: FeedDump) -> Iterator[Fact]:
    yield from _fields(where, msgspec.structs.replace(dump, failures=b""))
    yield f"{where}: failures", sorted(_rows(dump.failures, 4))


def _lease(dump: LeaseDump) -> object:
    return msgspec.to_builtins(dump)


def _dedup_ids(topics: Any, dump: TopicDump, now: int) -> dict[str, Known]:
    """Those that count."""
    topic: Topic = topics[dump.id]
    since = max(now - round(topic.config.dedup_window * 1000), topic.dedup.outdated)
    return {name: known for name, known in topic.dedup.seen.items() if known[0] > since}


# -- what is stored


async def _messages_differ(
    source: Contents, target: Contents, topic: Topic, partition: Partition, other: Partition
) -> str | None:
    at = partition.start
    while at < partition.end:
        count = how_many(partition, at)
        until = min(at + count, partition.end)
        found = [
            filter_columns(await store.scan(topic.id, partition.index, at, until - at), partition.deleted)
            for store in (source, target)
        ]
        rows, others = ({row[0]: row for row in _messages(columns)} for columns in found)
        for offset, row in rows.items():
            if others.get(offset) != row:
                return f"message {offset} is {'not the same' if offset in others else 'missing'}"
        if len(others) > len(rows):
            return f"message {min(others.keys() - rows.keys())} is there, and was not"
        if partition.keys.span(at, until) != other.keys.span(at, until) and not partition.deleted:
            return f"hashes of keys from message {at} on are not the same"
        at = until
    return None


def _messages(columns: Columns) -> Iterator[tuple[Any, ...]]:
    if not len(columns):
        return
    publishers = columns.publishers
    empty = [None] * len(columns)
    yield from zip(
        columns.offsets,
        columns.timestamps,
        columns.values,
        columns.keys or empty,
        [one or None for one in columns.headers or empty],
        columns.priorities or empty,
        columns.json or [False] * len(columns),
        columns.dedup_ids or empty,
        publishers if isinstance(publishers, list) else [publishers] * len(columns),
        strict=True,
    )


async def _history_differs(source: Contents, target: Contents, topic: Topic, partition: Partition) -> str | None:
    at = 0
    while True:
        found, other = [
            await store.read_history(topic.id, partition.index, at, HISTORY_TOGETHER) for store in (source, target)
        ]
        if found.end != other.end or found.first != other.first:
            return f"history goes from {other.first} to {other.end}, not from {found.first} to {found.end}"
        if found.start != other.start or found.records != other.records:
            return f"history from record {found.start} on is not the same"
        if not found.records:
            return None
        at = found.start + len(found.records)


async def _staged_differs(source: Contents, target: Contents, namespace: str, name: str) -> bool:
    at = 0
    while True:
        found, other = [await store.staged(namespace, name, at, 1) for store in (source, target)]
        count = min(len(found), len(other))
        if found[:count] != other[:count] or (count == 0 and len(found) != len(other)):
            return True
        if count == 0:
            return False
        at += count
