"""The quotas of namespaces, as far as they are the engine's: topics, groups and stored bytes.

Dead letters and their topics count like all else, for whoever consumes makes as many as it likes. One that is asked for is
refused beyond a quota. One that becomes due by itself has nobody to tell: its message stays as it is, and is tried again later.
"""

from __future__ import annotations

from collections.abc import Iterable

from ortoo.model.errors import FullError, InvalidError, OrtooError, TooManyError
from ortoo.model.records import Published, Record

from .copies import cost_of
from .soft import Stored
from .state import State
from .topic import Topic


def may_add_topics(state: State, namespace: str, new: int) -> bool:
    quota = state.namespaces.get(namespace)
    return quota is None or quota.topics is None or len(state.topics_in(namespace)) + new <= quota.topics


def check_topics(state: State, namespace: str, new: int) -> None:
    """Whether there may be so many more of them."""
    if may_add_topics(state, namespace, new):
        return
    most = state.namespaces[namespace].topics
    raise _refused(
        state,
        namespace,
        "topics",
        TooManyError(
            f"namespace {namespace!r} may have {most} topics, its quota; delete some, or have the quota raised"
        ),
    )


def check_groups(state: State, namespace: str, new: int) -> None:
    quota = state.namespaces.get(namespace)
    if not new or quota is None or quota.groups is None or count_groups(state, namespace) + new <= quota.groups:
        return
    raise _refused(
        state,
        namespace,
        "groups",
        TooManyError(
            f"namespace {namespace!r} may have {quota.groups} groups in all its topics, its quota; delete some, or have the "
            "quota raised"
        ),
    )


def count_groups(state: State, namespace: str) -> int:
    return sum(len(topic.groups) for topic in state.topics_in(namespace))


def published_bytes(records: Iterable[Record]) -> int:
    return sum(record.size for record in records if type(record) is Published)


def check_stored(state: State, namespace: str, new: int) -> None:
    room = room_bytes(state, namespace, new)
    if room is None or new <= room:
        return
    most = state.namespaces[namespace].stored_bytes or 0
    if new > most:
        raise _refused(
            state,
            namespace,
            "stored_bytes",
            InvalidError(f"namespace {namespace!r} may store {most} bytes, its quota; this has {new} by itself"),
        )
    raise _refused(
        state,
        namespace,
        "stored_bytes",
        FullError(
            f"namespace {namespace!r} may store {most} bytes, its quota, and has no room for {new} more; settle messages of "
            "topics whose retention removes what is done, purge or delete topics, or have the quota raised"
        ),
    )


def room_bytes(state: State, namespace: str, wanted: int) -> int | None:
    """What it may still store, or at least so much as is wanted; None: as much as it likes.

    Topics and partitions may be many: their bytes are counted anew only where what was counted last leaves the question open,
    and something was removed since.
    """
    quota = state.namespaces.get(namespace)
    if quota is None or quota.stored_bytes is None:
        return None
    most, stored = quota.stored_bytes - state.staged.of(namespace), state.soft.stored.get(namespace)
    if stored is None or (stored.most + wanted > most and not stored.is_exact):
        stored = state.soft.stored[namespace] = Stored(count_stored(state, namespace))
    return max(0, most - stored.most)


def likely_bytes(state: State, topic: Topic, record: Published) -> int:
    """Of copies whose values are on their way, where a quota has to know before they are here."""
    if not record.origins or record.size or topic.name.namespace not in state.soft.stored:
        return 0
    origin = state.topics[record.origins[0].message.topic]
    messages = [(one.message, one.error) for one in record.origins]  # all of one topic
    return cost_of(origin, [(origin.partitions[at.partition], at.offset, error) for at, error in messages]).likely


def is_full(state: State, namespace: str) -> bool:
    """Whether it certainly has no room for a single byte, without counting."""
    quota, stored = state.namespaces.get(namespace), state.soft.stored.get(namespace)
    if quota is None or quota.stored_bytes is None or stored is None:
        return False
    return stored.is_exact and stored.most + state.staged.of(namespace) >= quota.stored_bytes


def _refused(state: State, namespace: str, quota: str, error: OrtooError) -> OrtooError:
    state.soft.refusals[namespace, quota] += 1
    return error


def count_stored(state: State, namespace: str) -> int:
    """All bytes in the logs of its topics. What transactions have staged for them comes to that."""
    partitions = [partition for topic in state.topics_in(namespace) for partition in topic.partitions]
    stored = sum(partition.bytes_held for partition in partitions)
    stored += sum(sum(partition.unsized.values()) for partition in partitions if partition.unsized)
    return stored


def note_stored(state: State, namespace: str, size: int) -> None:
    """More was stored."""
    stored = state.soft.stored.get(namespace)
    if stored is not None:
        stored.most += size


def note_freed(state: State, namespace: str) -> None:
    """Less may be stored."""
    stored = state.soft.stored.get(namespace)
    if stored is not None:
        stored.is_exact = False
