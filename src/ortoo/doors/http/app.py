"""The edge of the door: from a request to its handler, and from whatever happens there to an answer.

Everything is let in here, WebSockets too: `read_head`, then `Origins`, then the token.
"""

from __future__ import annotations

import binascii
import logging
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any
from uuid import uuid4

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model.errors import ClosedError, InvalidError, OrtooError, UnauthenticatedError

from .answers import (
    EVENTS,
    PROBLEM_TYPE,
    WORTHWHILE_BYTES,
    Answer,
    Headers,
    Problem,
    Refusal,
    Reply,
    Streaming,
    choose_coding,
    compress,
    compress_stream,
    encode_problem,
    problem_headers,
    to_problem,
    unexpected,
)
from .body import BodyReader, check_content_type, check_nests, check_values, parse_body
from .call import Call, ClientGone, ForeignSocket, HttpServices, Receive, Scope, Send, SocketCall
from .connection import Connection
from .origins import Origins
from .raw import NDJSON, is_raw, join_lines, media_type
from .routing import Dialect, Endpoint, Router, SocketHandler, decoded, parse_query
from .stream import Session

log = logging.getLogger("ortoo.http")

STREAM_PATH = b"/v1/stream"
SUBPROTOCOL = "ortoo"
AUTHORIZATION = (b"authorization",)
_UNCOUNTED = (b"/health", b"/ready")  # a balancer asks from the address that its clients come from
_TOKEN_PREFIX = "bearer."  # noqa: S105  what stands before a token
_END: Headers = [(b"connection", b"close")]  # where a request ends may be in doubt
_ONCE = {b"host", b"origin", b"authorization", b"content-type", b"transfer-encoding", b"content-encoding"}

_encode = msgspec.json.Encoder().encode


class App:
    """An ASGI application."""

    def __init__(
        self,
        services: HttpServices,
        router: Router,
        own: Dialect | None = None,
        sockets: Mapping[bytes, SocketHandler] | None = None,
        others: Mapping[bytes, ForeignSocket] | None = None,
    ) -> None:
        """`own`: the dialect whose port this is. `sockets`: WebSockets besides ours, by path; `others`: those of other doors."""
        self._services = services
        self._router = router
        self._own = own
        self._origins = Origins(services.settings)
        self._stream = Handshake(
            services, self._origins, others or {}, {STREAM_PATH: run_stream} if own is None else {}, sockets or {}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._stream(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = {}
        scope["dialect"], scope["undo"] = self._own, None
        body_reader = BodyReader(self._services.gate.budget, self._services.settings.max_body_bytes)
        try:
            try:
                headers = read_head(scope)
                answer = await self._serve(scope, receive, headers, body_reader)
            except (OrtooError, Refusal) as error:
                problem = to_problem(error)
                answer = _refuse(problem, scope["dialect"])
                answer.headers += problem_headers(error, problem.status)
            except ClientGone:
                return
            except Exception:  # a mistake of ours must not take the connection, or the door, with it
                log.exception("a request failed: %s %s", scope["method"], scope["path"])
                answer = _refuse(unexpected(), scope["dialect"])
            running = scope["state"]["connection"].running  # once it is answered, that is the next one
            await self._send(answer, headers, scope, send)
            if scope["undo"] is not None and not await running.has_left():
                with suppress(OrtooError):
                    await scope["undo"]()
        finally:
            body_reader.close()

    async def _serve(
        self, scope: Scope, receive: Receive, headers: dict[bytes, bytes], body_reader: BodyReader
    ) -> Answer | Streaming:
        method: str = scope["method"]
        found = self._find(scope)
        if scope["raw_path"] not in _UNCOUNTED:
            scope["state"]["visit"].ask()
        self._origins.check(method, headers)
        if isinstance(found, Refusal):
            raise found
        endpoints, given = found
        if method == "OPTIONS":
            return self._options(endpoints, headers)
        endpoint = endpoints.get("GET" if method == "HEAD" else method)
        if endpoint is not None and endpoint.is_acting_get:
            self._origins.check_acting(headers)
            endpoint = endpoint if method == "GET" else None  # to look only is what HEAD is for
        if endpoint is None:
            allowed = _methods(endpoints)
            raise Refusal(405, f"{method} is not for this path; {allowed} are", [(b"allow", allowed.encode())])
        call = Call(self._services, scope, receive, headers)
        dialect = scope["dialect"] = endpoint.dialect
        if endpoint.route.needs_token:
            token = bearer_token(headers, AUTHORIZATION if dialect is None else dialect.token_headers)
            call.link = self._services.gate.admit(token, _address(scope), call.peer)
        call.params = dict(zip(endpoint.names, given, strict=True))
        call.query = parse_query(endpoint.route.query, scope["query_string"])
        if endpoint.decoder is not None:
            call.body = await self._body(endpoint, call, body_reader)
        return _to_answer(await endpoint.route.handler(call), endpoint)

    def _find(self, scope: Scope) -> tuple[dict[str, Endpoint], list[str]] | Refusal:
        """Whose path it is comes first: whatever is refused is refused in the words of that system."""
        try:
            endpoints, given = self._router.find(scope["raw_path"])
            scope["dialect"] = next(iter(endpoints.values())).dialect
            return endpoints, [decoded(segment) for segment in given]
        except Refusal as error:
            return error

    async def _body(self, endpoint: Endpoint, call: Call, body_reader: BodyReader) -> Any:
        call.share = body_reader.share
        body = await body_reader.read(call.receive, call.headers, endpoint.bytes_max)
        if endpoint.route.takes_raw and is_raw(call.headers):
            self._origins.check_acting(call.headers)  # JSON is asked about first by browsers, other bodies may not be
            return body
        if endpoint.route.takes_raw and media_type(call.headers) == NDJSON:
            body = await join_lines(body)
        elif not body and endpoint.route.body_optional:
            body = b"{}"
        elif not body:
            raise InvalidError("this request needs a JSON body; /docs shows which")
        elif endpoint.dialect is None:
            check_content_type(call.headers)
        if endpoint.route.is_checked_later:
            check_nests(body)
        assert endpoint.decoder is not None
        check = endpoint.route.check or (None if endpoint.dialect is None else check_values)
        return await parse_body(endpoint.decoder, body, check)

    def _options(self, endpoints: dict[str, Endpoint], headers: dict[bytes, bytes]) -> Answer:
        allowed = _methods(endpoints)
        more = self._origins.preflight(headers, allowed)
        return Answer(b"", 204, headers=[(b"allow", allowed.encode()), *more])

    async def _send(self, answer: Answer | Streaming, headers: dict[bytes, bytes], scope: Scope, send: Send) -> None:
        head: Headers = [(b"content-type", answer.content_type)]
        head += self._origins.headers(headers)
        if isinstance(answer, Streaming):
            connection: Connection = scope["state"]["connection"]
            try:
                await _send_stream(answer, head, choose_coding(headers.get(b"accept-encoding")), connection, send)
            finally:
                if answer.ended is not None:
                    answer.ended()
            return
        body = answer.body
        head += answer.headers
        if answer.cache is not None:  # in the place of what holds for all others
            running = scope["state"]["connection"].running
            running.default_headers = [header for header in running.default_headers if header[0] != b"cache-control"]
            head.append((b"cache-control", answer.cache))
        if answer.coding is not None:
            head += [(b"content-encoding", answer.coding.encode())] if answer.coding != "identity" else []
        elif len(body) >= WORTHWHILE_BYTES and (coding := choose_coding(headers.get(b"accept-encoding"))) is not None:
            body = await compress(coding, body)
            head += [(b"content-encoding", coding.encode()), (b"vary", b"accept-encoding")]
        if answer.status in (204, 304):
            del head[0]
        else:
            head.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await send({"type": "http.response.body", "body": body})


async def _send_stream(
    answer: Streaming, head: Headers, coding: str | None, connection: Connection, send: Send
) -> None:
    chunks = answer.chunks
    if coding is not None and answer.content_type != EVENTS:  # those are small, and must come through at once
        chunks = compress_stream(coding, chunks)
        head += [(b"content-encoding", coding.encode()), (b"vary", b"accept-encoding")]
    await send({"type": "http.response.start", "status": answer.status, "headers": head})
    if connection.running.scope["method"] == "HEAD":
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.body", "body": b"", "more_body": True})  # the head does not wait for the first
    async with aclosing(answer.chunks):
        try:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})  # waits for a slow reader
                if connection.is_gone:
                    connection.cut()
                    return
        except OrtooError as error:  # too late for a status; an end without the last chunk shows that it is not all
            log.warning("a stream ended early: %s", error)
            connection.cut()
            return
    await send({"type": "http.response.body", "body": b""})


def _methods(endpoints: dict[str, Endpoint]) -> str:
    is_for_looking = "GET" in endpoints and not endpoints["GET"].is_acting_get
    known = {*endpoints, "OPTIONS"} | ({"HEAD"} if is_for_looking else set())
    return ", ".join(sorted(known))


def _refuse(problem: Problem, dialect: Dialect | None) -> Answer:
    return Answer(encode_problem(problem), problem.status, PROBLEM_TYPE) if dialect is None else dialect.refuse(problem)


def _to_answer(reply: Reply, endpoint: Endpoint) -> Answer | Streaming:
    if type(reply) is bytes:
        return Answer(reply, endpoint.route.status)
    if isinstance(reply, Answer | Streaming):
        return reply
    if reply is None:
        return Answer(b"", 204)
    return Answer(_encode(reply), endpoint.route.status)


# -- letting in


def read_head(scope: Scope) -> dict[bytes, bytes]:
    """The headers by name. A proxy may have read an ambiguous head otherwise than we do, so that one is refused."""
    pairs: Headers = scope["headers"]
    headers = dict(pairs)
    if len(headers) != len(pairs):
        given = [name for name, _ in pairs]
        for name in headers:
            if (name in _ONCE or name.startswith(b"ortoo-")) and given.count(name) > 1:
                raise Refusal(400, f"the header {name.decode('latin-1')} is given twice", _END)
    if b"host" not in headers and scope["http_version"] == "1.1":
        raise Refusal(400, "the header host is missing", _END)
    coding = headers.get(b"transfer-encoding", b"chunked")
    if coding.strip().lower() != b"chunked":
        raise Refusal(501, f"transfer-encoding may be chunked, not {coding!r}; see content-encoding", _END)
    return headers


def _address(scope: Scope) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


def bearer_token(headers: dict[bytes, bytes], names: tuple[bytes, ...] = AUTHORIZATION) -> str | None:
    given = next((headers[name] for name in names if name in headers), None)
    if given is None:
        return None
    scheme, _, token = given.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        raise UnauthenticatedError("this server takes `Authorization: Bearer TOKEN`")
    return token.strip()


def offered_token(subprotocols: list[str]) -> str | None:
    """A page cannot set headers on a WebSocket, so that its token comes as one of the subprotocols, in base64url."""
    for offered in subprotocols:
        if offered.startswith(_TOKEN_PREFIX):
            text = offered.removeprefix(_TOKEN_PREFIX)
            try:
                return urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
            except (binascii.Error, ValueError):
                raise UnauthenticatedError("the token of the subprotocol is not base64url") from None
    return None


# -- WebSockets


class Handshake:
    """Letting a WebSocket in, and then its session."""

    def __init__(
        self,
        services: HttpServices,
        origins: Origins,
        others: Mapping[bytes, ForeignSocket],
        *sockets: Mapping[bytes, SocketHandler],
    ) -> None:
        """`others`: of other protocols, which let their clients in themselves."""
        self._services = services
        self._others = others
        self._origins = origins
        self._sockets = {path: handler for some in sockets for path, handler in some.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        try:
            other = self._others.get(scope["raw_path"])
            if other is not None:
                self._check(scope)
                await other(scope, receive, send)
                return
            handler, link = self._admit(scope)
        except (OrtooError, Refusal) as error:
            await _refuse_socket(error, send)
            return
        try:
            await handler(SocketCall(self._services, link, scope, receive, send))
        finally:
            link.disconnect()

    def _check(self, scope: Scope) -> dict[bytes, bytes]:
        """Its headers, if it may come at all."""
        headers = read_head(scope)
        scope["state"]["visit"].ask()
        self._origins.check("GET", headers)
        if self._services.is_closing:
            raise ClosedError("the server stops")
        return headers

    def _admit(self, scope: Scope) -> tuple[SocketHandler, AuthorizedLink]:
        headers = self._check(scope)
        handler = self._sockets.get(scope["raw_path"])
        if handler is None:
            paths = [*self._sockets, *self._others]
            known = " and ".join(sorted(path.decode() for path in paths)) or "nowhere on this port"
            raise Refusal(404, f"there is no WebSocket here; it is at {known}", code="not_found")
        token = bearer_token(headers) or offered_token(scope["subprotocols"])
        return handler, self._services.gate.connect(token, _address(scope), scope["state"]["peer"])


async def run_stream(call: SocketCall) -> None:
    """Our own WebSocket."""
    scope = call.scope
    chosen = SUBPROTOCOL if SUBPROTOCOL in scope["subprotocols"] else None
    await call.send({"type": "websocket.accept", "subprotocol": chosen})
    visit, consumer = scope["state"]["visit"], f"ws-{uuid4().hex}"
    await Session(call.services, call.link, visit, consumer, call.receive, call.send).run()


async def _refuse_socket(error: OrtooError | Refusal, send: Send) -> None:
    problem = to_problem(error)
    headers = [(b"content-type", PROBLEM_TYPE), *problem_headers(error, problem.status)]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": encode_problem(problem)})
