"""A lease by labels, over all shards: from the topics that are most urgent; and who waits, waits in all shards.

Each shard leases by itself, in its own order; what another shard has that is more urgent comes first. Everything is held until
the answer is whole, and acked then if that was asked for. Whatever goes wrong before, or who goes away, what is held goes back,
in the same turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from ortoo.broker.broker import Broker
from ortoo.broker.leasing import Accepted
from ortoo.engine.lease import topics_in_order
from ortoo.engine.view import group_info
from ortoo.model import limits
from ortoo.model.batch import message_sizes
from ortoo.model.commands import Lease, Settle
from ortoo.model.errors import InvalidError, OrtooError, UnavailableError
from ortoo.model.histogram import Histogram
from ortoo.model.names import check_labels
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import LeasedRun, Settled, filter_columns
from ortoo.model.runs import runs_of_messages

_LAST = 1 << 30  # after every priority
_LOOKED_AT_MAX = 100  # topics of a shard, the most urgent first
_ROUNDS = 4  # how often a shard is asked, at most
_BYTES_MAX = (
    limits.ANSWER_BYTES_MAX // 4
)  # after so much no other shard is asked: its part may be as large as a whole answer

Held = list[tuple[Broker, list[LeasedRun]]]
Task = asyncio.Future[list[LeasedRun]]
Ask = Callable[[Broker, Lease], Coroutine[Any, Any, list[LeasedRun]]]


async def lease(
    brokers: Sequence[Broker],
    command: Lease,
    seconds: Histogram | None,
    check: Callable[[], None] | None,
    accepted: Accepted | None,
) -> list[LeasedRun]:
    """Of those that take something now; at least one does."""
    if command.labels is None:
        raise InvalidError("name a topic to lease from, or the labels of several, and not both")
    check_labels(command.labels)
    ask = partial(_ask, seconds=seconds, check=check, accepted=accepted)
    held = await _lease_now(brokers, command, ask)
    if not held and command.wait_ms:
        held = await _wait(brokers, command, ask)
    return await _acked(held) if command.auto_ack else [run for _, runs in held for run in runs]


async def _ask(
    broker: Broker,
    command: Lease,
    seconds: Histogram | None,
    check: Callable[[], None] | None,
    accepted: Accepted | None,
) -> list[LeasedRun]:
    own = msgspec.structs.replace(command, auto_ack=False)
    return [run for run in await broker.lease(own, seconds, check, accepted) if len(run.columns)]


async def _lease_now(brokers: Sequence[Broker], command: Lease, ask: Ask) -> Held:
    held, failed, to_ask = Held(), list[OrtooError](), list(brokers)
    left, keys, size = command.max_messages, command.keys_max, 0
    try:
        for _ in range(_ROUNDS * len(brokers)):
            if not to_ask or left <= 0 or keys == 0 or size >= _BYTES_MAX:
                break
            to_ask.sort(key=lambda broker: _urgency(broker, command))
            broker = to_ask[0]
            own = msgspec.structs.replace(command, max_messages=left, keys_max=keys, wait_ms=0)
            try:
                runs = await ask(broker, own)
            except UnavailableError as error:
                failed.append(error)
                to_ask.remove(broker)
                continue
            others = min((_urgency(other, command) for other in to_ask[1:]), default=_LAST)
            runs, early = _split(broker, runs, others)
            held.append((broker, runs))
            _release(broker, early)
            if not early:
                to_ask.remove(broker)
            left -= sum(len(run.columns) for run in runs)
            keys = None if keys is None else max(0, keys - _count_keys(runs))
            size += sum(map(_size_of, runs))
    except BaseException:
        _release_all(held)
        raise
    if failed and len(failed) == len(brokers):
        raise failed[0]
    return [(broker, runs) for broker, runs in held if runs]


def _urgency(broker: Broker, command: Lease) -> int:
    """The priority of the most urgent topic that has something for the group; a guess where there are very many."""
    if broker.refusal is not None:
        return _LAST
    labels = frozenset((command.labels or {}).items())
    for topic in islice(topics_in_order(broker.state, command.namespace, labels), _LOOKED_AT_MAX):
        group = topic.group_names.get(command.group)
        if topic.messages() if group is None else group_info(group).ready:
            return topic.config.priority
    return _LAST


def _split(broker: Broker, runs: list[LeasedRun], limit: int) -> tuple[list[LeasedRun], list[LeasedRun]]:
    """What comes before what others have, and what comes too early. If all of it does, none does: the others were looked at
    wrongly, and something has to come first."""

    def priority(run: LeasedRun) -> int:
        topic = broker.find_topic(run.taken.topic)
        return 0 if topic is None else topic.config.priority

    early = [run for run in runs if priority(run) > limit]
    return ([run for run in runs if priority(run) <= limit], early) if len(early) < len(runs) else (runs, [])


def _count_keys(runs: list[LeasedRun]) -> int:
    """Messages without one count each."""
    keys = [key for run in runs for key in run.columns.keys or [None] * len(run.columns)]
    return len({key for key in keys if key is not None}) + keys.count(None)


def _size_of(run: LeasedRun) -> int:
    return sum(message_sizes(run.columns.values, run.columns.keys, run.columns.headers))


# -- waiting


async def _wait(brokers: Sequence[Broker], command: Lease, ask: Ask) -> Held:
    """What comes first. Of two that come together one goes back."""
    waiting: dict[Task, Broker] = {asyncio.ensure_future(ask(broker, command)): broker for broker in brokers}
    taken: Task | None = None
    try:
        left = set(waiting)
        while left and taken is None:
            _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            taken = next((task for task in waiting if _runs(task)), None)
    finally:
        for task, broker in waiting.items():
            if task is not taken:
                _end(task, broker)
    if taken is not None:
        return [(waiting[taken], _runs(taken))]
    errors = [task.exception() for task in waiting if not task.cancelled()]
    if errors and all(error is not None for error in errors):
        raise errors[0]  # type: ignore[misc]  # all of them are
    return []


def _runs(task: Task) -> list[LeasedRun]:
    if not task.done() or task.cancelled() or task.exception() is not None:
        return []
    return task.result()


def _end(task: Task, broker: Broker) -> None:
    """What it has, or still gets, goes back."""
    task.cancel()
    task.add_done_callback(lambda ended: _release(broker, _runs(ended)))


# -- at the end


def _release(broker: Broker, runs: list[LeasedRun]) -> None:
    if runs and broker.refusal is None:
        with suppress(OrtooError):  # nobody is there to be told; the lease runs out
            broker.submit(Settle("release", runs_of_messages(runs)))


def _release_all(held: Held) -> None:
    for broker, runs in held:
        _release(broker, runs)


async def _acked(held: Held) -> list[LeasedRun]:
    """Those that still can be: a lease may have run out, or a shard have failed. What is not acked is not handed out."""
    found, failed, left = list[LeasedRun](), list[OrtooError](), list(held)
    try:
        while left:
            broker, runs = left[0]
            merged = runs_of_messages(runs)
            try:
                settled: Settled = await broker.call(Settle("ack", merged))
            except UnavailableError as error:
                failed.append(error)
            else:
                pairs = zip(merged, settled.lost or (), strict=False)
                found += _without_lost(runs, {(run.lease, run.partition): lost for run, lost in pairs if lost})
            left.pop(0)
    except BaseException:
        _release_all(left)
        raise
    if failed and not found:
        raise failed[0]
    return found


def _without_lost(runs: list[LeasedRun], lost: dict[tuple[int, int], list[int]]) -> list[LeasedRun]:
    return [
        LeasedRun(run.taken, filter_columns(run.columns, OffsetSet(gone)))
        if (gone := lost.get((run.taken.lease, run.taken.partition)))
        else run
        for run in runs
    ]
