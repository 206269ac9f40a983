"""Keeps one answer within bounds, however large the messages are: fewer are leased or read than were asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from ortoo.engine.partition import Partition
from ortoo.engine.topic import Topic
from ortoo.model import limits
from ortoo.model.batch import MESSAGE_OVERHEAD_BYTES, content_bytes, message_sizes
from ortoo.model.commands import Lease, Run
from ortoo.model.history import encode_record, join_encoded
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import HistoryRecord
from ortoo.model.replies import Columns, LeasedRun, Taken

from .turns import Turns

ROOM = limits.ANSWER_BYTES_MAX
_LOOKED_THROUGH = 1 << 16  # offsets at first, among which messages are looked for
_MARGIN = 4  # how much more than the average the messages asked for may be, before too much is read

_LIST_BYTES = 5  # how a list begins, at most
_UNIT_BYTES = 1_000  # of a record, that take as long to write as a short one


def bound_lease(topic: Topic | None, command: Lease) -> Lease:
    """Asks for no more than about fits, so that little has to go back."""
    if topic is None or command.max_messages * topic.config.max_message_bytes <= ROOM:
        return command
    held, messages = topic.average_bytes()
    if held <= ROOM:
        return command
    count = max(1, _MARGIN * ROOM * messages // held)
    return msgspec.structs.replace(command, max_messages=count) if count < command.max_messages else command


def bound_count(topic: Topic, partition: int, count: int) -> int:
    log = topic.partitions[partition]
    held = log.bytes_held
    messages = log.end - log.start - len(log.deleted)
    return count if held <= ROOM else min(count, max(1, _MARGIN * ROOM * messages // held))


def left_of(log: Partition, start: int, count: int, end: int) -> tuple[Sequence[int], int]:
    """So many offsets in [start, end) whose messages are there, and where to go on behind them. What was superseded may be very
    much more than what is left."""
    if not log.deleted:
        upto = min(start + count, end)
        return range(start, upto), upto
    found, at, width = OffsetSet(), start, max(count, _LOOKED_THROUGH)
    while at < end and len(found) < count:
        upto = min(at + width, end)
        more = OffsetSet.span(at, upto) - log.deleted
        found.update(more.take(count - len(found)))
        at, width = upto, 2 * width
    return found.to_sequence(), found.last() + 1 if len(found) == count else end


def fit(columns: Columns, room: int) -> tuple[int, int]:
    """How many of the first messages fit, one at least, and the bytes that an answer with them takes: with everything it
    holds."""
    contents = (columns.values, columns.keys, columns.headers)
    overhead = MESSAGE_OVERHEAD_BYTES
    if isinstance(columns.publishers, list):  # a name that they share goes out once
        overhead += limits.NAME_BYTES_MAX
    total = content_bytes(*contents) + overhead * len(columns)
    if total <= room:
        return len(columns), total
    ends = list(accumulate(size + overhead for size in message_sizes(*contents)))
    count = max(1, bisect_right(ends, room))
    return count, ends[count - 1]


class Portion:
    """One answer to a lease, as it is read run by run. What does not fit is not read, or has to go back: `rest`."""

    def __init__(self) -> None:
        self.runs: list[LeasedRun] = []
        self.rest: list[Run] = []
        self._room = ROOM

    def wanted(self, topic: Topic | None, taken: Taken) -> Sequence[int]:
        """What of a run to read."""
        if self.runs and self._room <= 0:
            return []
        count = len(taken.offsets) if topic is None else bound_count(topic, taken.partition, len(taken.offsets))
        return taken.offsets[:count]

    def add(self, taken: Taken, read: Sequence[int], columns: Columns) -> None:
        """`read` is what was asked for; what could not be read is missing in `columns`, and stays with its lease."""
        count, size = fit(columns, self._room) if columns.offsets else (0, 0)
        if self.runs and size > self._room:  # only the very first message may be too large by itself
            count, size = 0, 0
        kept = taken.offsets.index(columns.offsets[count]) if count < len(columns) else len(read)
        if kept < len(taken.offsets):
            ids = (taken.topic_id, taken.group_id, taken.lease, taken.partition)
            self.rest.append(Run(*ids, taken.offsets[kept:]))
            taken = msgspec.structs.replace(taken, offsets=taken.offsets[:kept])
        if kept:
            self._room -= size
            self.runs.append(LeasedRun(taken, columns.part(0, count)))


async def encode_fitting(records: list[HistoryRecord], room: int, turns: Turns) -> tuple[int, bytes]:
    """How many of the first records fit, one at least, and those as bytes. Each may be large, and there may be thousands."""
    found: list[bytes] = []
    room -= _LIST_BYTES
    for record in records:
        data = encode_record(record)
        room -= len(data)
        if found and room < 0:
            break
        found.append(data)
        await turns.worked(1 + len(data) // _UNIT_BYTES)
    return len(found), join_encoded(found)
