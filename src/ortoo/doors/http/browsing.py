"""Looking into a topic: searches, the newest messages first, and lists by the state that messages have in a group."""

from __future__ import annotations

from ortoo.model.errors import InvalidError

from .answers import Streaming
from .call import Call
from .messages import encode_messages, is_stream, replay
from .operator_shapes import FoundPage, SearchQuery, StatePageQuery
from .shapes import MessagePage


async def read(call: Call) -> bytes | Streaming:
    """Everything in its order, or what matches: the one is merged as it is read, the other is looked for by the broker."""
    query: SearchQuery = call.query
    if query.order == "oldest" and query.filter is None and query.key is None:
        return await replay(call, query)
    if is_stream(call, query):
        raise InvalidError("a search, and the newest first, come as pages of JSON: ask without NDJSON")
    found = await call.queue.search(
        call.params["topic"],
        query.filter or "",
        key=query.key,
        from_offset=query.from_offset,
        from_time=query.from_time,
        to_offset=query.to_offset,
        to_time=query.to_time,
        partition=query.partition,
        newest=query.order == "newest",
        limit=query.limit,
        next=query.next,
    )
    envelope = FoundPage([], found.next, found.scanned, found.complete)
    return await encode_messages(envelope, found.messages, query.value_bytes)


async def list_group_messages(call: Call) -> bytes:
    query: StatePageQuery = call.query
    found = await call.queue.messages_page(
        call.params["topic"], group=call.params["group"], state=query.state, limit=query.limit, next=query.next
    )
    return await encode_messages(MessagePage([], found.next), found.messages, query.value_bytes)
