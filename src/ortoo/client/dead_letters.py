"""The dead letters of a topic, found page by page. A page is bounded in bytes, and of letters that are only redriven or deleted
no value is kept: there may be more of them than fit in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ortoo.model.commands import START, Position
from ortoo.model.errors import NotFoundError
from ortoo.model.message import Received
from ortoo.model.names import MessageRef, TopicName, parse_message_id
from ortoo.model.queries import Scan
from ortoo.model.replies import TopicInfo

from .link import Link

_PAGE = 2_000  # letters that are looked at before others run
_FIRST_PAGE, _PAGE_BYTES = 16, 4 * 1024 * 1024  # before and after it is known how large they are
_AT_ONCE = 8  # that are looked up together: each may be large


class Letter(NamedTuple):
    """What it takes to redrive one. The headers are its own words, which may be wrong."""

    ref: MessageRef
    origin: str
    group: str
    key: str | None


def is_letter(message: Received, topic: TopicInfo, group: str | None = None) -> bool:
    """Whether a message of the topic's dead-letter topic is one of the topic's own, and of that group. Topics may share one, and
    anybody may publish there."""
    headers = message.headers
    ours = headers.get("ortoo-origin", "").startswith(f"{topic.id}.") and "ortoo-group" in headers
    return ours and group in (None, headers["ortoo-group"])


class DeadLetters:
    """Those of a topic, or of one of its groups, from the oldest to the newest that there is when the first are taken."""

    def __init__(self, link: Link, topic: TopicInfo, group: str | None = None) -> None:
        self._link = link
        self._topic = topic
        self._group = group
        self._dlq = TopicName(topic.namespace, topic.dlq)
        self._position = START
        self._end: int | None = None
        self._count = _FIRST_PAGE

    async def take(self) -> list[Received] | None:
        """Some more, perhaps none of them; None at the end."""
        if self._end is not None:
            if self._position.offset is None or self._position.offset >= self._end:
                return None
            await asyncio.sleep(0)  # a queue inside this process answers at once
        until = None if self._end is None else Position(offset=self._end)
        try:
            page = await self._link.ask(Scan(self._dlq, 0, self._position, until, min(self._count, _PAGE)))
        except NotFoundError:
            return None
        self._end = page.end if self._end is None else self._end
        self._position = Position(offset=page.next_offset)
        if len(page.columns):
            average = sum(map(len, page.columns.values)) // len(page.columns) + 1
            self._count = max(1, min(_PAGE, _PAGE_BYTES // average))
        return [message for message in page.to_messages() if is_letter(message, self._topic, self._group)]

    async def take_briefly(self) -> list[Letter] | None:
        """The same without the values."""
        found = await self.take()
        return None if found is None else list(map(_brief, found))

    async def find(self, ids: Sequence[str]) -> list[Letter]:
        """Just those. NotFoundError when one of them is no dead letter of the topic."""
        refs = list(map(parse_message_id, dict.fromkeys(ids)))
        found: list[Letter] = []
        for start in range(0, len(refs), _AT_ONCE):
            found += await asyncio.gather(*map(self._find, refs[start : start + _AT_ONCE]))
        return found

    async def _find(self, ref: MessageRef) -> Letter:
        """Asked for by its place, so that nothing but the dead-letter topic is looked at, whatever the id."""
        messages: list[Received] = []
        if ref.partition == 0:
            where = Position(offset=ref.offset), Position(offset=ref.offset + 1)
            try:
                messages = (await self._link.ask(Scan(self._dlq, 0, *where, count=1))).to_messages()
            except NotFoundError:
                pass
        for message in messages:
            if message.id == str(ref) and is_letter(message, self._topic, self._group):
                return _brief(message)
        raise NotFoundError(f"topic {self._topic.name!r} has no dead letter {ref}")


def _brief(letter: Received) -> Letter:
    headers = letter.headers
    return Letter(parse_message_id(letter.id), headers["ortoo-origin"], headers["ortoo-group"], letter.key)
