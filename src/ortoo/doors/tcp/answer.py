"""From a request to what is asked of the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ortoo.broker import Guest, Share
from ortoo.model import limits
from ortoo.model.checks import check_command, check_number, check_position, check_ref, check_wait
from ortoo.model.commands import Command, Lease, Publish, plain
from ortoo.model.errors import InvalidError
from ortoo.model.masking import shown_config
from ortoo.model.replies import Columns, Page, TopicInfo
from ortoo.wire import protocol as p


async def answer(guest: Guest, request: p.Request, share: Share, size: int) -> Any:
    """The body of the answer. Nothing is awaited before a command is submitted, so commands keep their order.

    The request holds so much of that share.
    """
    if isinstance(request, p.PublishOrWait):
        return await _publish_or_wait(guest, request, share, size)
    ask = _ASK.get(type(request))
    if ask is not None:
        return await ask(guest, request)
    command: Command = request  # type: ignore[assignment]
    check_command(command)
    wanted = plain(command)
    if isinstance(wanted, Publish):
        return await guest.publish(command)  # type: ignore[arg-type]
    if isinstance(command, Lease):
        return await guest.lease(command)
    return await guest.call(command)


async def _publish_or_wait(guest: Guest, request: p.PublishOrWait, share: Share, size: int) -> Any:
    check_command(request.publish)
    if not isinstance(plain(request.publish), Publish):
        raise InvalidError("only a publish can wait for room")
    check_wait(request.wait_ms, limits.DELAY_MS_MAX)
    return await guest.publish_or_wait(request.publish, request.wait_ms, share, size)


async def _list_topics(guest: Guest, request: p.ListTopics) -> Any:
    return [_shown(info) for info in await guest.topics(request.namespace)]


async def _get_topic(guest: Guest, request: p.GetTopic) -> Any:
    return _shown(await guest.topic(request.topic))


def _shown(info: TopicInfo) -> TopicInfo:
    """Secrets stay here."""
    config = shown_config(info.config)
    return info if config is info.config else msgspec.structs.replace(info, config=config)


async def _get_stats(guest: Guest, request: p.GetStats) -> Any:
    return await guest.stats()


async def _scan(guest: Guest, request: p.Scan) -> Any:
    check_position(request.start)
    check_position(request.until)
    return await guest.scan(request.topic, request.partition, request.start, request.until, request.count)


async def _get_offsets(guest: Guest, request: p.GetOffsets) -> Any:
    check_position(request.position)
    return await guest.offsets(request.topic, request.position)


async def _scan_history(guest: Guest, request: p.ScanHistory) -> Any:
    check_number("a position in a history", request.start)
    return await guest.scan_history(request.topic, request.partition, request.start, request.count)


async def _get_message(guest: Guest, request: p.GetMessage) -> p.MessageFound:
    check_ref(request.message)
    found = await guest.message(request.message)
    m, where = found.message, found.message.delivery
    columns = Columns([m.offset], [m.value], [m.timestamp_ms], [m.key], [m.headers_or_none], [m.priority], [m.is_json])
    page = Page(where.topic, where.topic_id, where.partition, columns, m.offset + 1, m.offset + 1)
    return p.MessageFound(page, found.states)


async def _list_messages(guest: Guest, request: p.ListMessages) -> Any:
    return await guest.messages(request.topic, request.group, request.state, request.count)


async def _get_trace(guest: Guest, request: p.GetTrace) -> Any:
    check_ref(request.message)
    return await guest.trace(request.message)


async def _pong(guest: Guest, request: p.Ping) -> None:
    return None


_ASK: dict[type, Callable[[Guest, Any], Awaitable[Any]]] = {
    p.Ping: _pong,
    p.ListTopics: _list_topics,
    p.GetTopic: _get_topic,
    p.GetStats: _get_stats,
    p.Scan: _scan,
    p.GetOffsets: _get_offsets,
    p.ScanHistory: _scan_history,
    p.GetMessage: _get_message,
    p.ListMessages: _list_messages,
    p.GetTrace: _get_trace,
}
