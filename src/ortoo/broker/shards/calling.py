"""Commands, by the shards that they are about.

one     named by a topic, or by the id of a message: that shard decides
split   settling what was leased from several topics: each shard is told of its own
all     named transactions, namespaces, keys, consumers that leave: told to one after the other
none    what must happen together in several shards is refused; names with the same {tag} lie in one
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from ortoo.broker.broker import Broker
from ortoo.model import commands as c
from ortoo.model.access import SHARD_NAMESPACE
from ortoo.model.commands import AnyCommand, Once, Run, Transact, unwrap
from ortoo.model.errors import ForbiddenError, InvalidError, NotFoundError, OrtooError, OutcomeUnknownError
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.replies import IdState, Placed, Settled
from ortoo.model.shards import shard_of

from .brokers import ShardBrokers

_TOGETHER = (
    "; give topics that change together names with the same part in braces, such as {shop}orders and {shop}invoices"
)


def shard_for(shards: ShardBrokers, command: AnyCommand) -> int:
    """That decides it; the first, where several do."""
    wanted, count = _plain(command), len(shards.brokers)
    topic = getattr(wanted, "topic", None)
    if isinstance(topic, TopicName):
        return shard_of(topic, count)
    if isinstance(wanted, c.Lease | c.SettleById | c.ExtendById) and wanted.topic is not None:
        return shard_of(TopicName(wanted.namespace, wanted.topic), count)
    if isinstance(wanted, c.DeleteMessage | c.RetryNow | c.DeadLetter):
        return shards.shard_of_id(wanted.message.topic)
    if isinstance(wanted, c.Redrive):
        return shards.shard_of_id(wanted.copy.topic)
    if isinstance(wanted, c.Stage):
        return shard_of(wanted.publish.topic, count)
    if isinstance(wanted, Transact):
        return next(iter(_shards_of(shards, wanted)), 0)
    if isinstance(wanted, c.Settle | c.Extend) and wanted.runs:
        return shards.shard_of_id(wanted.runs[0].topic)
    return 0


async def call(shards: ShardBrokers, command: AnyCommand) -> Any:
    refuse_own(getattr(_plain(command), "topic", None))
    special = _SPECIAL.get(type(_plain(command)))
    if special is not None:
        return await special(shards, command)
    return await shards.at(shard_for(shards, command)).call(command)


def refuse_own(topic: Any) -> None:
    """What tells which shard a store is must not be changed."""
    if isinstance(topic, TopicName) and topic.namespace == SHARD_NAMESPACE:
        raise ForbiddenError(f"topics of {SHARD_NAMESPACE!r} tell what shard a store is, and are the queue's own")


def _plain(command: AnyCommand) -> Any:
    return unwrap(command)  # type: ignore[arg-type]  # what the engine does not decide is as it is


def _with(command: AnyCommand, part: Any) -> Any:
    """The part of it that is one shard's. A producer's number counts in each shard by itself."""
    return msgspec.structs.replace(command, command=part) if type(command) is Once else part


async def _each(shards: ShardBrokers, parts: Mapping[int, Any]) -> dict[int, Any]:
    """Each shard is told its part; then what went wrong in one is told. Which shards can be told is known before the first is."""
    errors = dict[int, OrtooError]()
    brokers = dict[int, Broker]()
    for shard in parts:
        try:
            brokers[shard] = shards.at(shard)
        except OrtooError as error:
            errors[shard] = error
    told = await asyncio.gather(
        *(broker.call(parts[shard]) for shard, broker in brokers.items()), return_exceptions=True
    )
    answers = dict(zip(brokers, told, strict=True))
    for shard, answer in answers.items():
        if isinstance(answer, OrtooError):
            errors[shard] = answer
        elif isinstance(answer, BaseException):
            raise answer
    if errors:
        raise errors[min(errors)]
    return answers


# -- topics


async def _set_topic(shards: ShardBrokers, command: Any) -> Any:
    """Dead letters lie beside their topic; dedup ids are known to the shard that has the topic."""
    wanted = _plain(command)
    settings = msgspec.structs.asdict(wanted.config) if isinstance(wanted, c.CreateTopic) else wanted.changes
    count, dlq = len(shards.brokers), settings.get("dlq_topic")
    shard = shard_of(wanted.topic, count)
    if isinstance(dlq, str) and shard_of(TopicName(wanted.topic.namespace, dlq), count) != shard:
        raise InvalidError(f"dlq_topic {dlq!r} would lie in another shard than {str(wanted.topic)!r}{_TOGETHER}")
    if settings.get("dedup_scope") == "namespace" and not shards.shares_dedup:
        raise InvalidError(
            "dedup_scope 'namespace' needs a Redis that all shards share, for the topics of a namespace lie in several; "
            "start the server with --redis URL, or use dedup_scope 'topic'"
        )
    return await shards.at(shard).call(command)


# -- settling


async def _settle_runs(shards: ShardBrokers, command: Any) -> Any:
    wanted = _plain(command)
    places = [shards.shard_of_id(run.topic) for run in wanted.runs]
    if len(set(places)) <= 1:
        return await shards.at(places[0] if places else 0).call(command)
    parts = {}
    for shard in dict.fromkeys(places):
        own = [run for run, place in zip(wanted.runs, places, strict=True) if place == shard]
        parts[shard] = _with(command, msgspec.structs.replace(wanted, runs=own))
    answers: dict[int, Settled] = await _each(shards, parts)
    return Settled(_woven(places, answers, "lost"), _woven(places, answers, "revoked"))


def _woven(places: list[int], answers: dict[int, Settled], name: str) -> list[list[int]] | None:
    """What each shard told of its runs, in the order of all."""
    if all(getattr(answer, name) is None for answer in answers.values()):
        return None
    rests = {shard: iter(getattr(answer, name) or ()) for shard, answer in answers.items()}
    return [next(rests[place], []) for place in places]


async def _settle_ids(shards: ShardBrokers, command: Any) -> list[IdState]:
    """Where a message lies tells its shard; a dedup id of no topic is looked for in one after the other."""
    wanted = _plain(command)
    count, states = len(shards.brokers), list[IdState](["unknown"] * len(wanted.ids))
    named = range(count) if wanted.topic is None else [shard_of(TopicName(wanted.namespace, wanted.topic), count)]
    lie = [(shards.shard_of_id(id.topic),) if isinstance(id, MessageRef) else named for id in wanted.ids]
    brokers = {shard: _taking(shards, shard) for shard in sorted({shard for one in lie for shard in one})}
    for shard, broker in brokers.items():
        own = [place for place, one in enumerate(lie) if shard in one and (len(one) == 1 or states[place] == "unknown")]
        if own:
            part = msgspec.structs.replace(wanted, ids=[wanted.ids[place] for place in own])
            for place, state in zip(own, await broker.call(_with(command, part)), strict=True):
                states[place] = state
    return states


async def _redrive(shards: ShardBrokers, command: Any) -> Any:
    """From the shard that has the dead letter, which is that of its topic: only what has moved, or was made up, is in another."""
    wanted = _plain(command)
    shard, home = shards.shard_of_id(wanted.copy.topic), shards.shard_of_id(wanted.origin.topic)
    if home != shard:
        topic = _taking(shards, home).engine.state.topics.get(wanted.origin.topic)
        if topic is not None:
            raise InvalidError(
                f"dead letter {wanted.copy} lies in another shard than its topic {str(topic.name)!r}, and cannot be redriven; "
                "publish its value again, and delete it"
            )
    return await shards.at(shard).call(command)


# -- transactions


def _shards_of(shards: ShardBrokers, command: Transact) -> dict[int, None]:
    count = len(shards.brokers)
    found = dict.fromkeys(shards.shard_of_id(run.topic) for run in command.acks)
    return found | dict.fromkeys(shard_of(publish.topic, count) for publish in command.publishes)


async def _transact(shards: ShardBrokers, command: Any) -> Any:
    wanted = _plain(command)
    places = list(_shards_of(shards, wanted))
    for shard in places if len(places) > 1 else ():  # what was done when they lay in one is still answered
        if shards.at(shard).engine.has_answer(command):
            return await shards.at(shard).call(command)
    if len(places) > 1:
        names = _names(shards, wanted)
        raise InvalidError(f"a transaction cannot span shards, and {names} lie in different ones{_TOGETHER}")
    return await shards.at(places[0] if places else 0).call(command)


def _names(shards: ShardBrokers, command: Transact) -> str:
    """One topic of each shard."""
    found, count = dict[int, str](), len(shards.brokers)
    for publish in command.publishes:
        found.setdefault(shard_of(publish.topic, count), repr(str(publish.topic)))
    for run in command.acks:
        topic = shards.topic_by_id(run.topic)
        found.setdefault(shards.shard_of_id(run.topic), "a message" if topic is None else repr(str(topic.name)))
    return " and ".join(list(found.values())[:3])


async def transact_in_parts(shards: ShardBrokers, command: Transact) -> list[Placed]:
    """What any shard refuses is refused before anything is written. When a shard fails after that, nobody knows what is."""
    count = len(shards.brokers)
    acked: dict[int, list[Run]] = {}
    for run in command.acks:
        acked.setdefault(shards.shard_of_id(run.topic), []).append(run)
    places = [shard_of(publish.topic, count) for publish in command.publishes]
    parts = {
        shard: Transact(
            acked.get(shard, []), [one for one, place in zip(command.publishes, places, strict=True) if place == shard]
        )
        for shard in _shards_of(shards, command)
    }
    if len(parts) > 1:
        for shard, part in parts.items():
            broker = _taking(shards, shard)
            broker.engine.decide(part, broker.now())
    try:
        answers = await _each(shards, parts)
    except OrtooError as error:
        if len(parts) == 1 or isinstance(error, OutcomeUnknownError):
            raise
        raise OutcomeUnknownError(f"some shards may have stored their part, and one has not: {error}") from error
    rests = {shard: iter(answer) for shard, answer in answers.items()}
    return [next(rests[place]) for place in places]


async def _commit(shards: ShardBrokers, command: Any) -> int:
    """Shard by shard, each all or nothing, begun in all of them in one turn once none refuses. When it is interrupted, to commit
    again does the rest."""
    brokers = [shards.at(shard) for shard in range(len(shards.brokers))]
    wanted = _plain(command)
    name = (wanted.namespace, wanted.transaction)
    ended = [broker.state.ended.get(name) for broker in brokers]
    is_lost = [
        not one[1] if one is not None else name not in broker.state.transactions
        for one, broker in zip(ended, brokers, strict=True)
    ]
    if any(is_lost) and not all(is_lost):
        raise NotFoundError(
            f"transaction {wanted.transaction!r} is not open any more in some shards: it took too long, or was aborted; "
            "begin another one"
        )
    for broker in brokers:
        broker.engine.decide(command, broker.now())
    return sum((await _each(shards, dict.fromkeys(range(len(brokers)), command))).values())


async def _tell_all(shards: ShardBrokers, command: Any) -> Any:
    """One after the other, if all take something; the first answer stands for all."""
    brokers = [_taking(shards, shard) for shard in range(len(shards.brokers))]
    return await _first_of((broker, command) for broker in brokers)


def _taking(shards: ShardBrokers, shard: int) -> Broker:
    broker = shards.at(shard)
    broker.state  # noqa: B018  # OrtooError while nothing is taken
    return broker


async def _tell_open(shards: ShardBrokers, command: Any) -> Any:
    """Those that are away have nobody to see off."""
    open_ones = [
        shard for shard, broker in enumerate(shards.brokers) if broker.refusal is None and shard not in shards.away
    ]
    await _each(shards, dict.fromkeys(open_ones, command))


async def _delete_namespace(shards: ShardBrokers, command: Any) -> Any:
    """Where there are topics first, for there it is refused."""
    namespace = _plain(command).namespace
    brokers = [_taking(shards, shard) for shard in range(len(shards.brokers))]
    unused = sorted(brokers, key=lambda broker: not broker.state.topics_in(namespace))
    return await _first_of((broker, command) for broker in unused)


async def _leave(shards: ShardBrokers, command: Any) -> Any:
    wanted = _plain(command)
    return await (shards.of(wanted.topic).call(command) if wanted.topic is not None else _tell_open(shards, command))


async def _reencrypt(shards: ShardBrokers, command: Any) -> Any:
    wanted = _plain(command)
    if wanted.topics is None:
        return await _tell_all(shards, command)
    by_shard: dict[int, list[TopicName]] = {}
    for topic in wanted.topics:
        by_shard.setdefault(shard_of(topic, len(shards.brokers)), []).append(topic)
    return await _first_of(
        (shards.at(shard), _with(command, msgspec.structs.replace(wanted, topics=topics)))
        for shard, topics in by_shard.items()
    )


async def _first_of(calls: Iterable[tuple[Broker, Any]]) -> Any:
    """Where one refuses, those that come after it are not told."""
    answers = [await broker.call(command) for broker, command in calls]
    return next(iter(answers), None)


_SPECIAL: dict[type, Callable[[ShardBrokers, Any], Awaitable[Any]]] = {
    c.CreateTopic: _set_topic,
    c.ChangeTopic: _set_topic,
    c.Settle: _settle_runs,
    c.Extend: _settle_runs,
    c.SettleById: _settle_ids,
    c.ExtendById: _settle_ids,
    c.Redrive: _redrive,
    c.Transact: _transact,
    c.Begin: _tell_all,
    c.Commit: _commit,
    c.Abort: _tell_all,
    c.Leave: _leave,
    c.SetNamespace: _tell_all,
    c.DeleteNamespace: _delete_namespace,
    c.RotateKey: _tell_all,
    c.Reencrypt: _reencrypt,
}
