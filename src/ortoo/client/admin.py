"""The part of the queue that operators use: topics, groups, single messages, dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from ortoo.model import limits
from ortoo.model.browsing import GroupPage, TopicPage, read_names, write_names
from ortoo.model.commands import (
    ChangeTopic,
    CreateGroup,
    CreateTopic,
    DeadLetter,
    DeleteGroup,
    DeleteMessage,
    DeleteTopic,
    Heartbeat,
    Leave,
    MarkArchived,
    PauseGroup,
    PurgeTopic,
    ResumeGroup,
    RetryNow,
    Seek,
)
from ortoo.model.errors import ExistsError, InvalidError, NotFoundError
from ortoo.model.message import Received
from ortoo.model.names import DEFAULT_GROUP, TopicId, TopicName, parse_message_id
from ortoo.model.queries import (
    BrowseGroups,
    BrowseTopics,
    FindMessages,
    GetMessage,
    GetOffsets,
    GetStats,
    GetTopic,
    GetTrace,
    ListKeys,
    ListMessages,
)
from ortoo.model.replies import GroupInfo, KeysFound, MessageInfo, MessageState, Stats, TopicInfo, Trace
from ortoo.model.topic import topic_config
from ortoo.model.units import Duration, Time

from .arguments import check_count, check_group, check_text, to_error_text, to_ms, to_seconds
from .browsing import Browsing, check_state, to_end, to_seek_position
from .by_id import to_dedup_ids
from .positions import Where, to_position

__all__ = ["Admin", "Time", "Where", "to_position", "to_seconds"]


EVERYWHERE = "*"  # in the place of a namespace, where topics are listed


class Admin(Browsing):
    """Topics, groups and single messages."""

    # -- topics

    async def create_topic(
        self, topic: str, /, *, exist_ok: bool = True, namespace: str | None = None, **settings: Any
    ) -> TopicInfo:
        """Makes a topic with any settings of TopicConfig. One that exists with the same settings is fine if `exist_ok`.

        With other settings it is an ExistsError that names them; `ensure_topic` changes them.
        """
        name = self._name(topic, namespace)
        await self._link.call(CreateTopic(name, topic_config(settings), exist_ok, sorted(settings)))
        return await self._link.ask(GetTopic(name))

    async def update_topic(self, topic: str, /, *, namespace: str | None = None, **settings: Any) -> TopicInfo:
        """Changes some settings and leaves the others."""
        name = self._name(topic, namespace)
        config = topic_config(
            settings, (await self._link.ask(GetTopic(name))).config
        )  # a mistake is found before it is sent
        await self._link.call(ChangeTopic(name, {setting: getattr(config, setting) for setting in settings}))
        return await self._link.ask(GetTopic(name))

    async def ensure_topic(self, topic: str, /, *, namespace: str | None = None, **settings: Any) -> TopicInfo:
        """Makes a topic with these settings, or gives them to the one there is: for the start of a program.

        Settings that are not named stay as they are. InvalidError when one cannot be changed any more.
        """
        name = self._name(topic, namespace)
        try:
            info = await self._link.ask(GetTopic(name))
        except NotFoundError:
            try:
                await self._link.call(CreateTopic(name, topic_config(settings), False, sorted(settings)))
                return await self._link.ask(GetTopic(name))
            except ExistsError:  # somebody else was first
                info = await self._link.ask(GetTopic(name))
        if topic_config(settings, info.config) == info.config:
            return info
        return await self.update_topic(topic, namespace=namespace, **settings)

    async def delete_topic(self, topic: str, *, if_id: int | None = None, namespace: str | None = None) -> None:
        """With `if_id`, only if that is its `id`: another that was made under its name meanwhile is a NotFoundError."""
        await self._link.call(DeleteTopic(self._name(topic, namespace), _to_id(if_id)))

    async def purge(self, topic: str, *, if_id: int | None = None, namespace: str | None = None) -> int:
        """Empties the topic for every group, with `if_id` only if that is its `id`; returns how many messages it had."""
        count: int = await self._link.call(PurgeTopic(self._name(topic, namespace), _to_id(if_id)))
        return count

    async def mark_archived(self, topic: str, ends: Mapping[int, int], *, namespace: str | None = None) -> list[int]:
        """Says that messages below these offsets, by partition, are kept elsewhere. Returns the mark of each partition.

        A topic with `retention_waits_for_archive` removes nothing above its marks. They never go back.
        """
        if not isinstance(ends, Mapping):
            raise InvalidError(f"ends must be offsets by partition, not {type(ends).__name__}")
        marks = {check_count("partition", index): check_count("an end", end) for index, end in ends.items()}
        found: list[int] = await self._link.call(MarkArchived(self._name(topic, namespace), marks))
        return found

    async def topics(self, *, namespace: str | None = None) -> list[TopicInfo]:
        """Those of a namespace, or with "*" of all that may be seen; asked for a page at a time."""
        query, found = BrowseTopics(self._within(namespace), None, limits.LISTED_MAX), list[TopicInfo]()
        while True:
            page = await self._link.ask(query)
            found += page.topics
            if page.next is None:
                return found
            query = msgspec.structs.replace(query, after=page.next)

    async def topics_page(
        self, *, limit: int = 100, next: str | None = None, namespace: str | None = None
    ) -> TopicPage:
        """As `topics`, a page at a time, by namespace and name: `next` of one page asks for the one after it."""
        names = read_names(None if next is None else check_text("next", next), 2)
        after = None if names is None else TopicName(*names)
        found = await self._link.ask(BrowseTopics(self._within(namespace), after, check_count("limit", limit, 1)))
        return TopicPage(found.topics, write_names(found.next))

    def _within(self, namespace: str | None) -> str | None:
        name = check_text("a namespace", namespace or self.namespace)
        return None if name == EVERYWHERE else name

    async def topic(self, topic: str, *, namespace: str | None = None) -> TopicInfo:
        return await self._link.ask(GetTopic(self._name(topic, namespace)))

    async def offsets(
        self,
        topic: str,
        *,
        at: Literal["start", "end"] = "end",
        time: Time | None = None,
        namespace: str | None = None,
    ) -> list[int]:
        """An offset for each partition: its first, the one that the next message gets, or the first since a time."""
        position = to_position(at if time is None else None, None, time)
        return await self._link.ask(GetOffsets(self._name(topic, namespace), position))

    async def stats(self) -> Stats:
        return await self._link.ask(GetStats())

    # -- groups

    async def create_group(
        self,
        topic: str,
        group: str,
        at: Where | None = None,
        *,
        offset: int | None = None,
        time: Time | None = None,
        ephemeral: bool = False,
        namespace: str | None = None,
    ) -> None:
        """Makes a group that begins at "all" (the default; an ephemeral one at "new"), "new", an offset or a time."""
        if ephemeral and at is None and offset is None and time is None:
            at = "new"
        start = to_position(at, offset, time)
        await self._link.call(
            CreateGroup(self._name(topic, namespace), check_text("a group's name", group), start, ephemeral)
        )

    async def delete_group(self, topic: str, group: str, *, namespace: str | None = None) -> None:
        """Forgets the group and what it has done. Polls that wait for it end with a NotFoundError.

        Stop its consumers first: whoever leases as the group later makes it anew, from the start of the topic, unless it
        leases with `start=None`.
        """
        await self._link.call(DeleteGroup(self._name(topic, namespace), check_text("a group's name", group)))

    async def groups(self, topic: str, *, namespace: str | None = None) -> list[GroupInfo]:
        """By name; asked for a page at a time."""
        query, found = BrowseGroups(self._name(topic, namespace), None, limits.LISTED_MAX), list[GroupInfo]()
        while True:
            page = await self._link.ask(query)
            found += page.groups
            if page.next is None:
                return found
            query = msgspec.structs.replace(query, after=page.next)

    async def groups_page(
        self, topic: str, *, limit: int = 100, next: str | None = None, namespace: str | None = None
    ) -> GroupPage:
        """As `groups`, a page at a time: `next` of one page asks for the one after it."""
        names = read_names(None if next is None else check_text("next", next), 1)
        after = None if names is None else names[0]
        query = BrowseGroups(self._name(topic, namespace), after, check_count("limit", limit, 1))
        found = await self._link.ask(query)
        return GroupPage(found.groups, write_names(None if found.next is None else [found.next]))

    async def group(self, topic: str, group: str = DEFAULT_GROUP, *, namespace: str | None = None) -> GroupInfo:
        check_text("a group's name", group)
        for info in (await self._link.ask(GetTopic(self._name(topic, namespace)))).groups:
            if info.name == group:
                return info
        raise NotFoundError(f"topic {topic!r} has no group {group!r}")

    async def seek(
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
    ) -> None:
        """Moves a group. With `to_offset` or `to_time`, makes just that stretch deliverable again and leaves the rest."""
        start = to_seek_position(at, offset, time)
        name = self._name(topic, namespace)
        await self._link.call(Seek(name, check_text("a group's name", group), start, to_end(to_offset, to_time)))

    async def pause_group(
        self,
        topic: str,
        group: str,
        *,
        seconds: Duration | None = None,
        reason: str | None = None,
        namespace: str | None = None,
    ) -> None:
        """Delivers nothing to the group's consumers, for so long, or until it is resumed. What they have can be settled."""
        if reason is not None:
            check_text("a reason", reason)
        name = self._name(topic, namespace)
        await self._link.call(PauseGroup(name, check_text("a group's name", group), to_ms("seconds", seconds), reason))

    async def resume_group(self, topic: str, group: str, *, namespace: str | None = None) -> None:
        """Ends a pause: consumers that wait get messages at once. A group that is not paused stays as it is."""
        await self._link.call(ResumeGroup(self._name(topic, namespace), check_text("a group's name", group)))

    async def heartbeat(
        self, topic: str, group: str, consumer: str, *, session: Duration | None = None, namespace: str | None = None
    ) -> list[int]:
        """A sign of life without leasing. Returns the partitions the consumer owns, where order is by partition."""
        session_ms = to_ms("session", session)
        name = self._name(topic, namespace)
        beat = Heartbeat(
            name, check_text("a group's name", group), check_text("a consumer's name", consumer), session_ms
        )
        owned: list[int] = await self._link.call(beat)
        return owned

    async def leave(
        self, consumer: str, topic: str | None = None, group: str | None = None, *, namespace: str | None = None
    ) -> None:
        """A consumer goes: its leases return at once, uncounted."""
        name = None if topic is None else self._name(topic, namespace)
        await self._link.call(Leave(check_text("a consumer's name", consumer), name, check_group(group)))

    # -- single messages

    async def message(self, message_id: str) -> MessageInfo:
        return (await self._link.ask(GetMessage(parse_message_id(message_id)))).to_info()

    async def messages(
        self,
        topic: str,
        *,
        group: str = DEFAULT_GROUP,
        state: MessageState = "ready",
        limit: int = 100,
        namespace: str | None = None,
    ) -> list[Received]:
        """Messages that are ready, delayed, leased, blocked, done or dead for a group; fewer than `limit` if they are large."""
        check_state(state)
        check_text("a group's name", group)
        pages = await self._link.ask(
            ListMessages(self._name(topic, namespace), group, state, check_count("limit", limit))
        )
        return [message for page in pages for message in page.to_messages()]

    async def message_keys(
        self, topic: str, *, group: str = DEFAULT_GROUP, limit: int = 1000, namespace: str | None = None
    ) -> KeysFound:
        """The keys of the newest messages, those used last first, and how many of each are pending, leased, done or dead for a
        group."""
        name = self._name(topic, namespace)
        return await self._link.ask(ListKeys(name, check_text("a group's name", group), check_count("limit", limit)))

    async def delete_message(self, message_id: str) -> None:
        await self._link.call(DeleteMessage(parse_message_id(message_id)))

    async def retry_now(self, message_id: str, *, group: str | None = None) -> None:
        """Whatever the message waits for, it becomes deliverable at once; for one group, or for all."""
        await self._link.call(RetryNow(parse_message_id(message_id), check_group(group)))

    async def dead_letter(self, message_id: str, *, group: str | None = None, error: str | None = None) -> None:
        """Moves a pending message to the dead letters; for one group, or for all that have it pending."""
        await self._link.call(DeadLetter(parse_message_id(message_id), check_group(group), to_error_text(error)))

    async def trace(self, message_id: str) -> Trace:
        """What happened to a message, in order, and what is planned."""
        return await self._link.ask(GetTrace(parse_message_id(message_id)))

    async def find_messages(
        self,
        dedup_ids: str | Iterable[str],
        *,
        topic: str | None = None,
        group: str | None = None,
        namespace: str | None = None,
    ) -> list[str | None]:
        """The ids of the messages with these dedup ids; None where none is remembered: the topic's dedup window is over, and
        it is not leased in that group."""
        listed = to_dedup_ids(dedup_ids)
        name = None if topic is None else check_text("a topic's name", topic)
        space = check_text("a namespace", namespace or self.namespace)
        refs = await self._link.ask(FindMessages(space, listed, name, check_group(group)))
        return [None if ref is None else str(ref) for ref in refs]


def _to_id(id: int | None) -> TopicId | None:
    return None if id is None else TopicId(check_count("if_id", id))
