"""Request and response."""

import asyncio

import pytest

from ortoo import ClosedError, InvalidError, NoReplyError, NotFoundError, Queue

from .actors import take


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
        await asyncio.wait_for(asking, 5)
