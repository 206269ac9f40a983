"""Polling: what a member of a group leases, and what its load tests consume.

A poll answers from one topic at a time, so that partitions have one meaning; of several topics, each has its turn.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.dialects.callers import namespace_of
from ortoo.dialects.rendering import runs_in_parts, write_list, write_lists
from ortoo.doors.http.answers import Answer, Streaming
from ortoo.doors.http.call import Call
from ortoo.doors.http.leases import give_back, take
from ortoo.doors.times import parse_duration
from ortoo.model import limits
from ortoo.model.commands import START, Lease
from ortoo.model.errors import InvalidError
from ortoo.model.replies import LeasedRun
from ortoo.model.topic import DEFAULT_PRIORITY

from . import members, priorities
from .receipts import to_handles
from .shapes import PAGE_MAX, ConsumedMessage, ConsumeQuery, PolledMessage, PollQuery
from .texts import to_instants, to_texts

_turn = count()  # which of several topics is looked at first

_encode = msgspec.json.Encoder().encode


async def poll(call: Call) -> bytes | Streaming:
    query: PollQuery = call.query
    if not query.member_id:
        raise InvalidError("member_id is required, in the query")
    member = members.parse(query.member_id)
    wanted = query.max_messages or query.limit or 100
    wait_ms = min(round(parse_duration("timeout", query.timeout) * 1000), limits.WAIT_MS_MAX)
    namespace, group = namespace_of(call.link), call.params["group"]
    commands = [
        Lease(
            topic=topic,
            namespace=namespace,
            group=group,
            consumer=member.consumer,
            max_messages=min(wanted, PAGE_MAX),
            wait_ms=wait_ms,
            start=None,
        )
        for topic in member.topics
    ]
    for command in commands:
        call.link.check(command)
    call.services.gate.presence.requested(call.link.who(member.consumer))
    runs = await _take(call, commands)
    if query.max_messages is not None:
        return write_list(b'{"messages":', runs_in_parts(runs), _polled, b"}")
    return _by_partition(runs)


def _by_partition(runs: list[LeasedRun]) -> bytes | Streaming:
    """As its server answers."""
    found: dict[int, list[LeasedRun]] = {}
    for run in runs:
        found.setdefault(run.taken.partition, []).append(run)
    sections = [
        (b'%b"%d":' % (b"," if at else b'{"messages":{', index), runs_in_parts(some))
        for at, (index, some) in enumerate(found.items())
    ]
    if not sections:
        return b'{"messages":{},"next_offset":{}}'
    offsets = {
        str(index): 1 + max(max(run.columns.offsets) for run in some if len(run.columns))
        for index, some in found.items()
        if any(len(run.columns) for run in some)
    }
    after = b'},"next_offset":%b}' % _encode(offsets)
    return write_lists(sections, _polled, after, is_large=len(runs_in_parts(runs)) > 1)


async def consume(call: Call) -> bytes | Answer | Streaming:
    """Without having joined. 204 when there is nothing."""
    query: ConsumeQuery = call.query
    if not query.group:
        raise InvalidError("group is required, in the query")
    lease = Lease(
        topic=call.params["topic"],
        namespace=namespace_of(call.link),
        group=query.group,
        consumer=call.consumer,
        max_messages=min(query.limit, PAGE_MAX),
        wait_ms=min(query.timeout, limits.WAIT_MS_MAX),
        start=START,
    )
    runs = await _take(call, [lease])
    return write_list(b'{"messages":', runs_in_parts(runs), _consumed, b"}") if runs else Answer(b"", 204)


# -- taking


async def _take(call: Call, commands: list[Lease]) -> list[LeasedRun]:
    """Of one of these, waiting as long as they say."""
    return await take(call, commands[0], lambda: _at_once(call.link, commands), lambda: _first(call.link, commands))


async def _at_once(link: AuthorizedLink, commands: list[Lease]) -> list[LeasedRun]:
    first = next(_turn) % len(commands)
    for command in commands[first:] + commands[:first]:
        if runs := await link.lease(msgspec.structs.replace(command, wait_ms=0)):
            return runs
    return []


async def _first(link: AuthorizedLink, commands: list[Lease]) -> list[LeasedRun]:
    """Of whichever has something first."""
    if len(commands) == 1:
        return await link.lease(commands[0])
    if runs := await _at_once(link, commands):
        return runs
    tasks = [asyncio.create_task(link.lease(command)) for command in commands]
    chosen: asyncio.Task[list[LeasedRun]] | None = None
    try:
        for done in asyncio.as_completed(tasks):
            await done
            chosen = next((task for task in tasks if task.done() and not task.exception() and task.result()), None)
            if chosen is not None:
                return chosen.result()
        return []
    finally:
        await _give_up(link, commands[0], [task for task in tasks if task is not chosen])


async def _give_up(link: AuthorizedLink, command: Lease, tasks: list[asyncio.Task[list[LeasedRun]]]) -> None:
    """What the others got in the same moment goes back, uncounted."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and task.exception() is None:
            await give_back(link, command, task.result())


# -- showing


def _polled(runs: list[LeasedRun]) -> list[PolledMessage]:
    found: list[PolledMessage] = []
    for run in runs:
        found += map(PolledMessage, *_columns(run, to_instants(run.columns.timestamps)))
    return found


def _consumed(runs: list[LeasedRun]) -> list[ConsumedMessage]:
    found: list[ConsumedMessage] = []
    for run in runs:
        columns = _columns(run, run.columns.timestamps)
        found += map(ConsumedMessage, columns[6], *columns)
    return found


def _columns(run: LeasedRun, timestamps: list[Any]) -> list[Any]:
    """In the order of the fields of a PolledMessage."""
    taken, columns = run.taken, run.columns
    offsets, size = list(columns.offsets), len(columns)
    texts, encodings = to_texts(columns.values)
    attempts = [taken.attempts.get(offset, 1) for offset in offsets] if taken.attempts else [1] * size
    return [
        [taken.topic.name] * size,
        [taken.partition] * size,
        offsets,
        timestamps,
        texts,
        list(map(priorities.name_of, columns.priorities)) if columns.priorities else [_NORMAL] * size,
        to_handles(taken, attempts, offsets),
        attempts,
        columns.keys or [None] * size,
        columns.headers or [None] * size,
        encodings,
    ]


_NORMAL = priorities.name_of(DEFAULT_PRIORITY)
