"""What a client might send that means no good, or does not know better: made from a seed, so that it can be sent again."""

from __future__ import annotations

import gzip
import zlib
from random import Random
from typing import Any

import msgspec
import zstandard
from websockets.frames import Frame, Opcode

TOKEN = "s3cret-token"
VALUE = "s3cret-value"

_TOPICS = ("t", "u", "a%2Fb", "%FF", "reply.x", "")
_PATHS = (
    "/health",
    "/metrics",
    "/openapi.json",
    "/v1/topics",
    "/v1/topics?namespace=other",
    "/v1/topics/{topic}",
    "/v1/topics/{topic}/messages",
    "/v1/topics/{topic}/messages?format=ndjson&limit=3",
    "/v1/topics/{topic}/groups/g",
    "/v1/topics/{topic}/groups/g/lease",
    "/v1/topics/{topic}/groups/g/ack",
    "/v1/topics/{topic}/request?namespace=other",
    "/v1/lease",
    "/v1/nack",
    "/v1/transactions",
    "/v1/stream",
    "/v1/stream?key=s3cret-query",
    "/nowhere",
    "*",
    "http://localhost/health",
)
_BODIES: tuple[Any, ...] = (
    {"messages": [{"value": VALUE, "key": "k"}]},
    {"messages": [{"value": 1, "delay": 60}, {"value_base64": "AAAA", "ttl": 1}]},
    {"messages": [{"value": 1, "priority": 1e999}]},
    {"max_messages": 10, "wait": 60},
    {"max_messages": 10, "consumer": "ann", "auto_ack": True},
    {"labels": {}, "wait": 1},
    {"receipts": ["1.2.1099511627777.0.0", "x", ""], "error": VALUE},
    {"receipts": [f"1.2.1099511627777.0.{n}" for n in range(2_000)]},
    {"value": VALUE, "timeout": 0.001},
    {"acks": [], "publishes": [{"topic": "u", "messages": [{"value": VALUE}]}]},
    {"name": "t", "partitions": 3},
    {"lease": 5, "dlq_webhook": "http://ann:s3cret-login@127.0.0.1:1/"},
    [[[[]]]] * 100,
)
_HEADERS = (
    b"accept-encoding: gzip",
    b"accept-encoding: zstd, br;q=0",
    b"connection: close",
    b"connection: keep-alive, upgrade",
    b"content-type: application/json",
    b"content-type: text/plain",
    b"expect: 100-continue",
    b"host: evil.example",
    b"host:",
    b"origin: http://localhost",
    b"origin: https://evil.example",
    b"upgrade: h2c",
    b"upgrade: websocket",
    b"authorization: Bearer s3cret-wrong",
    b"authorization: Basic s3cret-basic",
    b"x: " + b"y" * 9_000,
    b"x : y",
    b"x: \x00",
    b" folded",
    b"te: trailers",
    b"sec-websocket-protocol: ortoo, bearer.czNjcmV0",
)
_SOCKET = (
    b"connection: upgrade",
    b"upgrade: websocket",
    b"sec-websocket-version: 13",
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
)
_COMMANDS: tuple[Any, ...] = (
    {"type": "subscribe", "id": "s", "topic": "t", "credit": 100},
    {"type": "subscribe", "id": "s2", "labels": {}, "credit": 5, "group": "h", "max_messages": 2},
    {"type": "subscribe", "id": "s3", "topic": "missing"},
    {"type": "credit", "id": "s", "credit": 1_000_000},
    {"type": "unsubscribe", "id": "s"},
    {"type": "publish", "topic": "t", "messages": [{"value": VALUE}] * 5, "ref": "r"},
    {"type": "publish", "topic": "t", "messages": []},
    {"type": "ack", "receipts": ["1.2.1099511627777.0.0", "x"]},
    {"type": "extend", "receipts": [], "seconds": 1e308},
    {"type": "nonsense"},
    {"ref": "\U0001f600"},
    None,
    [],
)


class Attacker:
    def __init__(self, seed: int, token: str | None) -> None:
        self._random = Random(seed)
        self._token = token

    def conversation(self) -> list[bytes]:
        """In the pieces in which it is sent."""
        many = self._random.choice((1, 1, 1, 2, 4))
        data = b"".join(self._request() for _ in range(many))
        if self._random.random() < 0.4:
            data += self._upgrade() + b"".join(self._frame() for _ in range(self._random.randrange(12)))
        return self._pieces(self._mangled(data))

    # -- requests

    def _request(self) -> bytes:
        random = self._random
        path = random.choice(_PATHS).format(topic=random.choice(_TOPICS)).encode()
        method = random.choice(
            (b"GET", b"POST", b"POST", b"POST", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT")
        )
        version = random.choice((b"1.1",) * 8 + (b"1.0", b"2.0"))
        lines = [b"%b %b HTTP/%b" % (method, path, version), *self._good_headers()]
        lines += random.sample(_HEADERS, random.choice((0, 0, 1, 3)))
        body = b"" if method == b"GET" and random.random() < 0.9 else self._body(lines)
        lines += [b"h%d: x" % number for number in range(200 if random.random() < 0.02 else 0)]
        return b"\r\n".join([*lines, b"", body])

    def _good_headers(self) -> list[bytes]:
        headers = [b"host: localhost"] if self._random.random() < 0.95 else []
        if self._token is not None and self._random.random() < 0.8:
            headers.append(b"authorization: Bearer " + self._token.encode())
        return headers

    def _body(self, lines: list[bytes]) -> bytes:
        random = self._random
        body = msgspec.json.encode(random.choice(_BODIES))
        match random.randrange(8):
            case 0:
                lines.append(b"content-encoding: gzip")
                body = gzip.compress(body if random.random() < 0.5 else b" " * 3_000_000, 1)
            case 1:
                lines.append(b"content-encoding: zstd")
                body = zstandard.compress(body if random.random() < 0.5 else b"[" * 3_000_000)
            case 2:
                lines.append(b"content-encoding: gzip")
                body = b"".join(gzip.compress(b"") for _ in range(200)) + zlib.compress(body)
        match random.randrange(8):
            case 0:
                lines.append(b"transfer-encoding: chunked")
                chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in self._pieces(body) if part]
                body = b"".join([*chunks, b"0\r\n", self._trailers(), b"\r\n"])
            case 1:
                lines += [b"transfer-encoding: chunked", b"content-length: %d" % len(body)]
            case 2:
                lines.append(b"transfer-encoding: " + random.choice((b"gzip, chunked", b"chunked, chunked", b"x")))
            case 3:
                lines.append(
                    b"content-length: %d" % random.choice((0, len(body) + 5, len(body) // 2, 67_108_864, 10**20))
                )
            case _:
                lines.append(b"content-length: %d" % len(body))
        return body

    def _trailers(self) -> bytes:
        random = self._random
        trailer = random.choice((b"", b"a:b\r\n", b"authorization: Bearer " + TOKEN.encode() + b"\r\n", b"x" * 9_000))
        return trailer * random.choice((1, 1, 30_000 if len(trailer) < 10 else 2))

    # -- sockets

    def _upgrade(self) -> bytes:
        lines = [b"GET /v1/stream HTTP/1.1", *self._good_headers(), *_SOCKET]
        if self._random.random() < 0.1:
            lines += [self._random.choice((*_HEADERS, b"content-length: 5", b"transfer-encoding: chunked"))]
        return b"\r\n".join([*lines, b"", b""])

    def _frame(self) -> bytes:
        random = self._random
        text = msgspec.json.encode(random.choice(_COMMANDS))
        match random.randrange(10):
            case 0:
                return Frame(Opcode.PING, random.randbytes(random.randrange(126))).serialize(mask=True) * random.choice(
                    (50, 50, 5_000)
                )
            case 1:
                return Frame(Opcode.PONG, random.randbytes(4)).serialize(mask=True)
            case 2:
                return Frame(Opcode.CLOSE, random.choice((b"", b"\x03\xe8", b"\x00", b"\x03\xe8\xff"))).serialize(
                    mask=True
                )
            case 3:
                half = len(text) // 2
                empty = Frame(Opcode.CONT, b"", fin=False).serialize(mask=True) * 20
                first = Frame(Opcode.TEXT, text[:half], fin=False).serialize(mask=True)
                return first + empty + Frame(Opcode.CONT, text[half:]).serialize(mask=True)
            case 4:
                return Frame(Opcode.BINARY, random.randbytes(30)).serialize(mask=True)
            case 5:
                return random.randbytes(random.randrange(1, 20))
            case 6:
                return Frame(Opcode.TEXT, text).serialize(mask=random.random() < 0.5)
        return Frame(Opcode.TEXT, text).serialize(mask=True)

    # -- on the way

    def _mangled(self, data: bytes) -> bytes:
        random = self._random
        if random.random() < 0.7:
            return data
        changed = bytearray(data)
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(changed) + 1)
            changed[at : at + random.randrange(4)] = random.choice(
                (b"\r\n", b"\n", b"\x00", b":", b" ", b"\xff\xfe", b"\r", random.randbytes(2))
            )
        return bytes(changed)

    def _pieces(self, data: bytes) -> list[bytes]:
        cuts = sorted(self._random.randrange(len(data) + 1) for _ in range(self._random.choice((0, 0, 1, 3))))
        return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
