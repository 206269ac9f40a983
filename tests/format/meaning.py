"""What a snapshot says, without what merely looking at a queue changes: how far a group has looked, where a wheel stands."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from ortoo.engine.dumps import FeedDump, PartitionDump, WheelDump, peek
from ortoo.model.offsets import OffsetSet


def meaning(snapshot: bytes) -> dict[str, Any]:
    state = peek(snapshot)
    topics = [
        {
            **_fields(topic),
            "partitions": [_partition(partition) for partition in topic.partitions],
            "groups": [
                {
                    **_fields(group),
                    "feeds": [_feed(*both) for both in zip(group.feeds, topic.partitions, strict=True)],
                    "settled": [bytes(lease) for lease in group.settled],
                }
                for group in topic.groups
            ],
        }
        for topic in state.topics
    ]
    return {**_fields(state), "topics": topics}


def _fields(dump: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(dump, name) for name in dump.__struct_fields__}


def _wheel(wheel: WheelDump) -> list[tuple[int, int]]:
    pairs = array("q", wheel.pairs)
    return sorted(zip(pairs[::2], pairs[1::2], strict=True))


def _partition(dump: PartitionDump) -> dict[str, Any]:
    return {**_fields(dump), "delays": _wheel(dump.delays), "expiries": _wheel(dump.expiries)}


def _feed(dump: FeedDump, partition: PartitionDump) -> dict[str, Any]:
    """With what is done in the place of what was looked at, in its turn or before it."""
    done = OffsetSet.span(partition.start, max(dump.cursor, partition.start))
    if dump.ahead is not None:
        done.update(OffsetSet.from_bytes(dump.ahead))
    for gone in (partition.expired, partition.evicted, partition.deleted, dump.dead, dump.open):
        done.subtract(OffsetSet.from_bytes(gone))
    for offset in partition.private:
        done.discard(offset)
    kept = {name: value for name, value in _fields(dump).items() if name not in ("cursor", "open", "ahead")}
    return {**kept, "done": list(done)}
