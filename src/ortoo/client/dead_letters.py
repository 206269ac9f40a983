"""The dead letters of a topic, found page by page. A page is bounded in bytes, and of letters that are only redriven or deleted
no value is kept: there may be more of them than fit in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ortoo.model.commands import START, Command, DeleteMessage, Position, Redrive
from ortoo.model.errors import InvalidError, NotFoundError, OrtooError, TooManyError
from ortoo.model.failures import letter_error
from ortoo.model.message import Received
from ortoo.model.names import MessageRef, TopicName, parse_message_id
from ortoo.model.queries import Scan
from ortoo.model.replies import TopicInfo

from .link import Link

_COMMANDS_AT_ONCE = 150  # one after the other, without waiting for each answer
_PAGE = 2_000  # letters that are looked at before others run
_FIRST_PAGE, _PAGE_BYTES = 16, 4 * 1024 * 1024  # before and after it is known how large they are
_SKIPPED_TOLD = 1_000  # ids of letters that could not be redriven
CHARS_AT_ONCE = 50_000  # of errors that are looked into before others run
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


class RedrivenCount(int):
    """How many dead letters are deliverable again. Others stay where they are: what they say of their origin is not so, or the
    queue refuses it. `skipped` has the ids of the first of them, `skipped_count` tells how many they are."""

    skipped: list[str]
    skipped_count: int

    def __new__(cls, count: int, skipped: Sequence[str] = (), skipped_count: int | None = None) -> RedrivenCount:
        self = super().__new__(cls, count)
        self.skipped = list(skipped[:_SKIPPED_TOLD])
        self.skipped_count = len(skipped) if skipped_count is None else skipped_count
        return self

    def plus(self, other: RedrivenCount) -> RedrivenCount:
        skipped = self.skipped_count + other.skipped_count
        return RedrivenCount(self + other, self.skipped + other.skipped, skipped)


class DeadLetters:
    """Those of a topic, or of one of its groups, or with one kind of error, from the oldest to the newest that there is when the
    first are taken."""

    def __init__(self, link: Link, topic: TopicInfo, group: str | None = None, error: str | None = None) -> None:
        self._link = link
        self._topic = topic
        self._group = group
        self._error = error
        self._dlq = TopicName(topic.namespace, topic.dlq)
        self._position = START
        self._end: int | None = None
        self._count = _FIRST_PAGE
        self.scanned = 0  # messages so far, whosesoever letters they are

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
        self.scanned += len(page.columns)
        if len(page.columns):
            average = sum(map(len, page.columns.values)) // len(page.columns) + 1
            self._count = max(1, min(_PAGE, _PAGE_BYTES // average))
        return await self._ours(page.to_messages())

    async def _ours(self, messages: list[Received]) -> list[Received]:
        found, looked = [], 0
        for message in messages:
            if not is_letter(message, self._topic, self._group):
                continue
            if self._error is None or letter_error(message.headers) == self._error:
                found.append(message)
            looked += 0 if self._error is None else len(message.headers.get("ortoo-error", ""))
            if looked > CHARS_AT_ONCE:
                looked = 0
                await asyncio.sleep(0)
        return found

    async def take_briefly(self) -> list[Letter] | None:
        """The same without the values."""
        found = await self.take()
        return None if found is None else list(map(_brief, found))

    async def redrive(self, letters: list[Letter]) -> RedrivenCount:
        """A letter that cannot be is skipped: anybody who may publish may have written it, and the others are not to blame."""
        skipped = await self._each(letters, _to_redrive, (InvalidError, NotFoundError, TooManyError))
        return RedrivenCount(len(letters) - len(skipped), skipped)

    async def delete(self, letters: list[Letter]) -> int:
        gone = await self._each(letters, lambda letter: DeleteMessage(letter.ref), (NotFoundError,))
        return len(letters) - len(gone)

    async def _each(
        self, letters: list[Letter], command: Callable[[Letter], Command], skipped: tuple[type[OrtooError], ...]
    ) -> list[str]:
        """The ids of those that failed with such an error. With another, it ends once those beside are done."""

        async def call(letter: Letter) -> None:
            await self._link.call(command(letter))

        failed = []
        for start in range(0, len(letters), _COMMANDS_AT_ONCE):
            some = letters[start : start + _COMMANDS_AT_ONCE]
            answers = await asyncio.gather(*map(call, some), return_exceptions=True)
            for letter, error in zip(some, answers, strict=True):
                if isinstance(error, skipped):
                    failed.append(str(letter.ref))
                elif error is not None:
                    raise error
        return failed

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
        for message in await self._ours(messages):
            if message.id == str(ref):
                return _brief(message)
        which = "" if self._group is None and self._error is None else " of that group and error"
        raise NotFoundError(f"topic {self._topic.name!r} has no dead letter {ref}{which}")


def _to_redrive(letter: Letter) -> Redrive:
    return Redrive(letter.ref, parse_message_id(letter.origin), letter.group, letter.key)


def _brief(letter: Received) -> Letter:
    headers = letter.headers
    return Letter(parse_message_id(letter.id), headers["ortoo-origin"], headers["ortoo-group"], letter.key)
