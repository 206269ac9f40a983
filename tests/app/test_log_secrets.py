"""Is nothing in the log, on any level, that a client sent in confidence, and nothing in an answer of how the server works?"""

import asyncio
import base64
import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

import ortoo
from ortoo.app.logs import configure_logs
from ortoo.app.server import Server
from ortoo.model.settings import LogSettings, WebhookSettings
from tests.app.receiver import receiving
from tests.app.test_logs import logging_as_it_was
from tests.app.test_server import ANY_PORT, change, http_url, remote, serving
from tests.app.test_webhook import until_told

__all__ = ["logging_as_it_was"]  # a fixture

MARK = re.compile("mark-[a-z]+")
TOKEN, SECRET = "mark-token", "mark-signing-secret"
WORDS = "mark-words"  # a traceback shows the line that raises, but not what this stands for
PUBLISH = "/v1/topics/orders/messages"


@pytest.fixture(params=["json", "text"])
def log(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, logging_as_it_was: Iterator[None]
) -> io.StringIO:
    stream = io.StringIO()
    configure_logs(LogSettings(level="debug", format=request.param), stream)
    for client in ("httpx", "httpcore"):  # the test's own, in the same process
        monkeypatch.setattr(logging.getLogger(client), "disabled", True)
    return stream


async def odd_requests(server: Server) -> list[str]:
    """What they are answered with."""
    good = {"authorization": f"Bearer {TOKEN}"}
    message = {"value": "mark-value", "key": "mark-key", "headers": {"mark-name": "mark-header"}}
    bodies = ({"messages": [message]}, {"messages": [message | {"priority": "mark-odd"}]}, {"mark-field": 1})
    tokens = ("Bearer mark-wrong", "Basic mark-basic", "mark-scheme")
    async with httpx.AsyncClient(base_url=http_url(server), headers=good, timeout=60) as http:
        answers = [
            *[await http.post(PUBLISH, json=body) for body in bodies],
            *[await http.get("/v1/topics", headers={"authorization": token}) for token in tokens],
            await http.post(PUBLISH, content=b'{"messages": [{"value": "mark-torn'),
            await http.get("/v1/topics?token=mark-url&access_token=mark-url"),
            await http.get("/v1/topics", headers={"x-api-key": "mark-api", "cookie": "a=mark-cookie"}),
        ]
    for raw in (b"mark-garbage\r\n\r\n", b"GET /?mark-query HTTP/1.1\r\nhost: a\r\nhost: mark-host\r\n\r\n"):
        for door in server.addresses:
            reader, writer = await asyncio.open_connection(*server.addresses[door])
            writer.write(raw)
            writer.write_eof()
            answers_raw = await reader.read()
            assert b"Traceback" not in answers_raw
            writer.close()
    return [answer.text for answer in answers]


async def odd_sockets(server: Server) -> None:
    url = http_url(server, "ws") + "/v1/stream"
    for token in (TOKEN, "mark-wrong"):
        offered = [f"bearer.{base64.urlsafe_b64encode(token.encode()).decode().rstrip('=')}", "ortoo"]
        try:
            async with connect(url, subprotocols=offered) as socket:  # type: ignore[arg-type]
                for said in (
                    {"type": "mark-type"},
                    {"type": "publish", "topic": "t", "messages": [{"value": "mark-ws"}]},
                ):
                    await socket.send(json.dumps(said))
                    await socket.recv()
        except WebSocketException:
            assert token != TOKEN


async def test_nothing_told_in_confidence_is_in_the_log(log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    webhooks = WebhookSettings(allow=["127.0.0.1"], secret=SECRET)
    settings = change(ANY_PORT, token=TOKEN, webhooks=webhooks, log=LogSettings(level="debug"))
    async with receiving() as receiver, serving(settings) as server:
        server.webhook._pauses = ()
        receiver.answers = [500]
        await odd_requests(server)
        await odd_sockets(server)
        with pytest.raises(ortoo.UnauthenticatedError):
            async with remote(server, "mark-wrong"):
                pass
        async with remote(server, TOKEN) as queue:
            url = f"http://mark-user:mark-password@127.0.0.1:{receiver.port}/mark-path?key=mark-query"
            await queue.create_topic("payments", dlq_webhook=url)
            await queue.publish("payments", b"mark-value", key="mark-key", headers={"a": "mark-header"})
            [letter] = await queue.lease("payments", wait=5)
            await letter.reject("mark-reason")
            await until_told(server.webhook)
    told = log.getvalue()
    assert "a webhook did not take a dead letter" in told
    assert MARK.findall(told) == []


async def test_mistakes_of_ours_tell_neither_the_log_what_was_sent_nor_the_client_how_it_works(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(change(ANY_PORT, token=TOKEN)) as server:

        async def fail(command: Any, *_: Any) -> None:
            try:
                raise KeyError(repr(command))
            except KeyError as error:
                raise RuntimeError(f"{WORDS}: {command}") from error

        async with remote(server, TOKEN) as queue:
            await queue.create_topic("orders")
            monkeypatch.setattr(server.broker, "publish", fail)
            with pytest.raises(ortoo.OrtooError, match="its log tells more"):
                await queue.publish("orders", b"mark-value", key="mark-key")
        answers = await odd_requests(server)
        await odd_sockets(server)
        asyncio.get_running_loop().call_exception_handler({"message": "odd", "future": RuntimeError("mark-future")})
    assert any('"status":500' in answer for answer in answers)
    assert not [answer for answer in answers if re.search("Traceback|RuntimeError|[.]py|mark-words", answer)]
    told = log.getvalue()
    for words in (
        "a request failed: POST",
        "a request failed in an unexpected way",
        "a WebSocket command failed",
        "RuntimeError",
    ):
        assert words in told
    assert "in fail" in told, "it tells where it happened"
    assert MARK.findall(told) == []


def test_words_of_the_system_are_told(log: io.StringIO) -> None:
    try:
        raise RuntimeError(WORDS) from OSError(28, "No space left on device")
    except RuntimeError:
        logging.getLogger("ortoo.store").exception("a checkpoint failed")
    assert "No space left on device" in log.getvalue()
    assert MARK.findall(log.getvalue()) == []
