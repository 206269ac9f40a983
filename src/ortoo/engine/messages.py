"""Deciding about single messages: delete, retry now, move to the dead letters, redrive from there."""

from __future__ import annotations

from itertools import islice

from ortoo.model import limits
from ortoo.model.batch import Batch
from ortoo.model.commands import END, DeadLetter, DeleteMessage, Redrive, RetryNow
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import MessageRef
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Deleted, Hastened, Origin, Published, Redriven

from .bury import Death, bury
from .copies import check_fitting
from .decision import Decision, Draft
from .group import Group
from .keys import key_hashes
from .lease import draft_group
from .quotas import check_groups
from .settle import Held, in_line, put_back
from .state import State
from .topic import Topic


def decide_delete_message(state: State, command: DeleteMessage, now: int) -> Decision:
    ref = command.message
    state.message(ref)
    return Decision([Deleted(now, ref.topic, ref.partition, OffsetSet([ref.offset]))], ref)


def _groups(state: State, topic: Topic, name: str | None) -> list[Group]:
    """That one, or all: of very many only the first. The broker has the command decided for the others one by one."""
    return (
        [state.group(topic, name)] if name is not None else list(islice(topic.groups.values(), limits.GROUPS_AT_ONCE))
    )


def other_groups(topic: Topic) -> list[str]:
    """Those that a command for all groups was not decided for."""
    return [group.name for group in islice(topic.groups.values(), limits.GROUPS_AT_ONCE, None)]


def not_pending(ref: MessageRef) -> InvalidError:
    return InvalidError(f"message {ref} is pending in no group, so there is nothing to move to the dead letters")


def decide_retry_now(state: State, command: RetryNow, now: int) -> Decision:
    """Whatever the message waits for, for each group it becomes deliverable at once; a done one is delivered once more."""
    ref = command.message
    topic, partition = state.message(ref)
    owner = partition.private.get(ref.offset)
    groups = [group for group in _groups(state, topic, command.group) if owner in (None, group.id)]
    draft = Draft(state, now)
    for group in groups:
        _revoke_later(draft, topic, group, ref)
        draft.records.append(Hastened(now, ref.topic, group.id, ref.partition, OffsetSet([ref.offset])))
    return Decision(draft.records, len(groups))


def _revoke_later(draft: Draft, topic: Topic, group: Group, ref: MessageRef) -> None:
    """A leased message goes back in line, so the later ones of its key in the same lease must too."""
    feed = group.feeds.look(ref.partition)
    if ref.offset not in feed.leased:
        return
    one = OffsetSet([ref.offset])
    found = group.holders.find(ref.partition, one)
    lease = next(lease for lease in found if ref.offset in lease.held.get(ref.partition, ()))
    later = in_line(Held(topic, group, lease, feed, one)).later
    bury(draft, topic, put_back(draft, Held(topic, group, lease, feed, later), "revoked"))


def decide_dead_letter(state: State, command: DeadLetter, now: int) -> Decision:
    ref = command.message
    topic, _ = state.message(ref)
    one = OffsetSet([ref.offset])
    deaths = []
    for group in _groups(state, topic, command.group):
        feed = group.feeds.look(ref.partition)
        if feed.unsettled(one):
            past = feed.failures.get(ref.offset)
            deaths.append(Death(group, ref.partition, ref.offset, "moved", past.attempts if past else 0, command.error))
    if not deaths:
        if command.group is None and len(topic.groups) > limits.GROUPS_AT_ONCE:  # others may have it
            return Decision([], 0)
        raise not_pending(ref)
    draft = Draft(state, now)
    bury(draft, topic, deaths, refuse=True)
    return Decision(draft.records, len(deaths))


def decide_redrive(state: State, command: Redrive, now: int) -> Decision:
    copy, origin = command.copy, command.origin
    dlq, _ = state.message(copy)
    topic = state.topics.get(origin.topic)
    if topic is None or origin.partition >= len(topic.partitions):
        raise NotFoundError(
            f"the topic that dead letter {copy} came from was deleted; publish its value again if needed"
        )
    draft = Draft(state, now)
    group = topic.group_names.get(command.group)
    if group is None:  # deleted since: it begins anew at the end, with just this message
        check_groups(state, topic.name.namespace, 1)
        group = draft_group(draft, topic, command.group, END)
    draft.records.append(Deleted(now, dlq.id, copy.partition, OffsetSet([copy.offset])))
    partition = topic.partitions[origin.partition]
    if origin.offset >= partition.settled_end:  # headers can say anything
        raise NotFoundError(f"there never was a message {origin}, which dead letter {copy} names as its origin")
    if origin.offset >= partition.start and origin.offset not in partition.deleted:
        one = OffsetSet([origin.offset])
        draft.records.append(Redriven(now, topic.id, group.id, origin.partition, one))
        return Decision(draft.records, origin)
    cost = check_fitting(draft.copy_room, dlq, [(dlq.partitions[copy.partition], copy.offset, None)])
    draft.check_copies(topic.name.namespace, cost.likely)
    draft.copy(topic.name.namespace, cost)
    ref = MessageRef(topic.id, origin.partition, draft.reserve(topic, origin.partition, 1))
    source = Origin(copy, command.group, "redriven", 0, None)
    hashes = key_hashes([command.key]).tobytes() if command.key is not None and topic.config.ordering == "key" else None
    draft.records.append(
        Published(now, topic.id, *ref[1:], 1, 0, Batch([b""]), hashes, origins=[source], only_group=group.id)
    )
    return Decision(draft.records, ref)
