"""Answers what an operator looks for: messages of a group in one state, page by page, those that a seek would be about, and
searches."""

from __future__ import annotations

from typing import Protocol

from ortoo.engine.lease import resolve
from ortoo.engine.state import State
from ortoo.engine.view import page_in_state, seek_preview
from ortoo.model import limits
from ortoo.model.browsing import Continuation, SearchFound, SeekPreview, StateFound
from ortoo.model.commands import START, Position
from ortoo.model.errors import ConfigError, InvalidError
from ortoo.model.names import TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.oneself import Me, ServerInfo, describe_principal
from ortoo.model.queries import BrowseMessages, PreviewSeek, Search
from ortoo.model.replies import MessageState, Page
from ortoo.model.shown_settings import ShownSettings
from ortoo.model.version import __version__
from ortoo.ports import Store

from .access import HOST
from .blocked import blocked_in_turns
from .due_times import with_times
from .meters import Meters
from .portion import bound_count, fit
from .searching import Searcher
from .turns import Turns


class Shelf(Protocol):
    """What it needs of the broker."""

    store: Store
    settings: ShownSettings | None
    meters: Meters

    @property
    def state(self) -> State: ...


class Browsing:
    """A part of the reader."""

    def __init__(self, broker: Shelf) -> None:
        self._shelf = broker

    async def me(self) -> Me:
        """The host of the queue, who needs to show nothing; a door puts its client in that place."""
        store = "memory" if self._shelf.store.keys() is None else "disk"
        door = self._shelf.meters.doors.get("tcp")
        port = None if door is None else door.port
        return describe_principal(HOST, False, ServerInfo(__version__, self._shelf.state.opened / 1000, store, port))

    async def settings(self) -> ShownSettings:
        if self._shelf.settings is None:
            raise ConfigError("this queue has no settings of a server; ask one, or use `ortoo config show`")
        return self._shelf.settings

    async def search(
        self,
        name: TopicName,
        filter: str = "",
        key: str | None = None,
        start: Position = START,
        until: Position | None = None,
        partition: int | None = None,
        is_newest: bool = True,
        count: int = 100,
        next: Continuation | None = None,
    ) -> SearchFound:
        query = Search(name, filter, key, start, until, partition, is_newest, count, next)
        return await Searcher(self._shelf, query).run()

    async def browse(
        self, name: TopicName, group: str, state: MessageState, partition: int = 0, offset: int = 0, count: int = 100
    ) -> StateFound:
        return await browse_messages(self._shelf, BrowseMessages(name, group, state, partition, offset, count))

    async def preview_seek(
        self, name: TopicName, group: str, position: Position, until: Position | None = None
    ) -> SeekPreview:
        return await preview_seek(self._shelf, PreviewSeek(name, group, position, until))


async def preview_seek(broker: Shelf, query: PreviewSeek) -> SeekPreview:
    """In turns, each partition as it is when its turn comes."""
    topic = broker.state.topic(query.topic)
    group = broker.state.group(topic, query.group)
    messages = skipped = leased = 0
    turns = Turns()
    for index, log in enumerate(topic.partitions):
        feed, start = group.feeds.look(index), resolve(log, query.position)
        until = None if query.until is None else max(start, resolve(log, query.until))
        again, left = seek_preview(feed, start, until)
        messages, skipped, leased = messages + again, skipped + left, leased + len(feed.leased)
        await turns.worked(1)
    return SeekPreview(messages, skipped, leased)


async def browse_messages(broker: Shelf, query: BrowseMessages) -> StateFound:
    """Ends early where messages are large. States change meanwhile: each message is where it is when its page is asked for."""
    topic = broker.state.topic(query.topic)
    feeds = broker.state.group(topic, query.group).feeds
    if not 1 <= query.count <= limits.BATCH_MESSAGES_MAX:
        raise InvalidError(f"count must be 1 to {limits.BATCH_MESSAGES_MAX}, not {query.count}")
    if query.partition < 0 or query.offset < 0:
        raise InvalidError("a list goes on at a partition and an offset of 0 or more")
    pages: list[Page] = []
    left, room, start, turns = query.count, limits.ANSWER_BYTES_MAX, query.offset, Turns()
    for index in range(query.partition, len(feeds)):
        log = topic.partitions[index]
        most = bound_count(topic, index, left)
        feed = feeds.look(index)
        waiting = await blocked_in_turns(feed, turns) if query.state in ("ready", "blocked") else OffsetSet()
        found, after = page_in_state(feed, query.state, start, most, waiting)
        start = 0
        await turns.worked(1)
        if found:
            offsets = found.to_sequence()
            columns = await broker.store.read(topic.id, index, offsets)
            fitting, size = fit(columns, room) if len(columns) else (0, 0)
            if size > room and pages:  # only the very first message may be too large by itself
                return StateFound(pages, (index, offsets[0]))
            if fitting < len(columns):
                after = columns.offsets[fitting]
                columns = columns.part(0, fitting)
            page = Page(query.topic, topic.id, index, columns, offsets[-1] + 1, log.settled_end)
            pages.append(await with_times(page, log, turns))
            left, room = left - len(columns), room - size
        if after is not None:
            return StateFound(pages, (index, after))
        if (left <= 0 or room <= 0) and index + 1 < len(feeds):
            return StateFound(pages, (index + 1, 0))
    return StateFound(pages)
