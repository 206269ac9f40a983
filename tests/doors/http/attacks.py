"""What a client might send that means no good, or does not know better: made from a seed, so that it can be sent again."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec
import zstandard
from websockets.frames import Frame, Opcode

from ortoo.model.settings import HttpSettings

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
    {"max_messages": 10, "wait": 2},
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
_FOREIGN_HOSTS = (
    b"evil.example",
    b"EVIL.example.:6632",
    b"localhost.evil.example",
    b"127.0.0.1.evil.example",
    b"localhost@evil.example",
)
_FOREIGN_ORIGINS = (
    b"https://evil.example",
    b"http://localhost.evil.example",
    b"http://localhost:1",
    b"https://localhost.",
    b"null",
)
BIG = "big"  # a topic with more in it than a system holds for a client that does not read
ANNOUNCED = HttpSettings().max_body_bytes


class Attack(NamedTuple):
    """What is sent, in its pieces, and what it must lead to."""

    pieces: Sequence[bytes]
    requests_max: int | None = None  # it gets no more answers than that; None: nobody knows
    is_refused: bool = False  # its first answer must be an error
    stays: bool = False  # it is for the server to end it
    reads: bool = True
    frames: Sequence[bytes] = ()  # once it has become a WebSocket


@cache
def _packed() -> list[tuple[str, bytes, bytes]]:
    """Very much in a few bytes, or in not so many: path, coding and body."""
    random = Random(1)
    receipts = b'{"receipts":[%b""]}' % (b'"",' * 2_000_000)
    messages = b'{"messages":[%b{}]}' % (b"{}," * 2_000_000)
    numbers = b'{"messages":[%b{}]}' % b"".join(b'{"value":%d},' % random.randrange(10**6) for _ in range(40_000))
    headers = b'{"messages":[{"value":1,"headers":{%b"x":""}}]}' % b"".join(b'"%d":"",' % n for n in range(50_000))
    publishes = b'{"publishes":[%b{}]}' % (b'{"topic":"t"},' * 300_000)
    acks = b'{"acks":[%b""]}' % (b'"ab",' * 300_000)
    many = b"".join(b'"%d":"",' % n for n in range(150_000))
    asked = b'{"value":1,"timeout":0,"headers":{%b"x":""}}' % many
    settings = b'{"name":"x","lease":[%b[]]}' % (b"[]," * 30_000)
    return [
        ("/v1/nack", b"gzip", gzip.compress(receipts, 9, mtime=0)),
        ("/v1/topics/t/groups/g/ack", b"zstd", zstandard.compress(receipts)),
        ("/v1/topics/t/messages", b"gzip", gzip.compress(messages, 9, mtime=0)),
        ("/v1/topics/t/messages", b"gzip", gzip.compress(numbers, 1, mtime=0)),
        ("/v1/topics/t/messages", b"identity", headers),
        ("/v1/transactions", b"gzip", gzip.compress(publishes, 1, mtime=0)),
        ("/v1/transactions", b"identity", acks),
        ("/v1/topics/t/request", b"identity", asked),
        ("/v1/topics/t/request", b"gzip", gzip.compress(asked, 1, mtime=0)),
        ("/v1/topics", b"identity", settings),
        ("/v1/topics", b"gzip", gzip.compress(settings + b" " * 100_000, 1, mtime=0)),
    ]


class Attacker:
    def __init__(self, seed: int, token: str | None) -> None:
        self._random = Random(seed)
        self._token = token

    def attack(self) -> Attack:
        special = (self._foreign, self._unfinished, self._upgrades_with_body, self._too_many, self._deaf)
        kinds: tuple[Callable[[], Attack], ...] = (*[self._anything] * 9, *[self._socket] * 5, *special)
        return self._random.choice(kinds)()

    def _anything(self) -> Attack:
        many = self._random.choice((1, 1, 1, 2, 4))
        made = [self._request() for _ in range(many)]
        data = b"".join(request for request, _ in made)
        if self._random.random() < 0.1:
            data += self._upgrade() + self._frame()
            many += 1
        sent = self._mangled(data)
        is_intact = sent == data
        stays = self._random.random() < 0.1
        # a body may hold, or be cut so that what is left of it looks like, another request: one more answer, an error
        return Attack(self._pieces(sent), many + 1 if is_intact else None, is_intact and made[0][1], stays=stays)

    def _socket(self) -> Attack:
        """Frames of all kinds; those of a client that does not wait for the server's consent are nobody's."""
        frames = b"".join(self._frame() for _ in range(self._random.randrange(1, 12)))
        stays = self._random.random() < 0.1
        return Attack([self._upgrade()], 2, stays=stays, frames=self._pieces(self._mangled(frames)))

    def _foreign(self) -> Attack:
        """What the page of another site sends: with a name of its own that it made point here, or with that of this server."""
        random = self._random
        is_socket = random.random() < 0.3
        path = b"/v1/stream" if is_socket else random.choice(_PATHS).format(topic="t").encode()
        method = b"GET" if is_socket else random.choice((b"GET", b"POST", b"DELETE", b"HEAD"))
        lines = [b"%b %b HTTP/1.1" % (method, path), b"content-length: 0"]
        if self._token is None and random.random() < 0.6:
            host = random.choice(_FOREIGN_HOSTS)
            lines += [b"host: " + host, *random.choice(([], [b"origin: http://" + host]))]
            lines += random.choice(([], [b"authorization: Bearer x"]))
        else:
            lines += [b"host: localhost", b"origin: " + random.choice(_FOREIGN_ORIGINS)]
            lines += [] if self._token is None else [b"authorization: Bearer " + self._token.encode()]
        if is_socket:
            lines += [*_SOCKET, *random.choice(([], [b"sec-websocket-protocol: ortoo, bearer.eA"]))]
        return Attack([b"\r\n".join([*lines, b"", b""])], 1, is_refused=True, stays=True)

    def _unfinished(self) -> Attack:
        """The rest never comes."""
        random = self._random
        head = b"\r\n".join([b"POST /v1/topics/t/messages HTTP/1.1", b"host: localhost", *self._authorization(), b""])
        part = b"x" * random.choice((0, 1, 1_000, 100_000, 300_000))
        match random.randrange(6):
            case 0:
                return Attack([head[: random.randrange(len(head))]], 0, stays=True)
            case 1:
                data = head + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b" % (len(part) + 1, part)
            case 2:
                text = Frame(Opcode.TEXT, b"x" * 400_000).serialize(mask=True)
                head = b"\r\n".join([b"GET /v1/stream HTTP/1.1", b"host: localhost", *self._authorization(), *_SOCKET])
                return Attack([head + b"\r\n\r\n"], 1, stays=True, frames=[text[: len(part) + 1]])
            case _:
                size = random.choice((len(part) + 1, ANNOUNCED, ANNOUNCED))
                data = head + b"content-length: %d\r\n\r\n" % size + part
        return Attack(self._pieces(data), 1, is_refused=True, stays=True)

    def _upgrades_with_body(self) -> Attack:
        head = [b"GET /v1/stream HTTP/1.1", b"host: localhost", *self._authorization(), *_SOCKET]
        more = self._random.choice(
            (
                b"content-length: 5\r\n\r\nhello",
                b"content-length: 5\r\n\r\n",
                b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                b"transfer-encoding: chunked\r\n\r\n",
                b"x: %b\r\n\r\n" % (b"a" * 9_000),
                b"".join(b"x%d: a\r\n" % number for number in range(200)) + b"\r\n",
            )
        )
        return Attack(self._pieces(b"\r\n".join([*head, more])), 1, is_refused=True, stays=True)

    def _too_many(self) -> Attack:
        path, coding, body = self._random.choice(_packed())
        lines = [b"POST %b HTTP/1.1" % path.encode(), b"host: localhost", *self._authorization()]
        lines += [b"content-encoding: " + coding, b"content-length: %d" % len(body), b"connection: close"]
        return Attack([b"\r\n".join([*lines, b"", body])], 1, is_refused=True, stays=True)

    def _deaf(self) -> Attack:
        """Asks for much and reads nothing."""
        random = self._random
        if random.random() < 0.3:
            path = b"/v1/topics/%b/messages?format=ndjson" % BIG.encode()
            lines = [b"GET %b HTTP/1.1" % path, b"host: localhost", *self._authorization(), b"", b""]
            return Attack([b"\r\n".join(lines) * random.choice((1, 20))], stays=True, reads=False)
        lines = [b"GET /v1/stream HTTP/1.1", b"host: localhost", *self._authorization(), *_SOCKET, b"", b""]
        command = {
            "type": "subscribe",
            "id": "s",
            "topic": BIG,
            "group": f"g{random.randrange(1 << 30)}",
            "credit": 1_000,
        }
        said = Frame(Opcode.TEXT, msgspec.json.encode({**command, "max_messages": 1})).serialize(mask=True)
        pings = Frame(Opcode.PING, b"p" * 125).serialize(mask=True) * random.choice((500, 20_000))
        return Attack([b"\r\n".join(lines)], stays=True, reads=False, frames=[said, pings])

    def _authorization(self) -> list[bytes]:
        return [] if self._token is None else [b"authorization: Bearer " + self._token.encode()]

    # -- requests

    def _request(self) -> tuple[bytes, bool]:
        """And whether it must be refused."""
        random = self._random
        path = random.choice(_PATHS).format(topic=random.choice(_TOPICS)).encode()
        method = random.choice(
            (b"GET", b"POST", b"POST", b"POST", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT")
        )
        version = random.choice((b"1.1",) * 8 + (b"1.0", b"2.0"))
        lines = [b"%b %b HTTP/%b" % (method, path, version), *self._good_headers()]
        lines += random.sample(_HEADERS, random.choice((0, 0, 1, 3)))
        is_refused = self._is_refused(method, path, lines)
        body = b"" if method == b"GET" and random.random() < 0.9 else self._body(lines)
        lines += [b"h%d: x" % number for number in range(200 if random.random() < 0.02 else 0)]
        return b"\r\n".join([*lines, b"", body]), is_refused

    def _is_refused(self, method: bytes, path: bytes, lines: list[bytes]) -> bool:
        if self._token is None and b"host: evil.example" in lines:
            return True
        if method == b"OPTIONS":
            return False  # whoever asks what is allowed is told
        is_stranger = self._token is not None and b"authorization: Bearer " + self._token.encode() not in lines
        return b"origin: https://evil.example" in lines or (is_stranger and path.startswith(b"/v1/"))

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
                body = gzip.compress(body if random.random() < 0.5 else b" " * 3_000_000, 1, mtime=0)
            case 1:
                lines.append(b"content-encoding: zstd")
                body = zstandard.compress(body if random.random() < 0.5 else b"[" * 3_000_000)
            case 2:
                lines.append(b"content-encoding: gzip")
                body = gzip.compress(b"", mtime=0) * 200 + zlib.compress(body)
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
