"""Looking into a topic without disturbing anybody: searches, lists by state, and what a seek would do."""

from __future__ import annotations

from typing import get_args

from ortoo.model.browsing import (
    FoundMessages,
    SeekPreview,
    merge_found,
    read_continuation,
    read_place,
    write_continuation,
    write_place,
)
from ortoo.model.commands import Position
from ortoo.model.errors import InvalidError
from ortoo.model.names import DEFAULT_GROUP
from ortoo.model.queries import BrowseMessages, PreviewSeek, Search
from ortoo.model.replies import MessageState
from ortoo.model.units import Time

from .arguments import check_count, check_text
from .dead_letter_admin import DeadLetterAdmin
from .positions import Where, to_position


class Browsing(DeadLetterAdmin):
    """The part of a Queue that looks and changes nothing."""

    async def search(
        self,
        topic: str,
        filter: str = "",
        *,
        key: str | None = None,
        from_offset: int | None = None,
        from_time: Time | None = None,
        to_offset: int | None = None,
        to_time: Time | None = None,
        partition: int | None = None,
        newest: bool = True,
        limit: int = 100,
        next: str | None = None,
        namespace: str | None = None,
    ) -> FoundMessages:
        """Messages that match a filter, the newest first, or the oldest. A search looks at 20,000 messages; `next` of what it
        returns goes on, with the same filter, where it stopped."""
        bounds = (from_offset, from_time, to_offset, to_time, partition)
        if next is not None and any(given is not None for given in bounds):
            raise InvalidError("`next` goes on with the range it came from; give no other")
        if key is not None:
            check_text("a key", key)
        found = await self._link.ask(
            Search(
                self._name(topic, namespace),
                check_text("a filter", filter),
                key,
                to_position(None, from_offset, from_time),
                to_end(to_offset, to_time),
                None if partition is None else check_count("partition", partition),
                bool(newest),
                check_count("limit", limit, 1),
                read_continuation(next),
            )
        )
        return FoundMessages(merge_found(found, newest), write_continuation(found.next), found.scanned)

    async def messages_page(
        self,
        topic: str,
        *,
        group: str = DEFAULT_GROUP,
        state: MessageState = "ready",
        limit: int = 100,
        next: str | None = None,
        namespace: str | None = None,
    ) -> FoundMessages:
        """As `messages`, page by page: `next` of one page asks for the one after it."""
        check_state(state)
        check_text("a group's name", group)
        partition, offset = read_place(None if next is None else check_text("next", next))
        name = self._name(topic, namespace)
        found = await self._link.ask(
            BrowseMessages(name, group, state, partition, offset, check_count("limit", limit, 1))
        )
        messages = [message for page in found.pages for message in page.to_messages()]
        return FoundMessages(messages, write_place(found.next), len(messages))

    async def preview_seek(
        self,
        topic: str,
        group: str,
        at: Where | None = None,
        *,
        offset: int | None = None,
        time: Time | None = None,
        to_offset: int | None = None,
        to_time: Time | None = None,
        namespace: str | None = None,
    ) -> SeekPreview:
        """What `seek` with the same arguments would do."""
        start = to_seek_position(at, offset, time)
        name = self._name(topic, namespace)
        return await self._link.ask(
            PreviewSeek(name, check_text("a group's name", group), start, to_end(to_offset, to_time))
        )


def to_seek_position(at: Where | None, offset: int | None, time: Time | None) -> Position:
    if at is None and offset is None and time is None:
        raise InvalidError("say where to: 'start', 'end', offset= or time=")
    return to_position(at, offset, time)


def check_state(state: str) -> None:
    if state not in get_args(MessageState):
        raise InvalidError(f"a message's state is one of {', '.join(get_args(MessageState))}, not {state!r}")


def to_end(offset: int | None, time: Time | None) -> Position | None:
    return None if offset is None and time is None else to_position(None, offset, time)
