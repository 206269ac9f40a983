"""Deciding a publish: which partition, which offset, which instants; or that the message was published before."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from ortoo.model import limits
from ortoo.model.batch import Batch, Outgoing, content_bytes, pick, pick_column
from ortoo.model.commands import Publish
from ortoo.model.errors import FullError, InvalidError, UnavailableError
from ortoo.model.names import GroupId, MessageRef
from ortoo.model.publishers import Publishers, pick_publishers
from ortoo.model.records import Published
from ortoo.model.replies import Placed
from ortoo.model.topic import TopicConfig

from .decision import Decision, Draft
from .dedup import with_keys
from .keys import NO_KEY, key_hashes
from .state import State
from .topic import Topic
from .transaction import Share


def decide_publish(state: State, command: Publish, now: int) -> Decision:
    draft = Draft(state, now)
    topic = draft.topic_for_publishing(command.topic)
    reply = place(draft, topic, command.batch, command.publisher, known=command.known)
    return Decision(draft.records, reply)


def place(
    draft: Draft,
    topic: Topic,
    outgoing: Outgoing,
    publishers: Publishers | None = None,
    *,
    is_checked: bool = False,
    known: dict[int, MessageRef] | None = None,
) -> Placed:
    """Drafts the records that append `outgoing` to the topic. Checked: there is room for it, and it fits. `known`: rows that were
    published elsewhere."""
    hashes = key_hashes(outgoing.keys) if outgoing.keys else None
    firsts = _known(draft, topic, outgoing.dedup_ids, hashes) if outgoing.dedup_ids else {}
    if known:
        firsts |= known
    values_bytes = sum(map(len, outgoing.values))
    if not is_checked:
        check_fits(topic, outgoing, values_bytes)
        check_dues(outgoing, draft.now)
        check_depth(draft.state, topic, len(outgoing) - len(firsts), draft.acked.get(topic.id))
    began = len(draft.records)
    batch = _to_batch(outgoing, topic.config, draft.now)
    rows = _rows_by_partition(topic, outgoing, hashes, firsts)
    keyed = hashes if topic.config.ordering == "key" or topic.latest is not None else None
    if topic.latest is not None and hashes is not None and not is_checked:
        check_keys_fit(topic, hashes)
    if len(rows) == 1 and not firsts:  # as mostly: nothing to be told apart
        [index] = rows
        size = content_bytes(batch.values, batch.keys, batch.headers, values_bytes)
        base = _draft_published(draft, topic, index, batch, size, keyed, publishers)
        placed = Placed(topic.id, [index] * len(batch), range(base, base + len(batch)))
    else:
        placed = _place_apart(draft, topic, batch, rows, firsts, keyed, publishers)
    if not is_checked:
        draft.check_stored(topic.name.namespace, began)
    if outgoing.dedup_ids and topic.config.dedup_scope == "namespace":
        _draft_dedup_ids(draft, topic, outgoing.dedup_ids, placed)
    return placed


def _place_apart(
    draft: Draft,
    topic: Topic,
    batch: Batch,
    rows: dict[int, list[int] | range],
    firsts: dict[int, MessageRef | int],
    keyed: array[int] | None,
    publishers: Publishers | None,
) -> Placed:
    """In several partitions, or without those that were published before."""
    partitions, offsets = [0] * len(batch), [0] * len(batch)
    for index, chosen in rows.items():
        part = pick(batch, chosen)
        size = content_bytes(part.values, part.keys, part.headers)
        hashes = None if keyed is None else array("Q", pick_column(keyed, chosen))
        base = _draft_published(draft, topic, index, part, size, hashes, pick_publishers(publishers, chosen))
        for offset, row in enumerate(chosen, base):
            partitions[row] = index
            offsets[row] = offset
    topics = None
    for row, first in firsts.items():
        if isinstance(first, int):  # an earlier row of this very batch
            partitions[row], offsets[row] = partitions[first], offsets[first]
        else:
            partitions[row], offsets[row] = first.partition, first.offset
            if first.topic != topic.id:
                topics = topics or [topic.id] * len(batch)
                topics[row] = first.topic
    duplicates = [row in firsts for row in range(len(batch))] if firsts else None
    return Placed(topic.id, partitions, offsets, duplicates, topics)


def _draft_published(
    draft: Draft,
    topic: Topic,
    partition: int,
    batch: Batch,
    size: int,
    keyed: array[int] | None,
    publishers: Publishers | None,
) -> int:
    """Returns the first offset."""
    check_healthy(topic, partition)
    base = draft.reserve(topic, partition, len(batch))
    hashes = None if keyed is None else keyed.tobytes()
    draft.records.append(
        Published(draft.now, topic.id, partition, base, len(batch), size, batch, hashes, publishers=publishers)
    )
    return base


def _draft_dedup_ids(draft: Draft, topic: Topic, dedup_ids: list[str | None], placed: Placed) -> None:
    """Another topic of the namespace may be published to in the same decision."""
    for row, dedup_id in enumerate(dedup_ids):
        if dedup_id is not None and not (placed.duplicates and placed.duplicates[row]):
            ref = MessageRef(topic.id, placed.partitions[row], placed.offsets[row])
            draft.dedup_ids[topic.name.namespace, dedup_id] = ref


def check_healthy(topic: Topic, partition: int) -> None:
    quarantine_reason = topic.partitions[partition].quarantine_reason
    if quarantine_reason is not None:
        raise UnavailableError(
            f"partition {partition} of topic {str(topic.name)!r} is quarantined: {quarantine_reason}"
        )


def check_depth(state: State, topic: Topic, new: int, acked: Mapping[GroupId, int] | None = None) -> None:
    """Groups and partitions may be many: they are counted anew only where what was counted last leaves the question open.
    `acked`: what the same decision acks, by group."""
    most = topic.config.max_depth
    if most is None:
        return
    new += state.promised(topic.id)
    if topic.depth_most is None or topic.depth_most + new > most:
        topic.depth_most = topic.depth() + topic.held_back()
        if topic.depth_most + new > most and (not acked or topic.depth(acked) + topic.held_back() + new > most):
            raise FullError(f"topic {str(topic.name)!r} has reached its max_depth of {most}; retry later")


def check_dues(outgoing: Outgoing, now: int) -> None:
    if not outgoing.deliver_ats:
        return
    latest = max((at for at in outgoing.deliver_ats if at is not None), default=0)
    if round(latest * 1000) > now + limits.DELAY_MS_MAX:
        raise InvalidError("deliver_at lies more than ten years ahead; it is in seconds since 1970, not milliseconds")


def check_fits(topic: Topic, outgoing: Outgoing, values_bytes: int) -> None:
    if values_bytes > topic.config.max_message_bytes:  # else none is too large by itself
        _check_largest(topic, max(map(len, outgoing.values)))
    for partition in outgoing.partitions or ():
        if partition is not None:
            _check_partition(topic, partition)
    if outgoing.priorities:
        check_lanes(topic, set(outgoing.priorities))
    if topic.latest is not None and (outgoing.keys is None or None in outgoing.keys):
        raise _needs_key(topic)


def _needs_key(topic: Topic) -> InvalidError:
    return InvalidError(
        f"topic {str(topic.name)!r} keeps the latest message of each key (keep=latest), so each message needs a key"
    )


def check_keys_fit(topic: Topic, hashes: Sequence[int]) -> None:
    """Where the latest message of each key lies is in memory."""
    assert topic.latest is not None
    known, most = topic.latest.places, limits.LATEST_KEYS_MAX
    if len(known) + len(hashes) > most and len(known) + len({key for key in hashes if key not in known}) > most:
        raise FullError(f"topic {str(topic.name)!r} keeps the latest message of each key, and has {most} keys already")


def check_share(state: State, topic: Topic, share: Share) -> None:
    """All that could be refused of what was staged. Whether some of it was published before is not known here."""
    _check_largest(topic, share.largest)
    if share.partition >= 0:
        _check_partition(topic, share.partition)
    check_lanes(topic, share.priorities)
    if topic.latest is not None and share.has_keyless:
        raise _needs_key(topic)
    if topic.latest is not None:
        check_keys_fit(topic, [NO_KEY])
    for partition in topic.partitions if share.is_placed or topic.quarantine_reason is not None else ():
        check_healthy(topic, partition.index)
    check_depth(state, topic, share.count)


def _check_largest(topic: Topic, largest: int) -> None:
    allowed = topic.config.max_message_bytes
    if largest > allowed:
        raise InvalidError(
            f"topic {str(topic.name)!r} takes messages of at most {allowed} bytes, this one has {largest}"
        )


def _check_partition(topic: Topic, partition: int) -> None:
    if not 0 <= partition < len(topic.partitions):
        raise InvalidError(
            f"topic {str(topic.name)!r} has partitions 0 to {len(topic.partitions) - 1}, not {partition}"
        )


def check_lanes(topic: Topic, priorities: set[int]) -> None:
    if not priorities:
        return
    if topic.lanes_known is None or len(topic.lanes_known | priorities) > limits.LANES_MAX:
        topic.lanes_known = set().union(*(partition.lanes for partition in topic.partitions))
        if len(topic.lanes_known | priorities) > limits.LANES_MAX:
            raise InvalidError(
                f"a topic has at most {limits.LANES_MAX} different priorities in use at a time; use fewer, or wait until "
                "retention has removed the messages of others"
            )


def _known(draft: Draft, topic: Topic, ids: list[str | None], hashes: array[int] | None) -> dict[int, MessageRef | int]:
    """Rows that are duplicates, with where the first one lies: a message, or an earlier row."""
    scope = topic.config.dedup_scope
    if scope == "key":
        ids = with_keys(ids, hashes or [NO_KEY] * len(ids))
    is_shared = scope == "namespace"
    if not is_shared and len(set(ids)) == len(ids) and topic.dedup.seen.keys().isdisjoint(ids):
        return {}  # as mostly
    firsts: dict[int, MessageRef | int] = {}
    seen: dict[str, int] = {}
    for row, dedup_id in enumerate(ids):
        if dedup_id is None:
            continue
        known = draft.state.find_dedup_id(topic, dedup_id, draft.now)
        if known is None and is_shared:
            known = draft.dedup_ids.get((topic.name.namespace, dedup_id))
        if known is not None:
            firsts[row] = known
        elif dedup_id in seen:
            firsts[row] = seen[dedup_id]
        else:
            seen[dedup_id] = row
    return firsts


def _dealt_out(topic: Topic, rows: int, spread: int) -> dict[int, list[int] | range]:
    """Rows that may go anywhere. What a large transaction publishes counts as several batches."""
    most, count = limits.BATCH_MESSAGES_MAX, len(topic.partitions)
    if rows <= most or count == 1:
        return {spread: range(rows)}
    dealt: dict[int, list[int]] = {}
    for at in range(0, rows, most):
        place = _next_healthy(topic, (spread + at // most) % count)
        dealt.setdefault(place, []).extend(range(at, min(at + most, rows)))
    return dict(sorted(dealt.items()))


def _rows_by_partition(
    topic: Topic, outgoing: Outgoing, hashes: array[int] | None, firsts: dict[int, MessageRef | int]
) -> dict[int, list[int] | range]:
    """A key decides by its hash; without one, the whole batch goes to one partition and the next batch to the next."""
    count = len(topic.partitions)
    spread = _next_healthy(topic, topic.next_partition % count)
    if not firsts and outgoing.partitions is None and (outgoing.keys is None or count == 1):
        return _dealt_out(topic, len(outgoing), spread)
    keys = hashes if hashes is not None else [0] * len(outgoing)
    if outgoing.partitions is None:
        places = [key % count if key else spread for key in keys]
    else:
        named = zip(outgoing.partitions, keys, strict=True)
        places = [place if place is not None else key % count if key else spread for place, key in named]
    rows: dict[int, list[int] | range] = {place: [] for place in sorted(set(places))}
    add = {place: chosen.append for place, chosen in rows.items() if isinstance(chosen, list)}
    for row, place in enumerate(places):
        add[place](row)
    if not firsts:
        return rows
    fresh = {place: [row for row in chosen if row not in firsts] for place, chosen in rows.items()}
    return {place: chosen for place, chosen in fresh.items() if chosen}


def _next_healthy(topic: Topic, partition: int) -> int:
    """Messages without a key go round a quarantined partition, as long as there is another."""
    count = len(topic.partitions)
    for step in range(count):
        if topic.partitions[(partition + step) % count].quarantine_reason is None:
            return (partition + step) % count
    return partition


def _to_batch(outgoing: Outgoing, config: TopicConfig, now: int) -> Batch:
    dues = _dues(outgoing, config, now)
    return Batch(
        outgoing.values,
        outgoing.keys,
        outgoing.headers,
        outgoing.priorities,
        outgoing.json,
        dues,
        _expiries(outgoing, config, dues, now),
        outgoing.dedup_ids,
    )


def _dues(outgoing: Outgoing, config: TopicConfig, now: int) -> list[int] | None:
    if outgoing.delays is None and outgoing.deliver_ats is None:
        return [now + round(config.delay * 1000)] * len(outgoing) if config.delay else None
    nones: list[float | None] = [None] * len(outgoing)
    standing = config.delay
    dues = []
    for delay, at in zip(outgoing.delays or nones, outgoing.deliver_ats or nones, strict=True):
        if at is not None:
            due = round(at * 1000)
        else:
            due = now + round((standing if delay is None else delay) * 1000)
        dues.append(due if due > now else 0)
    return dues if any(dues) else None


def _expiries(outgoing: Outgoing, config: TopicConfig, dues: list[int] | None, now: int) -> list[int] | None:
    """A time to live counts from the moment the message can first be delivered."""
    if outgoing.ttls is None and config.ttl is None:
        return None
    if outgoing.ttls is None and not dues:  # all the same
        assert config.ttl is not None
        return [now + max(1, round(config.ttl * 1000))] * len(outgoing)
    ttls = outgoing.ttls or [None] * len(outgoing)
    expiries = []
    for row, ttl in enumerate(ttls):
        lives = config.ttl if ttl is None else ttl
        begins = max(now, dues[row]) if dues else now
        expiries.append(begins + max(1, round(lives * 1000)) if lives is not None else 0)
    return expiries
