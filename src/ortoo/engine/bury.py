"""Giving a message up for a group: a dead letter, or nothing but a count."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from ortoo.model.batch import Batch
from ortoo.model.errors import UnavailableError
from ortoo.model.names import MessageRef
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import DeadLettered, DeathReason, Dropped, Origin, Published

from .decision import Slate
from .group import Group
from .topic import Topic


class Death(NamedTuple):
    group: Group
    partition: int
    offset: int
    reason: DeathReason
    attempts: int
    error: str | None


def bury(slate: Slate, topic: Topic, deaths: list[Death], *, refuse: bool = False) -> bool:
    """Drafts the end of these messages, all of one topic.

    Where their dead-letter topic is quarantined, those that want a copy stay as they are, and the answer is False; or with
    `refuse` nothing is done.
    """
    deaths.sort(key=lambda death: (death.group.id, death.reason, death.error or "", death.partition, death.offset))
    kept = topic.config.dlq and not slate.state.is_dlq(topic.name)  # a dead-letter topic never dead-letters further
    copied = [death for death in deaths if kept and _wants_copy(topic, death)]
    dropped = deaths if not copied else [death for death in deaths if not _wants_copy(topic, death)]
    for group, partition, reason, error, offsets in _together(dropped):
        slate.records.append(Dropped(slate.now, topic.id, group.id, partition, OffsetSet(offsets), reason, error))
    if not copied:
        return True
    if (trouble := _trouble(slate, topic)) is None:
        _copy(slate, topic, copied)
    elif refuse:
        raise UnavailableError(f"the dead-letter topic {str(topic.dlq_name())!r} is quarantined: {trouble}")
    return trouble is None


def _trouble(slate: Slate, topic: Topic) -> str | None:
    dlq = slate.find_topic(topic.dlq_name())
    return dlq.partitions[0].trouble if dlq is not None else None


def _wants_copy(topic: Topic, death: Death) -> bool:
    return topic.config.on_expire == "dlq" or death.reason not in ("ttl", "max_wait")


def _copy(slate: Slate, topic: Topic, deaths: list[Death]) -> None:
    name = topic.dlq_name()
    dlq = slate.find_topic(name) or slate.create_dlq(name, topic)
    copy = MessageRef(dlq.id, 0, slate.reserve(dlq, 0, len(deaths)))
    origins = [
        Origin(MessageRef(topic.id, d.partition, d.offset), d.group.name, d.reason, d.attempts, d.error) for d in deaths
    ]
    blank = Batch([b""] * len(deaths))
    slate.records.append(Published(slate.now, dlq.id, 0, copy.offset, len(deaths), 0, blank, origins=origins))
    for group, partition, reason, error, offsets in _together(deaths):
        buried = OffsetSet(offsets)
        slate.records.append(DeadLettered(slate.now, topic.id, group.id, partition, buried, reason, copy, error))
        copy = copy._replace(offset=copy.offset + len(offsets))


def _together(deaths: list[Death]) -> Iterable[tuple[Group, int, DeathReason, str | None, list[int]]]:
    for _, same in groupby(deaths, key=lambda death: (death.group.id, death.reason, death.error, death.partition)):
        run = list(same)
        first = run[0]
        yield first.group, first.partition, first.reason, first.error, [death.offset for death in run]
