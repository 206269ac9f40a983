"""Keeps one answer within bounds, however large the messages are: fewer are leased or read than were asked for."""

from __future__ import annotations

from itertools import accumulate

import msgspec

from ortoo.engine.topic import Topic
from ortoo.model import limits
from ortoo.model.commands import Lease, Run
from ortoo.model.records import Happening, encode_records
from ortoo.model.replies import Columns, LeasedRun
from ortoo.model.runs import merge_runs

ROOM = limits.ANSWER_BYTES_MAX
_MARGIN = 4  # how much more than the average the messages asked for may be, before too much is read


def is_large(topic: Topic | None) -> bool:
    """Whether a lease may find more than one answer takes. None: of any topic."""
    return topic is None or sum(log.bytes_held for log in topic.partitions) > ROOM


def bound_lease(topic: Topic | None, command: Lease) -> Lease:
    """Asks for no more than about fits. What is acked as it leaves cannot go back, so there it must fit for certain."""
    if topic is None:
        return command
    if command.auto_ack:
        count = max(1, 2 * ROOM // topic.config.max_message_bytes)
    else:
        mean = sum(log.bytes_held for log in topic.partitions) // max(1, topic.messages()) + 1
        count = max(1, _MARGIN * ROOM // mean)
    return msgspec.structs.replace(command, max_messages=count) if count < command.max_messages else command


def bound_count(topic: Topic, partition: int, count: int) -> int:
    held = topic.partitions[partition].bytes_held
    if held <= ROOM:
        return count
    log = topic.partitions[partition]
    return min(count, max(1, _MARGIN * ROOM * (log.end - log.start) // held))


def fit(columns: Columns, room: int) -> int:
    """How many of the first messages have that many bytes together; one at least."""
    if sum(map(len, columns.values)) <= room:
        return len(columns)
    within = sum(1 for size in accumulate(map(len, columns.values)) if size <= room)
    return max(1, within)


def encode_fitting(records: list[Happening], room: int) -> tuple[int, bytes]:
    """How many of the first records fit, one at least, and those as bytes."""
    count = len(records)
    data = encode_records([*records])
    while len(data) > room and count > 1:
        count = max(1, min(count // 2, count * room // len(data)))
        data = encode_records([*records[:count]])
    return count, data


def cut_columns(columns: Columns, count: int) -> Columns:
    if count == len(columns):
        return columns
    parts = {name: getattr(columns, name) for name in Columns.__struct_fields__}
    return Columns(**{name: column and column[:count] for name, column in parts.items()})


def cut_runs(runs: list[LeasedRun]) -> tuple[list[LeasedRun], list[Run]]:
    """What fits into one answer, and what has to go back."""
    kept: list[LeasedRun] = []
    rest: list[Run] = []
    room = ROOM
    for run in runs:
        taken, columns = run.taken, run.columns
        count = fit(columns, room) if room > 0 or not kept else 0
        if count == len(columns):
            kept.append(run)
        else:
            gone = columns.offsets[count:]
            rest.append(Run(taken.topic_id, taken.group_id, taken.lease, taken.partition, gone))
            if count:
                offsets = taken.offsets[: taken.offsets.index(gone[0])]
                kept.append(LeasedRun(msgspec.structs.replace(taken, offsets=offsets), cut_columns(columns, count)))
            room = 0
        room -= sum(map(len, columns.values))
    return kept, merge_runs(rest)
