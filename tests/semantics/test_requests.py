"""Request and response."""

import asyncio
from typing import Any

import pytest

from ortoo import ClosedError, InvalidError, NoReplyError, NotFoundError, Queue, TopicInfo, UnavailableError
from ortoo.testing import ManualClock

from .actors import take, until


async def answer(queue: Queue, count: int, **options: str) -> None:
    async for request in queue.consume("auth", **options):  # type: ignore[arg-type]
        await queue.reply(request, b"re: " + request.value, headers={"by": "server"})
        await request.ack()
        count -= 1
        if not count:
            return


async def test_a_request_is_answered(queue: Queue) -> None:
    """Request/response helper (reply-to + correlation id)."""
    await queue.create_topic("auth")
    server = asyncio.create_task(answer(queue, 1))
    reply = await queue.request("auth", b"hello", headers={"h": "v"})
    assert reply.value == b"re: hello"
    assert reply.headers["by"] == "server"
    await server


async def test_answers_find_their_requests(queue: Queue) -> None:
    """Request/response helper (reply-to + correlation id)."""
    await queue.create_topic("auth")
    server = asyncio.create_task(answer(queue, 20))
    replies = await asyncio.gather(*[queue.request("auth", b"%d" % number) for number in range(20)])
    assert [reply.value for reply in replies] == [b"re: %d" % number for number in range(20)]
    await server
    inboxes = [info.name for info in await queue.topics() if info.name != "auth"]
    assert len(inboxes) == 1  # one for the handle, however many requests


async def test_a_request_carries_reply_to_and_correlation_id(queue: Queue) -> None:
    """Correlation id + reply-to (request/response)."""
    await queue.create_topic("auth")
    asking = asyncio.create_task(queue.request("auth", b"1", headers={"h": "v"}))
    request = await anext(aiter(queue.consume("auth")))
    assert request.reply_to
    assert request.correlation_id
    assert request.headers["h"] == "v"
    await queue.reply(request, {"ok": True})
    assert (await asking).json() == {"ok": True}


async def test_nobody_answering_is_an_error_of_its_own(queue: Queue) -> None:
    """NoReplyError when none came."""
    await queue.create_topic("auth")
    with pytest.raises(NoReplyError, match=r"nobody answered the request to 'auth' within 0\.01"):
        await queue.request("auth", b"1", timeout=0.01)


async def test_a_request_nobody_took_expires(queue: Queue) -> None:
    """A request lives no longer than its timeout."""
    await queue.create_topic("auth")
    with pytest.raises(NoReplyError):
        await queue.request("auth", b"1", timeout=0.01)
    [message] = [message async for message in queue.read("auth")]
    events = (await queue.trace(message.id)).events
    assert [event.what for event in events] == ["published", "expires"]
    assert events[-1].time - events[0].time == pytest.approx(0.01)


async def test_an_answer_to_one_who_has_gone_is_not_found(queue: Queue) -> None:
    """NotFoundError when the one who asked has gone."""
    await queue.publish("auth", b"1", headers={"reply-to": "reply.gone", "correlation-id": "1"})
    [request] = await take(queue, "auth")
    with pytest.raises(NotFoundError):
        await queue.reply(request, b"2")
    assert [info.name for info in await queue.topics()] == ["auth"]


async def test_what_is_no_request_cannot_be_answered(queue: Queue) -> None:
    """A request has reply-to and correlation-id headers."""
    await queue.publish("auth", b"1")
    [message] = await take(queue, "auth")
    with pytest.raises(InvalidError, match="not a request"):
        await queue.reply(message, b"2")


async def test_closing_ends_requests_at_once(queue: Queue) -> None:
    """The queue is closed: whoever waits for an answer is told."""
    await queue.create_topic("auth")
    asking = asyncio.create_task(queue.request("auth", b"1", timeout=60))
    await anext(aiter(queue.consume("auth")))
    await queue.close()
    with pytest.raises(ClosedError):
        await asyncio.wait_for(asking, 60)


async def answered(queue: Queue) -> bytes:
    """A request, and what a consumer answers to it."""
    asking = asyncio.create_task(queue.request("auth", b"may I?", timeout=60))
    [request] = await queue.lease("auth", wait=60)
    await queue.reply(request, b"yes")
    await request.ack()
    return (await asking).value


async def test_a_request_works_after_one_whose_inbox_could_not_be_made(
    python_queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails once is tried again."""
    queue, create = python_queue, python_queue.create_topic

    async def fail(*args: Any, **settings: Any) -> TopicInfo:
        monkeypatch.setattr(queue, "create_topic", create)
        raise UnavailableError("not now")

    await queue.create_topic("auth")
    monkeypatch.setattr(queue, "create_topic", fail)
    with pytest.raises(UnavailableError, match="not now"):
        await queue.request("auth", b"may I?")
    assert await answered(queue) == b"yes"


async def test_a_request_works_after_its_inbox_was_deleted(python_queue: Queue) -> None:
    """An inbox that is gone is made again."""
    queue = python_queue
    await queue.create_topic("auth")
    assert await answered(queue) == b"yes"
    [inbox] = [info for info in await queue.topics() if info.name.startswith("reply.")]
    await queue.delete_topic(inbox.name)

    async def is_back() -> bool:
        return any(info.name == inbox.name for info in await queue.topics())

    await until(is_back)
    assert await answered(queue) == b"yes"


async def test_the_inbox_of_a_client_that_was_killed_goes_by_itself(python_queue: Queue, clock: ManualClock) -> None:
    """An inbox lives as long as somebody consumes it."""
    queue = python_queue
    for name in ("reply.killed", "reply.alive"):
        await queue.create_topic(name, labels={"ortoo": "inbox"})
        await queue.lease(name, consumer=f"{name} consumer")
    for _ in range(6):
        await clock.advance(9)
        await queue.lease("reply.alive", consumer="reply.alive consumer")
    assert [info.name for info in await queue.topics()] == ["reply.alive"]
