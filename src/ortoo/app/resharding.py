"""A queue moved to another number of stores: every topic to the shard in which it will be looked for.

Topics stay what they are: their ids, offsets, groups, leases and attempts; so ids of messages, receipts, archives and Spark's
checkpoints stay good. Numbers that are given later are higher than all that were, so no two topics get the same. What a store
keeps for the whole queue (which transactions have ended, what producers were answered, quotas) is told to each of the new ones.

Refused, before anything is written: open transactions, which are one in several stores; topics whose dead letters would go to
another shard, or lie there; and where stores are joined, leases that have the same number in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_hex

from ortoo.broker.shards.identity import Identity, check_alone, check_place, check_set, shard_created
from ortoo.engine.producers import Producer
from ortoo.engine.replay import apply
from ortoo.engine.state import State
from ortoo.engine.told import join_stored
from ortoo.model.access import SHARD_NAMESPACE
from ortoo.model.errors import ConfigError, UnavailableError
from ortoo.model.names import LeaseId, TopicId, TopicName
from ortoo.model.records import Staged
from ortoo.model.replies import Columns
from ortoo.model.shards import SHARDS_MAX, first_id_after, shard_of
from ortoo.ports import Contents, Source, StoredHistory

from .migrate import Keys, Migration, Progress, fold, identities, open_source, open_target
from .stores import place_of, shown_store
from .stranded import refuse_stranded
from .targets import Mark, Moved, Targets, named

_NAMED_MAX = 5


async def move_shards(
    sources: Sequence[str],
    targets: Sequence[str],
    keys: Keys = None,
    target_keys: Keys = None,
    *,
    verify: bool = True,
    spill: Path | None = None,
    progress: Progress = lambda _: None,
) -> Moved:
    """`sources`: all stores of a queue, in their order; `targets`: new ones. `target_keys`: where they are not the same.
    `spill`: the folder in which commits of databases may wait."""
    _check_names(sources, targets)
    new_keys = keys if target_keys is None else target_keys
    async with AsyncExitStack() as opened:
        new = [open_target(where, new_keys) for where in targets]
        for target in new:
            opened.push_async_callback(target.close)
        places = Targets(new, targets)
        await places.look()
        old = list[Source]()
        for where in sources:
            old.append(open_source(where, keys, spill))
            opened.push_async_callback(old[-1].close)
        states = [(await fold(source, progress)).state for source in old]
        _check_set(states, [shown_store(where) for where in sources])
        source = named(states)
        if (done := await places.finish_earlier(source, await identities(targets, places.taken, new_keys))) is not None:
            return done
        contents = _Together(
            {topic: source for source, state in zip(old, states, strict=True) for topic in state.topics}
        )
        queue = token_hex(8)
        parts = divide(states, len(targets), queue)
        places.refuse_secrets(parts)
        progress("looking for dead letters")
        await refuse_stranded(contents, states, len(targets))
        moved = Moved(differences=[], problems=[problem for source in old for problem in source.problems])
        for part, target, where in zip(parts, new, targets, strict=True):
            found = await Migration(contents, target, progress).run(part, verify)
            _add(moved, found, shown_store(where))
        moved.topics -= len(new) if len(new) > 1 else 0  # those that tell which shard a store is
        if not moved.differences:
            await places.release(Mark(queue, source, moved))
        return moved


def _check_names(sources: Sequence[str], targets: Sequence[str]) -> None:
    if not sources or not targets:
        raise ConfigError("name the stores to move from (--from) and those to move to (--to)")
    if len(targets) > SHARDS_MAX:
        raise ConfigError(f"a queue has 1 to {SHARDS_MAX} shards, not {len(targets)}")
    named = set[str]()
    for where in (*sources, *targets):
        if (place := place_of(where)) in named:
            raise ConfigError(
                f"{shown_store(where)} is named twice; topics are copied to new stores, and the old ones stay as they are"
            )
        named.add(place)


def _check_set(states: list[State], stores: list[str]) -> None:
    if len(states) == 1:
        check_alone(states[0])
        return
    found = [check_place(state, shard, len(states), stores[shard]) for shard, state in enumerate(states)]
    if None in found:
        raise ConfigError(f"{stores[found.index(None)]} is empty, and is no shard of a queue")
    check_set(found, stores)


def _add(moved: Moved, found: Moved, store: str) -> None:
    for name in ("topics", "groups", "messages", "leases", "history"):
        setattr(moved, name, getattr(moved, name) + getattr(found, name))
    moved.verified = found.verified
    moved.differences += [f"{store}: {difference}" for difference in found.differences]


class _Together(Contents):
    """What several stores have, of which each has its own topics."""

    def __init__(self, sources: dict[TopicId, Source]) -> None:
        self._sources = sources

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        return await self._sources[topic].scan(topic, partition, start, count)

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory:
        if topic not in self._sources:  # the topic that tells which shard a store is: it is new
            return StoredHistory([], start, 0, 0)
        return await self._sources[topic].read_history(topic, partition, start, count)

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[Staged]:
        return []


# -- the state


def divide(states: Sequence[State], shards: int, queue: str) -> list[State]:
    """What each of so many stores has afterwards. `queue`: a name for the set."""
    for state in states:
        _refuse_transactions(state)
    parts = [_rest_of(states) for _ in range(shards)]
    _tell_answers(states, parts)
    for state in states:
        for topic in state.topics.values():
            if topic.name.namespace != SHARD_NAMESPACE:
                _refuse_split(topic.name, topic.dlq_name() if topic.config.dlq else topic.name, shards)
                parts[shard_of(topic.name, shards)].add_topic(topic)
    for part in parts:
        _refuse_leases(part)
    if shards > 1:
        _tell_identity(parts, queue)
    return parts


def _tell_identity(parts: list[State], queue: str) -> None:
    for shard, part in enumerate(parts):
        number = first_id_after(part.number, shard)
        apply(part, shard_created(Identity(shard, len(parts), queue, is_complete=shard == 0), part.now, number))


def _rest_of(states: Sequence[State]) -> State:
    """All but the topics."""
    part = State()
    part.now, part.epoch = max(state.now for state in states), max(state.epoch for state in states)
    part.number = max(state.number for state in states)
    ended = sorted((*found, name) for state in states for name, found in state.ended.items())
    for at, is_committed, name in ended:
        if name not in part.ended or not is_committed:  # what one store gave up was not committed as a whole
            part.ended[name] = (at, is_committed)
    for state in states:
        part.namespaces.update(state.namespaces)
    return part


def _tell_answers(states: Sequence[State], parts: Sequence[State]) -> None:
    """What producers were answered: each store may be asked again. Who was heard of last is kept if there are too many."""
    last = dict[str, int]()
    for state in states:
        for who, one in state.producers.items():
            last[who] = max(one.at, last.get(who, 0))
    nobody = Producer()
    for who in sorted(last, key=lambda name: (last[name], name)):
        same = [state.producers.get(who, nobody) for state in states]
        new = [Producer() for _ in parts]
        for producer in new:
            producer.at, producer.done_below = last[who], max(one.done_below for one in same)
        for number in sorted({number for one in same for number in one.answers}):
            first, other = join_stored([one.answers.get(number) for one in same])
            for producer, answer in zip(new, (first, *[other] * (len(new) - 1)), strict=True):
                if answer is not None:
                    producer.answers[number] = answer
        for part, producer in zip(parts, new, strict=True):
            part.producers[who] = producer
            part.producers.make_room(who, max(producer.answers, default=0))


def _refuse_transactions(state: State) -> None:
    if state.transactions:
        names = [name for _, name in list(state.transactions)[:_NAMED_MAX]]
        raise UnavailableError(
            f"there are {len(state.transactions)} open transactions ({', '.join(names)}): start the queue once more, commit or "
            "abort them, or wait until they time out; nothing was moved"
        )


def _refuse_split(topic: TopicName, dlq: TopicName, shards: int) -> None:
    if shard_of(topic, shards) != shard_of(dlq, shards):
        raise ConfigError(
            f"the dead letters of topic {str(topic)!r} go to {dlq.name!r}, which would lie in another of {shards} shards; start "
            "the queue once more, redrive or delete those that are there, and set another dlq_topic (by default it lies beside "
            "its topic); nothing was moved"
        )


def _refuse_leases(part: State) -> None:
    seen = dict[LeaseId, str]()
    for topic in part.topics.values():
        for group in topic.groups.values():
            for lease in group.leases:
                if lease in seen:
                    raise UnavailableError(
                        f"consumers of {seen[lease]!r} and of {str(topic.name)!r} hold messages under leases of the same number, "
                        "and both topics come into one store: start the queue once more, let consumers finish or their leases "
                        "run out, and stop it; nothing was moved"
                    )
                seen[lease] = str(topic.name)
