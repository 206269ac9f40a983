"""The queue as somebody watches it: an overview, what happened of late, and messages as they come. Nothing is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import get_args

from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.filters import parse_filter
from ortoo.model.live import Activity, Overview, Sort
from ortoo.model.message import Received
from ortoo.model.queries import GetActivity, GetOverview

from .arguments import check_count, check_text
from .stream import Stream
from .streams import Streams
from .tail import Tail

_WATCH_SECONDS = 1.0


class Watching(Streams):
    """What a server shows of itself, and a topic of its messages."""

    async def overview(
        self,
        *,
        sort: Sort = "backlog",
        match: str | None = None,
        limit: int = 100,
        offset: int = 0,
        namespace: str | None = None,
    ) -> Overview:
        """The topics that may be seen, in a namespace or in all of them: rates, backlogs, and what needs somebody.

        ConfigError where nothing is sampled: without a server."""
        if sort not in get_args(Sort):
            raise InvalidError(f"overviews are sorted by one of {', '.join(get_args(Sort))}, not {sort!r}")
        asked = GetOverview(
            None if namespace is None else check_text("a namespace", namespace),
            sort,
            None if match is None else check_text("match", match),
            check_count("limit", limit, 1),
            check_count("offset", offset),
        )
        return await self._link.ask(asked)

    async def activity(self, *, limit: int = 50, namespace: str | None = None) -> Activity:
        """What happened of late in the topics that may be seen, second by second, the newest first."""
        within = None if namespace is None else check_text("a namespace", namespace)
        return await self._link.ask(GetActivity(within, check_count("limit", limit, 1)))

    async def watch(
        self,
        *,
        sort: Sort = "backlog",
        match: str | None = None,
        limit: int = 100,
        offset: int = 0,
        namespace: str | None = None,
    ) -> AsyncIterator[Overview]:
        """An overview now, and another after each second for which there is one. Whoever is slow gets the newest."""
        shown: float | None = None
        while True:
            found = await self.overview(sort=sort, match=match, limit=limit, offset=offset, namespace=namespace)
            if found.timestamp != shown:
                shown = found.timestamp
                yield found
            await asyncio.sleep(_WATCH_SECONDS)

    def tail(
        self, topic: str, *, filter: str = "", rate: int = limits.TAIL_RATE, namespace: str | None = None
    ) -> Stream[Received]:
        """Yields messages that are published from now on and match the filter, without a group and without disturbing any.

        At most `rate` a second: where more come, the newest are shown. "Now" is when the first message is asked for, or held in
        `async with`, when the block begins.
        """
        wanted = parse_filter(check_text("a filter", filter))
        tail = Tail(self._link, self._name(topic, namespace), wanted, rate)

        async def messages() -> AsyncGenerator[Received, None]:
            async for found in tail.looks():
                for message in found.messages:
                    yield message

        return Stream(messages(), tail.begin)
