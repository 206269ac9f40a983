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

from .copies import (
    PLENTY,
    QUOTA_SHORT_MS,
    STORE_SHORT_MS,
    CopyRoom,
    Cost,
    Fitting,
    Original,
    check_fitting,
    cost_of,
    fit,
)
from .decision import Draft
from .group import Group
from .partition import Partition
from .topic import Topic


class Death(NamedTuple):
    group: Group
    partition: int
    offset: int
    reason: DeathReason
    attempts: int
    error: str | None


def bury(
    draft: Draft, topic: Topic, deaths: list[Death], *, refuse: bool = False, has_room: bool = False
) -> int | None:
    """Drafts the end of these messages, all of one topic; returns None.

    Where their dead-letter topic is not available, or there is no room for all copies, on the disk or in the quota of their
    namespace, those that want one stay as they are, and the answer is in how many ms to try again; or with `refuse` nothing is
    done. `has_room`: that was asked already.
    """
    deaths.sort(key=lambda death: (death.group.id, death.reason, death.error or "", death.partition, death.offset))
    kept = _keeps_dead(draft, topic)
    copied = [death for death in deaths if kept and _wants_copy(topic, death)]
    dropped = deaths if not copied else [death for death in deaths if not _wants_copy(topic, death)]
    for group, partition, reason, error, offsets in _together(dropped):
        draft.records.append(Dropped(draft.now, topic.id, group.id, partition, OffsetSet(offsets), reason, error))
    if not copied:
        return None
    originals = [(topic.partitions[death.partition], death.offset, death.error) for death in copied]
    if refuse:
        fitting = Fitting(len(copied), _check_all(draft, topic, originals), None)
    elif has_room:
        fitting = Fitting(len(copied), cost_of(topic, originals), None)
    elif (again_ms := _when_available(draft, topic)) is not None:
        return again_ms
    else:
        fitting = _fit(draft, draft.copy_room, topic, originals)
    if fitting.copied:
        _copy(draft, topic, copied[: fitting.copied])
        draft.copy(topic.name.namespace, fitting.cost)
    return fitting.again_ms


def _check_all(draft: Draft, topic: Topic, originals: list[Original]) -> Cost:
    """For one who asked for the dead letters."""
    name = topic.dlq_name()
    if (reason := _why_unavailable(draft, topic)) is not None:
        raise UnavailableError(f"the dead-letter topic {str(name)!r} is not available: {reason}")
    if draft.find_topic(name) is None:
        draft.check_dlq(name)
    cost = check_fitting(draft.copy_room, topic, originals)
    draft.check_copies(name.namespace, cost.likely)
    return cost


def _when_available(draft: Draft, topic: Topic) -> int | None:
    """In how many ms to ask again for the dead-letter topic; None when it is there, or can be made."""
    if _why_unavailable(draft, topic) is not None:
        return STORE_SHORT_MS
    name = topic.dlq_name()
    return None if draft.find_topic(name) is not None or draft.may_create_dlq(name) else QUOTA_SHORT_MS


def _fit(draft: Draft, room: CopyRoom, topic: Topic, originals: list[Original], groups: int = 1) -> Fitting:
    """Within the quota, too. Each of them is copied for so many groups."""
    namespace = topic.name.namespace
    if namespace not in draft.state.namespaces:
        return fit(room, topic, originals)
    quota = draft.room_for_copies(namespace, groups * cost_of(topic, originals).likely)
    return fit(room, topic, originals, PLENTY if quota is None else quota // groups)


def how_many_expire(draft: Draft, topic: Topic, partition: Partition, offsets: list[int]) -> tuple[int, int | None]:
    """How many of the first of these may expire for all groups now, and in how many ms to try the others."""
    if topic.config.on_expire != "dlq" or not _keeps_dead(draft, topic) or not topic.groups:
        return len(offsets), None
    if (again_ms := _when_available(draft, topic)) is not None:
        return 0, again_ms
    groups = len(topic.groups)
    room = draft.copy_room.share(groups)
    fitting = _fit(draft, room, topic, [(partition, offset, None) for offset in offsets], groups)
    return fitting.copied, fitting.again_ms


def _keeps_dead(draft: Draft, topic: Topic) -> bool:
    """A dead-letter topic never dead-letters further."""
    return topic.config.dlq and not draft.state.is_dlq(topic.name)


def _why_unavailable(draft: Draft, topic: Topic) -> str | None:
    """Why the dead-letter topic takes nothing, if so."""
    name = topic.dlq_name()
    dlq = draft.find_topic(name)
    if dlq is not None:
        return dlq.partitions[0].quarantine_reason
    if not draft.copy_room.can_encrypt and draft.needs_encrypted_dlq(name, topic):
        return "it has to be encrypted, and there is no key"
    return None


def _wants_copy(topic: Topic, death: Death) -> bool:
    if death.reason == "superseded":
        return False
    return topic.config.on_expire == "dlq" or death.reason not in ("ttl", "max_wait")


def _copy(draft: Draft, topic: Topic, deaths: list[Death]) -> None:
    name = topic.dlq_name()
    dlq = draft.find_topic(name) or draft.create_dlq(name, topic)
    copy = MessageRef(dlq.id, 0, draft.reserve(dlq, 0, len(deaths)))
    origins = [
        Origin(MessageRef(topic.id, d.partition, d.offset), d.group.name, d.reason, d.attempts, d.error) for d in deaths
    ]
    blank = Batch([b""] * len(deaths))
    draft.records.append(Published(draft.now, dlq.id, 0, copy.offset, len(deaths), 0, blank, origins=origins))
    for group, partition, reason, error, offsets in _together(deaths):
        buried = OffsetSet(offsets)
        draft.records.append(DeadLettered(draft.now, topic.id, group.id, partition, buried, reason, copy, error))
        copy = copy._replace(offset=copy.offset + len(offsets))


def _together(deaths: list[Death]) -> Iterable[tuple[Group, int, DeathReason, str | None, list[int]]]:
    for _, same in groupby(deaths, key=lambda death: (death.group.id, death.reason, death.error, death.partition)):
        run = list(same)
        first = run[0]
        yield first.group, first.partition, first.reason, first.error, [death.offset for death in run]
