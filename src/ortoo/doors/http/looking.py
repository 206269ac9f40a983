"""Looks of one WebSocket: overviews that are watched, and topics that are tailed. Each is a task that asks, says and waits.

Nothing is lined up for a client: what it is told next is asked for when it has taken the last, so that a slow one gets the newest
state, and misses what lay between. Everything is asked through its link, and so ends when its token does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ortoo.broker.authorized import AuthorizedLink
from ortoo.client.tail import Tail, Tailed
from ortoo.model.errors import ExistsError, NotFoundError, TooManyError, UnavailableError
from ortoo.model.filters import parse_filter
from ortoo.model.names import TopicName
from ortoo.model.queries import GetOverview

from . import websocket_messages as said
from .call import HttpServices
from .live import hub_of
from .messages import encode_messages

_LOOKS_MAX = 20  # of one connection
_CHECK_SECONDS = 5.0  # after which a token is looked at although there was no sample

Work = Callable[[], Coroutine[Any, Any, None]]
Guarded = Callable[[Work, str | UnsetType, str | UnsetType], Coroutine[Any, Any, None]]  # work, its ref and its id


class Looks:
    def __init__(
        self,
        services: HttpServices,
        link: AuthorizedLink,
        send: Callable[[bytes], Awaitable[None]],
        guarded: Guarded,
    ) -> None:
        """`send` waits until the client takes more; `guarded` tells it of errors."""
        self._services = services
        self._hub = hub_of(services)
        self._link = link
        self._send = send
        self._guarded = guarded
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, command: said.Watch | said.TailTopic) -> None:
        id = command.id
        if id in self._tasks:
            raise ExistsError(f"there is a look {id!r} already; end it first, or take another id")
        if len(self._tasks) >= _LOOKS_MAX:
            raise TooManyError(f"a connection has at most {_LOOKS_MAX} looks; end one of them")
        look: Work
        if isinstance(command, said.Watch):
            query = GetOverview(command.namespace, command.sort, command.match, command.limit, command.offset)
            self._link.check(query)
            kind, look = "watch", partial(self._watch, command, query)
        else:
            topic = TopicName(command.namespace, command.topic)
            tail = Tail(self._link, topic, parse_filter(command.filter), command.rate)
            kind, look = "tail", partial(self._tail, command, tail)
        leave = self._hub.join(kind, self._services, self._link.principal)
        task = self._tasks[id] = asyncio.create_task(self._guarded(look, command.ref, id))
        task.add_done_callback(partial(self._ended, id, leave))

    def _ended(self, id: str, leave: Callable[[], None], task: asyncio.Task[None]) -> None:
        leave()
        if self._tasks.get(id) is task:
            del self._tasks[id]

    async def end(self, id: str) -> None:
        """Nothing of it is said any more when this returns."""
        task = self._tasks.pop(id, None)
        if task is None:
            raise NotFoundError(f"there is no look {id!r} on this connection")
        task.cancel()
        await asyncio.wait((task,))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- overviews

    async def _watch(self, command: said.Watch, query: GetOverview) -> None:
        sampled = self._hub.sampled
        shown = await self._link.ask(query)
        await self._send(
            _envelope("overview", command.id, self._hub.whole(shown, self._link.principal.name), command.ref)
        )
        while True:
            try:
                await asyncio.wait_for(sampled.wait(), _CHECK_SECONDS)
            except TimeoutError:
                pass
            sampled = self._hub.sampled
            try:
                now = await self._link.ask(query)
            except UnavailableError:  # the queue is being recovered; what it showed last stands
                self._link.check(query)
                continue
            if now is not shown and now.timestamp != shown.timestamp:
                await self._send(
                    _envelope("changes", command.id, self._hub.changes(shown, now, self._link.principal.name))
                )
                shown = now

    # -- topics

    async def _tail(self, command: said.TailTopic, tail: Tail) -> None:
        await tail.begin()
        await self._send(said.encode_told(said.TailedMessage(ref=command.ref, id=command.id)))
        async for found in tail.looks():
            await self._send(await _tailed(command, found))


async def _tailed(command: said.TailTopic, found: Tailed) -> bytes:
    envelope = said.TailedMessage(id=command.id, dropped=found.dropped, matched=found.matched)
    return await encode_messages(envelope, found.messages, command.value_bytes)


def _envelope(kind: str, id: str, text: bytes, ref: str | UnsetType = UNSET) -> bytes:
    """A text that was written for many, as it is told to one."""
    named = {"type": kind, "id": id} if ref is UNSET else {"type": kind, "ref": ref, "id": id}
    return b"%b,%b" % (msgspec.json.encode(named)[:-1], text[1:])
