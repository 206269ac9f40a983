"""Settling messages of queues by publishing: `$queue/NAME/$ack`, `$nack` and `$reject`, with the user property `message-id`.

What comes in one turn is settled together. What this client holds is settled by its lease; what it does not, by its id: whoever
has it then loses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ortoo.broker.authorized import AuthorizedLink
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.doors.times import parse_duration
from ortoo.model.commands import Outcome, Run, Settle, SettleById
from ortoo.model.errors import InvalidError, LeaseLostError, OrtooError
from ortoo.model.names import TopicName, parse_message_id
from ortoo.model.runs import merge_runs

from .consuming import GROUP, QueueSubscriptions
from .messages import MESSAGE_ID
from .names import Control

_OUTCOMES: Final[dict[Control, Outcome]] = {"$ack": "ack", "$nack": "nack", "$reject": "reject"}

_AT_ONCE: Final = 1_000  # messages

Done = Callable[[Exception | None], None]


class _Kind(NamedTuple):
    """What is settled with one command."""

    outcome: Outcome
    topic: TopicName
    group: str | None  # of whichever subscription holds it, when None
    error: str | None
    delay_ms: int | None


class Settling:
    def __init__(self, queues: QueueSubscriptions) -> None:
        self._queues = queues
        self.gathered: dict[_Kind, list[tuple[list[str], Done]]] = {}  # that is to be settled

    def add(self, topic: TopicName, control: Control, properties: Properties, done: Done) -> None:
        """InvalidError says what is wrong with it. `done` is told when it is settled, or why not."""
        user = dict(properties.user)
        ids = [value for name, value in properties.user if name == MESSAGE_ID]
        if not ids:
            raise InvalidError(f"{control} needs the user property {MESSAGE_ID} of the message, as it was delivered")
        outcome = _OUTCOMES[control]
        delay = None
        if outcome == "nack":  # again at once, unless a pause is asked for
            delay = round(parse_duration("delay", user.get("delay", "0")) * 1000)
        kind = _Kind(outcome, topic, user.get(GROUP), user.get("reason"), delay)
        self.gathered.setdefault(kind, []).append((ids, done))

    async def settle(self, link: AuthorizedLink) -> None:
        gathered, self.gathered = self.gathered, {}
        for kind, asked in gathered.items():
            for some in _some_at_once(asked):
                await self._settle(link, kind, some)
                await asyncio.sleep(0)  # others run, too, however many there are

    async def _settle(self, link: AuthorizedLink, kind: _Kind, asked: list[tuple[list[str], Done]]) -> None:
        wanted = dict.fromkeys(one for ids, _ in asked for one in ids)
        runs, others = self._queues.take(kind.topic, kind.group, wanted)
        unknown = list(map(str, others))
        lost: set[str] = set()
        try:
            if runs:
                lost |= await _by_lease(link, kind, merge_runs(runs))  # of one partition, a lease may take twice
            if unknown:
                lost |= await _by_id(link, kind, kind.group or self._queues.group_for(kind.topic), unknown)
        except InvalidError as error:  # one that is no id at all
            wrong = set(unknown)
            for ids, done in asked:
                done(_lost_of(ids, lost) if wrong.isdisjoint(ids) else error)
            return
        except OrtooError as error:
            for _, done in asked:
                done(error)
            return
        for ids, done in asked:
            done(_lost_of(ids, lost))


async def _by_lease(link: AuthorizedLink, kind: _Kind, runs: list[Run]) -> set[str]:
    """The ids of those whose lease had run out."""
    settled = await link.call(Settle(kind.outcome, runs, kind.error, kind.delay_ms))
    if not settled.lost:
        return set()
    return {
        f"{run.topic}.{run.partition}.{offset}"
        for run, offsets in zip(runs, settled.lost, strict=True)
        for offset in offsets
    }


async def _by_id(link: AuthorizedLink, kind: _Kind, group: str, ids: list[str]) -> set[str]:
    """The same of those that another client holds, or nobody."""
    command = SettleById(
        kind.outcome,
        [parse_message_id(one) for one in ids],
        group,
        kind.topic.namespace,
        kind.topic.name,
        kind.error,
        kind.delay_ms,
    )
    states = await link.call(command)
    fine = ("settled", "done") if kind.outcome == "ack" else ("settled",)  # what is done cannot fail any more
    return {one for one, state in zip(ids, states, strict=True) if state not in fine}


def _some_at_once(asked: list[tuple[list[str], Done]]) -> Iterator[list[tuple[list[str], Done]]]:
    """As many as a turn of the event loop takes; at least one PUBLISH, whose properties are bounded."""
    some: list[tuple[list[str], Done]] = []
    count = 0
    for one in asked:
        if some and count + len(one[0]) > _AT_ONCE:
            yield some
            some, count = [], 0
        some.append(one)
        count += len(one[0])
    yield some


def _lost_of(ids: list[str], lost: set[str]) -> LeaseLostError | None:
    gone = [one for one in ids if one in lost]
    if not gone:
        return None
    return LeaseLostError(f"not leased by its group now, so that nothing was settled: {', '.join(gone[:5])}")
