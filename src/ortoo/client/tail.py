"""Looking at what is published, as it comes: without a group, so that nobody else notices.

Every quarter of a second the ends of all partitions are asked for, and what lies before them is read and filtered. One look reads
a bounded number of messages, and shows no more than a second may have: where more came, the newest are shown and the others
counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

from ortoo.model import limits
from ortoo.model.commands import END, Position
from ortoo.model.errors import InvalidError
from ortoo.model.filters import Filter
from ortoo.model.message import Received
from ortoo.model.names import TopicName
from ortoo.model.queries import GetOffsets, Scan
from ortoo.model.replies import Page

from .link import Link

POLL_SECONDS = 0.25
LOOKED_MAX = 1_000  # messages that one look reads
_LOOKED_BYTES_MAX = 8 * 1024 * 1024
_SCAN_FIRST, _SCAN_BYTES = 32, 1024 * 1024  # how many to ask for, before and after their size is known
_TURN_BYTES, _TURN_MESSAGES = 64 * 1024, 100  # that are filtered in one turn of the event loop


class Tailed(NamedTuple):
    """What came since the last look."""

    messages: list[Received]  # that match, the oldest first
    matched: int  # how many did, shown or not
    dropped: int  # matched and not shown, or came too fast to be looked at


class Tail:
    def __init__(self, link: Link, topic: TopicName, wanted: Filter, rate: int) -> None:
        """`rate`: how many messages a second are shown."""
        if type(rate) is not int or not 1 <= rate <= limits.TAIL_RATE_MAX:
            raise InvalidError(f"rate must be 1 to {limits.TAIL_RATE_MAX} messages a second, not {rate!r}")
        self._link = link
        self._topic = topic
        self._wanted = wanted
        self._rate = rate
        self._credit = float(rate)  # messages that may be shown now
        self._looked_at = 0.0
        self._count = _SCAN_FIRST
        self._offsets: list[int] = []

    async def begin(self) -> None:
        """At the end: what is there already is not shown."""
        self._offsets = await self._link.ask(GetOffsets(self._topic, END))
        self._looked_at = asyncio.get_running_loop().time()

    async def looks(self) -> AsyncGenerator[Tailed, None]:
        """After `begin`; for ever, and only of what came."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            found = await self.look()
            if found.matched or found.dropped:
                yield found

    async def look(self) -> Tailed:
        ends = await self._link.ask(GetOffsets(self._topic, END))
        before = self._offsets + [0] * (len(ends) - len(self._offsets))
        # An end that went back is one of a topic that was deleted and made again: all of it is new.
        starts = [start if start <= end else 0 for start, end in zip(before, ends, strict=False)]
        self._offsets = ends
        fresh = [(index, start, ends[index]) for index, start in enumerate(starts) if start < ends[index]]
        dropped = sum(end - start for _, start, end in fresh[LOOKED_MAX:])
        found: list[Received] = []
        room = _LOOKED_BYTES_MAX
        share = max(1, LOOKED_MAX // max(1, len(fresh)))
        for index, start, end in fresh[:LOOKED_MAX]:
            first = max(start, end - share)
            matching, size, left = await self._read(index, first, end, room)
            found += matching
            room -= size
            dropped += first - start + left
        return self._shown(found, dropped)

    async def _read(self, partition: int, start: int, end: int, room: int) -> tuple[list[Received], int, int]:
        """What matches in one partition, the bytes that were read, and how many messages were left for want of room."""
        found: list[Received] = []
        size = 0
        while start < end and size < room:
            asked = Scan(self._topic, partition, Position(offset=start), Position(offset=end), self._count)
            page = await self._link.ask(asked)
            if len(page.columns):
                read = sum(map(len, page.columns.values))
                self._count = max(1, min(LOOKED_MAX, _SCAN_BYTES // (read // len(page.columns) + 1)))
                size += read
                found += await self._matching(page)
            if page.next_offset <= start:
                break
            start = page.next_offset
        return found, size, max(0, end - start)

    async def _matching(self, page: Page) -> list[Received]:
        found: list[Received] = []
        size = count = 0
        for message in page.to_messages():
            if self._wanted.matches(message.value, message.key, message.headers_or_none):
                found.append(message)
            size, count = size + len(message.value), count + 1
            if size >= _TURN_BYTES or count >= _TURN_MESSAGES:
                size = count = 0
                await asyncio.sleep(0)
        return found

    def _shown(self, found: list[Received], dropped: int) -> Tailed:
        now = asyncio.get_running_loop().time()
        self._credit = min(float(self._rate), self._credit + self._rate * (now - self._looked_at))
        self._looked_at = now
        found.sort(key=lambda message: message.timestamp_ms)
        most = int(self._credit)
        shown = found[max(0, len(found) - most) :]
        self._credit -= len(shown)
        return Tailed(shown, len(found), dropped + len(found) - len(shown))
