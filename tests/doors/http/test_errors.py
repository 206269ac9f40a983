"""What goes wrong, and how it is told: statuses, problem documents, limits, codings, tokens."""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import zlib
from typing import Any

import httpx
import pytest
import zstandard

from ortoo import OrtooError
from ortoo.broker import Share
from ortoo.doors.http import answers, body
from ortoo.model import errors
from ortoo.model.settings import HttpSettings, LimitSettings
from tests.doors.http.home import Home, serving, until

JSON = {"content-type": "application/json"}
PUBLISH = "/v1/topics/t/messages"


def problem(response: httpx.Response, status: int, code: str) -> str:
    """Its detail, once everything else has been checked."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["code"] == code
    assert body["type"] == f"/docs#{code}"
    assert body["title"]
    detail: str = body["detail"]
    return detail


def tree(kind: type[OrtooError] = OrtooError) -> set[type[OrtooError]]:
    return {kind}.union(*(tree(child) for child in kind.__subclasses__() if child.__module__ == errors.__name__))


def test_every_error_has_a_status_of_its_own() -> None:
    assert set(answers.STATUS) == tree()
    faults = {kind: answers.STATUS[kind] for kind in tree()}
    for kind, status in faults.items():
        if issubclass(kind, errors.RequestError):
            assert 400 <= status < 500, kind
        if issubclass(kind, errors.UnavailableError | errors.CorruptionError | errors.OutcomeUnknownError):
            assert status >= 500, kind


def test_an_error_that_is_not_listed_has_the_status_of_its_nearest_kind() -> None:
    class Special(errors.NotFoundError):
        pass

    assert answers.status_of(Special("x")) == 404


async def test_unknown_paths_and_methods(home: Home) -> None:
    assert "/nowhere" in problem(await home.client.get("/nowhere"), 404, "not_found")
    assert problem(await home.client.get("/v1/topics/t/groups/g/nothing"), 404, "not_found")
    response = await home.client.put("/v1/topics/t")
    problem(response, 405, "invalid")
    assert response.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"messages":[{"value":1},]}', r"malformed.*byte 25"),
        (
            b'{"messages":[{"value":1},{"value":1,"priority":true}]}',
            r"^messages\[1\]\.priority must be .*, not a boolean$",
        ),
        (b'{"messages":[{"value":1,"prio":1}]}', r"^messages\[0\]\.prio is not a known field$"),
        (b'{"messages":[{"value":1,"publisher":"billing"}]}', r"^messages\[0\]\.publisher is not a known field$"),
        (b'{"messages":[{"value":1}],"publisher":"billing"}', "^publisher is not a known field$"),
        (b'{"messages":[{}]}', r"value or value_base64.*messages\[0\]"),
        (b'{"messages":[{"value":1,"value_base64":""}]}', "value or value_base64"),
        (b'{"messages":[{"value_base64":"*"}]}', r"^messages\[0\]\.value_base64 must be base64$"),
        (b'{"messages":[]}', "^messages must have at least 1 item$"),
        (b'{"messages":[{"value":"\xff"}]}', r"not UTF-8.*byte 23"),
        (b'{"messages":[{"value":"\\ud800"}]}', r"\\ud800 is half a character \(byte 23\)"),
        (b'{"messages":[{"value":"\\ud83d\\ude00\\uDC00"}]}', r"\\uDC00 is half a character \(byte 35\)"),
        (b'{"messages":[{"value":"\\ud800x","key":"\\ud83d\\ude00"}]}', r"\\ud800 is half a character \(byte 23\)"),
        (b'{"messages":[{"value":"\\ud83d\\ude00"}', "truncated"),
        (b'{"messages":[{"value":1,"priority":-1}]}', "priority is 0 to"),
        (b'{"messages":[{"value":1,"delay":1e400}]}', ""),
        (b'{"messages":[{"value":1,"headers":{"a":1}}]}', r"headers"),
        (b'{"messages":[{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", "nested too deeply"),
        (b"", "needs a JSON body"),
        (b"[]", "^the body must be an object, not an array$"),
        (b"null", "^the body must be an object, not null$"),
    ],
)
async def test_a_bad_body_is_told_precisely(home: Home, body: bytes, words: str) -> None:
    response = await home.client.post(PUBLISH, content=body, headers=JSON)
    detail = problem(response, 400, "invalid")
    assert re.search(words, detail), detail
    assert await home.queue.topics() == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"{PUBLISH}?limit=0", "limit"),
        (f"{PUBLISH}?limit=x", "limit"),
        (f"{PUBLISH}?from_offset=-1", "from_offset"),
        (f"{PUBLISH}?nonsense=1", "there is no query parameter 'nonsense'"),
        (f"{PUBLISH}?limit=1&limit=2", "twice"),
        (f"{PUBLISH}?next=%FF", "query"),
        (f"{PUBLISH}?next=AAAA", "continuation"),
        (f"{PUBLISH}?next=AAAA&from_offset=1", "no other"),
        ("/v1/topics/%FF/messages", "UTF-8"),
        ("/v1/messages/7", "message id"),
        ("/v1/topics?namespace=", "namespace"),
        ("/v1/stats?namespace=%00", "namespace"),
        (f"{PUBLISH}?from_offset=1&from_time=1", "one of"),
    ],
)
async def test_a_bad_path_or_query_is_told_precisely(home: Home, path: str, words: str) -> None:
    await home.queue.create_topic("t")
    assert words in problem(await home.client.get(path), 400, "invalid")


async def test_errors_of_the_queue_keep_their_codes(home: Home) -> None:
    problem(await home.client.get("/v1/topics/none"), 404, "not_found")
    problem(await home.post("/v1/topics", {"name": "t", "partitions": 0}), 400, "config")
    problem(await home.post("/v1/topics", {"name": "t", "particles": 1}), 400, "config")
    assert "a topic needs a name" in problem(await home.post("/v1/topics", {}), 400, "invalid")
    await home.post("/v1/topics", {"name": "t", "partitions": 2})
    problem(await home.post("/v1/topics", {"name": "t", "partitions": 3}), 409, "exists")
    await home.publish("t", 1)
    [message] = await home.lease("t")
    await home.queue.release(message["receipt"])
    body = {"acks": [message["receipt"]], "publishes": [{"topic": "u", "messages": [{"value": 1}]}]}
    response = await home.post("/v1/transactions", body)
    problem(response, 409, "lease_lost")
    assert response.json()["lost"] == [message["receipt"]]


async def test_a_mistake_of_the_server_tells_no_internals(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*args: Any) -> Any:
        raise ValueError("the secret is 42")

    monkeypatch.setattr("ortoo.broker.gate.AuthorizedLink.ask", broken)
    response = await home.client.get("/v1/stats")
    assert "42" not in problem(response, 500, "error")
    assert "the secret is 42" in caplog.text
    caplog.clear()
    assert (await home.client.get("/health")).status_code == 200


async def test_the_queue_being_away_is_the_servers_fault(home: Home) -> None:
    await home.broker.close()
    response = await home.client.get("/v1/stats")
    problem(response, 503, "closed")
    assert response.headers["retry-after"]


# -- sizes and codings


async def test_a_body_may_not_be_too_large() -> None:
    async with serving(settings=HttpSettings(max_body_bytes=2000)) as home:
        large = b'{"messages":[{"value":"' + b"x" * 5000 + b'"}]}'
        assert "2000" in problem(await home.client.post(PUBLISH, content=large, headers=JSON), 413, "invalid")
        assert (await home.client.get("/health")).status_code == 200

        async def chunks() -> Any:
            for _ in range(5):
                yield large[:1000]

        problem(await home.client.post(PUBLISH, content=chunks(), headers=JSON), 413, "invalid")
        assert (await home.client.get("/health")).status_code == 200
        await until(lambda: home.gate.budget.bytes == 0)


def compressed(coding: str, data: bytes) -> bytes:
    return gzip.compress(data) if coding == "gzip" else zstandard.compress(data)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_a_body_may_be_compressed(home: Home, coding: str) -> None:
    body = compressed(coding, b'{"messages":[{"value":"squeezed"}]}')
    headers = {**JSON, "content-encoding": coding}
    assert (await home.client.post(PUBLISH, content=body, headers=headers)).status_code == 201
    assert (await home.lease("t"))[0]["value"] == "squeezed"
    for broken in (body[:-9], b"nonsense"):
        problem(await home.client.post(PUBLISH, content=broken, headers=headers), 400, "invalid")


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_a_small_body_cannot_unpack_into_a_large_one(coding: str) -> None:
    async with serving(settings=HttpSettings(max_body_bytes=100_000)) as home:
        bomb = compressed(coding, b" " * 50_000_000)
        headers = {**JSON, "content-encoding": coding}
        assert len(bomb) < 100_000
        problem(await home.client.post(PUBLISH, content=bomb, headers=headers), 413, "invalid")
        await until(lambda: home.gate.budget.bytes == 0)


async def test_unknown_codings_and_types_are_refused(home: Home) -> None:
    headers = {**JSON, "content-encoding": "br"}
    response = await home.client.post(PUBLISH, content=b"x", headers=headers)
    problem(response, 415, "invalid")
    assert "gzip" in response.headers["accept-encoding"]
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert "application/json" in problem(await home.client.post(PUBLISH, content=b"{}", headers=form), 415, "invalid")


@pytest.mark.parametrize(("accept", "coding"), [("gzip", "gzip"), ("gzip, zstd", "zstd"), ("*", "zstd")])
async def test_answers_are_compressed_when_asked(home: Home, accept: str, coding: str) -> None:
    await home.publish("t", "x" * 10_000)
    for path in (PUBLISH, f"{PUBLISH}?format=ndjson"):
        async with home.client.stream("GET", path, headers={"accept-encoding": accept}) as response:
            assert response.headers["content-encoding"] == coding
            packed = b"".join([chunk async for chunk in response.aiter_raw()])
        unpacked = (
            zlib.decompress(packed, 31)
            if coding == "gzip"
            else zstandard.ZstdDecompressor().stream_reader(packed).read()
        )
        assert b"x" * 10_000 in unpacked
        assert len(packed) < 1000


@pytest.mark.parametrize("accept", ["identity", "gzip;q=0, zstd; q=0.0", "br"])
async def test_answers_are_not_compressed_unasked(home: Home, accept: str) -> None:
    await home.publish("t", "x" * 10_000)
    response = await home.client.get(PUBLISH, headers={"accept-encoding": accept})
    assert "content-encoding" not in response.headers
    small = await home.client.get("/health", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in small.headers


async def test_more_bytes_than_the_server_holds_at_a_time_are_refused_for_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_ROOM_SECONDS", 0.1)
    async with serving(limits=LimitSettings(in_flight_bytes=1024 * 1024)) as home:
        somebody = Share(home.gate.budget)
        somebody.take(1024 * 1024)
        response = await home.post(PUBLISH, {"messages": [{"value": "x" * 600_000}]})
        problem(response, 429, "too_many")
        assert response.headers["retry-after"]
        somebody.close()
        await home.publish("t", 1)
        await until(lambda: home.gate.budget.bytes == 0)


async def test_one_client_too_many_is_told_so() -> None:
    async with serving(limits=LimitSettings(connections=1)) as home:
        await home.publish("t", 1)
        assert home.gate.connections == 1
        answer = await home.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b'"code":"too_many"' in answer
        await home.client.aclose()
        await until(lambda: not home.gate.connections)


# -- tokens


async def test_with_a_token_set_it_must_be_presented() -> None:
    async with serving(token="s3cret") as home:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic czNjcmV0"}):
            response = await home.client.get("/v1/stats", headers=headers)
            problem(response, 401, "unauthenticated")
            assert response.headers["www-authenticate"].startswith("Bearer")
        assert (await home.client.get("/v1/stats", headers={"authorization": "Bearer s3cret"})).status_code == 200
        for path in ("/health", "/ready", "/openapi.json", "/docs"):
            assert (await home.client.get(path)).status_code == 200
        problem(await home.client.get("/metrics"), 401, "unauthenticated")


# -- HTTP itself


async def test_head_and_options(home: Home) -> None:
    head = await home.client.head("/v1/stats")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0
    options = await home.client.options(PUBLISH)
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")


async def test_a_client_that_offers_http2_is_served_all_the_same(home: Home) -> None:
    body = b'{"messages":[{"value":"h2c"}]}'
    head = (
        b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    answer = await home.raw(head % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert (await home.lease("t"))[0]["value"] == "h2c"


async def test_a_head_without_end_is_refused(home: Home) -> None:
    answer = await home.raw(b"GET /health HTTP/1.1\r\nx: " + b"a" * 100_000)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert home.gate.connections == 0


async def test_a_client_that_says_nothing_is_let_go(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from ortoo.doors.http import connection

    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.0)
    reader, writer = await asyncio.open_connection(home.host, home.port)
    await until(lambda: bool(home.door._state.connections))
    [quiet] = home.door._state.connections
    assert isinstance(quiet, connection.Connection)
    quiet.sweep(asyncio.get_running_loop().time() + 1)
    assert await reader.read() == b""
    writer.close()


async def test_requests_in_a_row_on_one_connection_are_answered_in_order(home: Home) -> None:
    request = b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    answer = await home.raw(request % b"/health" + request % b"/nowhere" + last)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"404", b"200"]


async def test_the_door_leaves_the_programs_logging_alone() -> None:
    before = (logging.root.level, list(logging.root.handlers), list(logging.getLogger("uvicorn.access").handlers))
    propagates = logging.getLogger("uvicorn.access").propagate
    async with serving() as home:
        await home.client.get("/health")
    after = (logging.root.level, list(logging.root.handlers), list(logging.getLogger("uvicorn.access").handlers))
    assert after == before
    assert logging.getLogger("uvicorn.access").propagate == propagates


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", b"400"),
        (b"host: localhost\r\nhost: localhost\r\n", b"400"),
        (b"host: localhost\r\nHost: evil.example\r\n", b"400"),
        (b"host: localhost\r\norigin: http://localhost\r\norigin: http://evil.example\r\n", b"400"),
        (b"host: localhost\r\nauthorization: Bearer a\r\nauthorization: Bearer b\r\n", b"400"),
        (b"host: localhost\r\ntransfer-encoding: gzip, chunked\r\n", b"501"),
        (b"host: localhost\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", b"400"),
        (b"host: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n", b"400"),
        (b"host: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n", b"400"),
    ],
)
async def test_an_ambiguous_head_is_refused_and_ends_the_connection(home: Home, head: bytes, status: bytes) -> None:
    answer = await home.raw(b"GET /health HTTP/1.1\r\n" + head + b"\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [status], answer


async def test_http_1_0_needs_no_host(home: Home) -> None:
    assert (await home.raw(b"GET /health HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
