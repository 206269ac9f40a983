"""Small requests that would become large: refused with a word, before they cost anybody else time or memory."""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib
from base64 import b64decode
from typing import Any, get_args, get_origin, get_type_hints

import httpx
import msgspec
import pytest
import zstandard
from websockets.asyncio.client import connect

from ortoo.doors.http import messages, shapes
from ortoo.doors.http.body import _Body, check_counts, could_have_many
from ortoo.doors.http.connection import HEAD_BYTES_MAX, Connection
from ortoo.doors.http.routing import Endpoint, Route
from ortoo.doors.http.table import ROUTES
from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.settings import HttpSettings
from tests.doors.http.home import Home, serving, until
from tests.doors.watching import Watch, calmest

MB = 1 << 20
PUBLISH, ACK = "/v1/topics/t/messages", "/v1/topics/t/groups/g/ack"
TURN_SECONDS = 0.5  # CPU time; what is mended here took many seconds, and a busy machine takes a few times longer
GROWN = 200 * MB


async def send(home: Home, path: str, body: bytes, coding: str | None = None) -> httpx.Response:
    headers = {"content-type": "application/json"}
    if coding is not None:
        headers["content-encoding"] = coding
    responses = list[httpx.Response]()

    async def post() -> Watch:
        async with Watch() as watch:
            responses.append(await home.client.post(path, content=body, headers=headers))
        return watch

    watch = await calmest(post, stall=TURN_SECONDS)
    assert watch.longest_stall < TURN_SECONDS, watch
    assert watch.grown < GROWN, watch
    return responses[0]


def repeated(before: bytes, item: bytes, count: int, after: bytes) -> bytes:
    return before + item * count + after


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
async def test_receipts_by_the_million_in_a_few_packed_bytes_are_refused(home: Home, pack: Any) -> None:
    """They would fit into what such a body may have; it is what few bytes became so many that is refused."""
    body = repeated(b'{"receipts":[', b'"",', 600_000, b'""]}')
    packed = pack(body)
    assert len(body) < shapes.LIST_BYTES_MAX
    assert len(packed) < 10_000
    response = await send(home, ACK, packed, "gzip" if packed[:2] == b"\x1f\x8b" else "zstd")
    assert response.status_code == 413
    assert "100 times" in response.text


@pytest.mark.parametrize("path", [ACK, "/v1/topics/t/groups/g/nack", "/v1/topics/t/dlq/redrive"])
async def test_what_names_messages_is_bounded_by_its_bytes(home: Home, path: str) -> None:
    response = await send(home, path, repeated(b'{"receipts":[', b'"",', 1_000_000, b'""]}'))
    assert response.status_code == 413
    assert "at most 2097152 bytes" in response.text


@pytest.mark.parametrize("path", ["/v1/topics", "/v1/lease", "/v1/topics/t/archived", "/v1/topics/t/groups/g/lease"])
async def test_what_carries_and_names_no_messages_is_small(home: Home, path: str) -> None:
    response = await send(home, path, repeated(b'{"name":"x","lease":[', b"[],", 50_000, b"[]]}"))
    assert response.status_code == 413
    assert "at most 131072 bytes" in response.text


async def test_settings_that_nest_are_refused_before_they_are_built(home: Home) -> None:
    for item in (b"[],", b"{},"):
        response = await send(home, "/v1/topics", repeated(b'{"name":"x","lease":[', item, 30_000, item[:-1] + b"]}"))
        assert response.status_code == 400
        assert "more than 1000 arrays and objects" in response.text
    labels = {f"[{{{number}": "[" * 200 + '"' for number in range(limits.LABELS_MAX)}
    assert (await home.post("/v1/topics", {"name": "x", "labels": labels})).status_code == 201


async def test_a_topic_has_room_for_all_its_settings(home: Home) -> None:
    long = "é" * 125
    labels = {f"{number:03d}{long}": long for number in range(limits.LABELS_MAX)}
    url = "http://x/" + "y" * 2_000
    response = await home.post("/v1/topics", {"name": long, "labels": labels, "dlq_webhook": url})  # in ASCII
    assert response.status_code == 201, response.text


def many(name: str, count: int) -> bytes:
    """A field of so many texts."""
    if name == "headers":
        return b'"headers":{%b}' % b",".join(b'"%06x":""' % number for number in range(count))
    return b'"%b":[%b]' % (name.encode(), b",".join(b'"%02x"' % (number % 256) for number in range(count)))


PATHS = {"acks": "/v1/transactions", "receipts": ACK, "ids": "/v1/topics/t/dlq/redrive"}
PATHS |= {"parts": "/v1/transactions/x/commit", "headers": "/v1/topics/t/request"}


@pytest.mark.parametrize("name", PATHS)
async def test_texts_by_the_million_are_refused_before_they_are_built(home: Home, name: str) -> None:
    body = b"{%b}" % many(name, 1_000_000 if name in ("acks", "headers") else 400_000)
    response = await send(home, PATHS[name], body)
    assert response.status_code == 400
    assert f"at most {128 if name == 'headers' else 10_000} {name}" in response.text


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("how", ["twice", "escaped", "malformed"])
def test_texts_are_refused_however_often_their_field_is_there(name: str, how: str) -> None:
    """Of a field that is there twice, the last one counts, and the first is built all the same."""
    escaped = f"\\u{ord(name[0]):04x}{name[1:]}"
    again = {"twice": f',"{name}":null', "escaped": f',"{escaped}":null', "malformed": "]]"}[how].encode()
    with pytest.raises((InvalidError, msgspec.DecodeError)):
        check_counts(b"{%b%b}" % (many(name, 300_000), again))
    message = b'{"messages":[{%b%b}]}' % (many(name, 300_000), again)
    with pytest.raises((InvalidError, msgspec.DecodeError)):
        check_counts(message)


def test_texts_that_are_full_of_quotes_are_no_fields() -> None:
    text = b'"%b"' % (b'\\"' * 2_000)
    each = b'{"value":{"a":%b},"key":%b,"dedup_id":"\\"","headers":{"\\"":%b}}' % (text, text, text)
    body = b'{"messages":[%b]}' % b",".join([each] * 1_000)
    assert could_have_many(body)
    check_counts(body)
    check_counts(b'{"receipts":[],"error":"%b"}' % (b'\\"' * 500_000))


def holds_many(hint: Any) -> bool:
    return get_origin(hint) in (list, dict) or any(map(holds_many, get_args(hint)))


@pytest.mark.parametrize("route", [route for route in ROUTES if route.body], ids=lambda route: route.path)
def test_whatever_may_be_many_in_a_large_body_is_counted(route: Route) -> None:
    assert route.body is not None
    for name, hint in get_type_hints(route.body).items():
        if holds_many(hint) and Endpoint(route).bytes_max != shapes.BODY_BYTES_MAX:
            assert name in _Body.__struct_fields__


async def test_more_receipts_than_a_lease_can_have_are_refused(home: Home) -> None:
    response = await send(home, ACK, repeated(b'{"receipts":[', b'"",', 10_000, b'""]}'))
    assert response.status_code == 400
    assert "10000" in response.text


async def test_as_many_receipts_as_a_lease_can_have_are_settled(home: Home) -> None:
    await home.queue.create_topic("t", partitions=1)
    await home.queue.publish_many("t", [b"x"] * 10_000)
    receipts = [message["receipt"] for message in await home.lease("t", max_messages=10_000)]
    assert len(receipts) == 10_000
    response = await home.post(ACK, {"receipts": receipts})
    assert all(result["ok"] for result in response.json()["results"])


@pytest.mark.parametrize(
    "body",
    [
        repeated(b'{"messages":[', b"{},", 5_000_000, b"{}]}"),
        repeated(b'{"messages":[', b'{"value":1},', 1_300_000, b'{"value":1}]}'),
        repeated(b'{"messages":[ ', b'{"value":{}} ,', 10_000, b'{"value":1}]}'),
    ],
    ids=["empty", "small", "one too many"],
)
async def test_more_messages_than_a_batch_has_are_refused_before_they_are_built(home: Home, body: bytes) -> None:
    response = await send(home, PUBLISH, body)
    assert response.status_code == 400
    assert "at most 10000 messages" in response.text


async def test_a_transaction_has_no_more_messages_than_a_batch(home: Home) -> None:
    publish = repeated(b'{"topic":"t","messages":[', b"{},", 5_000, b"{}]},")
    response = await send(home, "/v1/transactions", repeated(b'{"publishes":[', publish, 1_000, b"]}"))
    assert response.status_code == 400
    assert "at most 10000 messages" in response.text


async def test_headers_by_the_million_are_refused_before_they_are_built(home: Home) -> None:
    headers = b",".join(b'"%d":""' % number for number in range(1_000_000))
    response = await send(home, PUBLISH, b'{"messages":[{"value":1,"headers":{' + headers + b"}}]}")
    assert response.status_code == 400
    assert "at most 128 headers" in response.text


async def test_headers_of_many_messages_are_refused_before_they_are_built(home: Home) -> None:
    headers = b",".join(b'"%d":""' % number for number in range(128))
    response = await send(
        home, PUBLISH, repeated(b'{"messages":[', b'{"value":1,"headers":{%b}},' % headers, 9_999, b"{}]}")
    )
    assert response.status_code == 400
    assert "at most 250000 headers" in response.text


async def test_a_body_that_is_too_large_is_told_what_to_do(home: Home) -> None:
    response = await home.client.post(PUBLISH, content=bytes(16 * MB + 1))
    assert response.status_code == 413
    assert "raise http.max_body_bytes" in response.json()["detail"]
    response = await home.client.post(ACK, content=bytes(3 * MB))
    assert response.status_code == 413
    assert "send several requests" in response.json()["detail"]


async def test_a_full_batch_of_values_that_are_objects_is_published(home: Home) -> None:
    body = repeated(
        b'{"messages":[', b'{"value":{"a":{},"b":"\\"{{"},"headers":{"h":"\\""}},', 9_999, b'{"value":{}}]}'
    )
    response = await home.client.post(PUBLISH, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 201
    assert len(response.json()["results"]) == 10_000


async def test_a_file_of_very_many_members_takes_no_longer_than_another(home: Home) -> None:
    member = gzip.compress(b" ")
    response = await send(home, PUBLISH, member * (3 * MB // len(member)), "gzip")
    assert response.status_code == 400
    assert "members" in response.text


async def test_a_file_of_some_members_is_one_body(home: Home) -> None:
    body = b'{"messages":[{"value":"' + b"x" * 100_000 + b'"}]}'
    members = [gzip.compress(body[at : at + 100]) for at in range(0, len(body), 100)]
    response = await send(home, PUBLISH, b"".join(members), "gzip")
    assert response.status_code == 201


@pytest.mark.parametrize("cut", [1, 9, 30])
async def test_a_file_whose_last_member_is_cut_short_is_refused(home: Home, cut: int) -> None:
    packed = gzip.compress(b'{"messages":[') + gzip.compress(b'{"value":1}]}')
    response = await send(home, PUBLISH, packed[:-cut], "gzip")
    assert response.status_code == 400
    assert "decompressed" in response.text


async def test_what_unpacks_to_very_much_more_than_was_sent_is_refused(home: Home) -> None:
    body = repeated(b'{"messages":[{"value":"', b"x", 8 * MB, b'"}]}')
    assert len(body) < HttpSettings().max_body_bytes
    response = await send(home, PUBLISH, zlib.compress(body, wbits=31), "gzip")
    assert response.status_code == 413
    assert "100 times" in response.text


@pytest.mark.parametrize("kind", ["ack", "nack", "subscribe"])
async def test_what_is_no_publish_is_small_on_a_socket_too(home: Home, kind: str) -> None:
    said = repeated(b'{"receipts":[', b'"",', 5_000, b'""],"type":"%b"}' % kind.encode() + b" " * 3 * MB).decode()
    async with connect(home.stream_url, max_size=None) as socket:

        async def send() -> Watch:
            async with Watch() as watch:
                await socket.send(said)
                told = await socket.recv()
            assert f"at most {131072 if kind == 'subscribe' else 2097152} bytes" in str(told)
            return watch

        watch = await calmest(send, stall=TURN_SECONDS)
        assert watch.longest_stall < TURN_SECONDS, watch


async def test_a_batch_on_a_socket_has_no_more_messages_than_another(home: Home) -> None:
    said = repeated(b'{"topic":"t","messages":[', b"{},", 5_000_000, b'{}],"type":"publish"}').decode()
    async with connect(home.stream_url, max_size=None) as socket:

        async def send() -> Watch:
            async with Watch() as watch:
                await socket.send(said)
                told = await socket.recv()
            assert "at most 10000 messages" in str(told)
            return watch

        watch = await calmest(send, stall=TURN_SECONDS)
        assert watch.longest_stall < TURN_SECONDS, watch


async def test_a_large_answer_is_written_a_part_at_a_time(home: Home) -> None:
    """As much as one answer takes, in binary, which has to be written as text."""
    await home.queue.create_topic("t", partitions=1)
    for number in range(30):
        await home.queue.publish("t", bytes([number]) * MB)
    await home.queue.publish("t", b"last")
    parts = []

    def watched(views: Any) -> bytes:
        parts.append(len(views))
        return msgspec.json.encode(views)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "_encode", watched)
        response = await home.client.post("/v1/topics/t/groups/g/lease", json={"max_messages": 100})
    leased = response.json()["messages"]
    assert [b64decode(message["value_base64"])[:1] for message in leased] == [bytes([n]) for n in range(30)] + [b"l"]
    assert max(parts) <= 5
    assert sum(parts) == 31


async def test_a_large_delivery_on_a_socket_is_whole(home: Home) -> None:
    await home.queue.create_topic("t", partitions=1)
    for number in range(10):
        await home.queue.publish("t", bytes([number]) * MB)
    async with connect(home.stream_url, max_size=None) as socket:
        await socket.send('{"type":"subscribe","id":"s","topic":"t","credit":10,"max_messages":10}')
        found: list[Any] = []
        while len(found) < 10:
            told = msgspec.json.decode(await socket.recv())
            found += told.get("messages", [])
        assert [message["offset"] for message in found] == list(range(10))


CHUNKED = b"POST /v1/topics/t/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n%b"
CHUNKED += b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
BODY = b'{"messages":[{"value":1}]}'
CHUNK = b"%x\r\n%b\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize("head", [CHUNKED % b"", b"GET /health HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"])
@pytest.mark.parametrize("piece", [b"a:b\r\n" * 2_000, b"x" * 10_000], ids=["many", "long"])
async def test_trailers_without_end_are_refused_and_kept_by_nobody(home: Home, head: bytes, piece: bytes) -> None:
    _, writer = await asyncio.open_connection(home.host, home.port)
    writer.write(head + b"0\r\n")
    await until(lambda: bool(home.door._state.connections))
    [end] = home.door._state.connections
    assert isinstance(end, Connection)
    await until(lambda: end.headers is not None)
    before = len(end.headers)
    for _ in range(50):
        writer.write(piece)
        await asyncio.sleep(0)
        assert len(end.headers) == before
    await until(lambda: home.gate.connections == 0)
    writer.transport.abort()


async def test_a_body_with_an_extension_without_end_is_refused(home: Home) -> None:
    reader, writer = await asyncio.open_connection(home.host, home.port)
    writer.write(CHUNKED % b"" + b"1;" + b"x" * 3 * HEAD_BYTES_MAX)
    assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
    writer.transport.abort()


async def test_a_token_in_a_trailer_lets_nobody_in() -> None:
    async with serving(token="sesame") as home:
        token = b"authorization: Bearer sesame\r\n"
        answer = await home.raw(CHUNKED % b"" + CHUNK + b"0\r\n" + token + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 401 "), answer
        answer = await home.raw(CHUNKED % token + CHUNK + b"0\r\nx: y\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 201 "), answer


@pytest.mark.parametrize(("size", "status"), [(HEAD_BYTES_MAX - 2_000, b"201"), (HEAD_BYTES_MAX + 1, b"431")])
async def test_the_bound_of_a_head_holds_however_much_of_it_comes_at_once(home: Home, size: int, status: bytes) -> None:
    extra = b"".join(b"%0100d: %0895d\r\n" % (number, 0) for number in range(size // 999))
    extra += b"x: " + b"y" * (size - len(extra)) + b"\r\n"
    reader, writer = await asyncio.open_connection(home.host, home.port)
    await until(lambda: bool(home.door._state.connections))
    [end] = home.door._state.connections
    end.data_received(CHUNKED % extra + CHUNK + b"0\r\n\r\n")  # in one read
    assert re.findall(rb"HTTP/1.1 (\d+)", await reader.read()) == [status]
    writer.close()
