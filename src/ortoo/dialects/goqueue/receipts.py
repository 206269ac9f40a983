"""Receipt handles: TOPIC:PARTITION:OFFSET:ATTEMPT:LEASE, where LEASE is what our own receipts begin with.

Nothing is kept for them here: a handle works on every connection, and after a restart.
"""

from __future__ import annotations

import msgspec

from ortoo.model.commands import Run
from ortoo.model.errors import InvalidError
from ortoo.model.names import GroupId, LeaseId, TopicId
from ortoo.model.replies import Taken
from ortoo.model.runs import merge_runs

_DIGITS_MAX = 18

Place = tuple[tuple[int, int, int], int, int]  # topic, group and lease; partition; offset


class Handle(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    attempt: int
    lease: tuple[int, int, int]  # topic, group and lease in numbers

    @property
    def place(self) -> Place:
        return self.lease, self.partition, self.offset


def to_handles(taken: Taken, attempts: list[int], offsets: list[int]) -> list[str]:
    """Of what one lease took from one partition."""
    head = f"{taken.topic.name}:{taken.partition}:"
    tail = f":{taken.topic_id}.{taken.group_id}.{taken.lease}"
    if attempts.count(1) == len(attempts):
        return [f"{head}{offset}:1{tail}" for offset in offsets]
    return [f"{head}{offset}:{attempt}{tail}" for offset, attempt in zip(offsets, attempts, strict=True)]


def parse(text: str) -> Handle:
    topic, *rest = text.rsplit(":", 4)
    if len(rest) == 4 and topic:
        numbers = [*rest[:3], *rest[3].split(".")]
        if len(numbers) == 6 and all(map(_is_number, numbers)):
            partition, offset, attempt, topic_id, group_id, lease = map(int, numbers)
            return Handle(topic, partition, offset, attempt, (topic_id, group_id, lease))
    raise InvalidError("invalid receipt handle format; send receipt_handle as poll gave it")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def to_runs(handles: list[Handle]) -> list[Run]:
    offsets: dict[tuple[tuple[int, int, int], int], list[int]] = {}
    for handle in handles:
        offsets.setdefault((handle.lease, handle.partition), []).append(handle.offset)
    return merge_runs(
        Run(TopicId(topic), GroupId(group), LeaseId(lease), partition, some)
        for ((topic, group, lease), partition), some in offsets.items()
    )


def gather(texts: list[str]) -> list[Run] | None:
    """What these handles name, without looking at each more than needs be; None when one of them is no handle."""
    known: dict[tuple[str, str, str], list[int]] = {}
    for text in texts:
        parts = text.rsplit(":", 4)
        if len(parts) != 5:
            return None
        topic, partition, offset, attempt, lease = parts
        if not (offset.isdigit() and offset.isascii() and len(offset) <= _DIGITS_MAX):
            return None
        if (offsets := known.get((partition, attempt, lease))) is None:
            handle = _try_parse(text)
            if handle is None:
                return None
            known[partition, attempt, lease] = [handle.offset]
        else:
            offsets.append(int(offset))
        if not topic:
            return None
    runs = []
    for (partition, _, lease), offsets in known.items():
        numbers = map(int, lease.split("."))
        runs.append(Run(*_ids(*numbers), int(partition), offsets))
    return merge_runs(runs)


def _ids(topic: int, group: int, lease: int) -> tuple[TopicId, GroupId, LeaseId]:
    return TopicId(topic), GroupId(group), LeaseId(lease)


def _try_parse(text: str) -> Handle | None:
    try:
        return parse(text)
    except InvalidError:
        return None
