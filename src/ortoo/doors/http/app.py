"""The edge of the door: from a request to its handler, and from whatever happens there to an answer."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from ortoo.model.errors import InvalidError, OrtooError

from .body import BodyReader, check_content_type, parse_body, parse_query
from .call import Answer, Call, Reply, Scope, Send, Streaming
from .coding import WORTHWHILE_BYTES, choose, encode, encode_stream
from .connection import Connection
from .counting import check_nests
from .handshake import Handshake, bearer_token
from .head import read_head
from .origin import Origins
from .problems import CONTENT_TYPE, Headers, Refusal, encode_problem, problem_headers, to_problem, unexpected
from .routing import Endpoint, Router
from .services import ClientGone, HttpServices, Receive

log = logging.getLogger("ortoo.http")

_encode = msgspec.json.Encoder().encode


class App:
    """An ASGI application."""

    def __init__(self, services: HttpServices, router: Router) -> None:
        self._desk = services
        self._router = router
        self._origins = Origins(services.settings, services.gate.needs_token)
        self._stream = Handshake(services, self._origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._stream(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = {}
        intake = BodyReader(self._desk.gate.budget, self._desk.settings.max_body_bytes)
        try:
            try:
                headers = read_head(scope)
                answer = await self._serve(scope, receive, headers, intake)
            except (OrtooError, Refusal) as error:
                answer = _problem_answer(error)
            except ClientGone:
                return
            except Exception:  # a mistake of ours must not take the connection, or the door, with it
                log.exception("a request failed: %s %s", scope["method"], scope["path"])
                answer = Answer(encode_problem(unexpected()), 500, CONTENT_TYPE)
            await self._send(answer, headers, scope, send)
        finally:
            intake.close()

    async def _serve(
        self, scope: Scope, receive: Receive, headers: dict[bytes, bytes], intake: BodyReader
    ) -> Answer | Streaming:
        method: str = scope["method"]
        self._origins.check(method, headers)
        endpoints, params = self._router.find(scope["raw_path"])
        if method == "OPTIONS":
            return self._options(endpoints, headers)
        endpoint = endpoints.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            allowed = _methods(endpoints)
            raise Refusal(405, f"{method} is not for this path; {allowed} are", [(b"allow", allowed.encode())])
        call = Call(self._desk, scope, receive, headers)
        if endpoint.route.needs_token:
            call.link = self._desk.gate.admit(bearer_token(headers))
        call.params = params
        call.query = parse_query(endpoint.route.query, scope["query_string"])
        if endpoint.decoder is not None:
            call.body = await self._body(endpoint, call, intake)
        return _to_answer(await endpoint.route.handler(call), endpoint)

    @staticmethod
    async def _body(endpoint: Endpoint, call: Call, intake: BodyReader) -> Any:
        call.share = intake.share
        body = await intake.read(call.receive, call.headers, endpoint.bytes_max)
        if not body and endpoint.route.body_optional:
            body = b"{}"
        elif not body:
            raise InvalidError("this request needs a JSON body; /docs shows which")
        else:
            check_content_type(call.headers)
        if endpoint.route.is_checked_later:
            check_nests(body)
        assert endpoint.decoder is not None
        return await parse_body(endpoint.decoder, body)

    def _options(self, endpoints: dict[str, Endpoint], headers: dict[bytes, bytes]) -> Answer:
        allowed = _methods(endpoints)
        more = self._origins.preflight(headers, allowed)
        return Answer(b"", 204, headers=[(b"allow", allowed.encode()), *more])

    async def _send(self, answer: Answer | Streaming, headers: dict[bytes, bytes], scope: Scope, send: Send) -> None:
        head: Headers = [(b"content-type", answer.content_type)]
        head += self._origins.headers(headers)
        if isinstance(answer, Streaming):
            connection: Connection = scope["state"]["connection"]
            await _send_stream(answer, head, choose(headers.get(b"accept-encoding")), connection, send)
            return
        body = answer.body
        head += answer.headers
        if len(body) >= WORTHWHILE_BYTES and (coding := choose(headers.get(b"accept-encoding"))) is not None:
            body = await encode(coding, body)
            head += [(b"content-encoding", coding.encode()), (b"vary", b"accept-encoding")]
        if answer.status == 204:
            del head[0]
        else:
            head.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await send({"type": "http.response.body", "body": body})


async def _send_stream(
    answer: Streaming, head: Headers, coding: str | None, connection: Connection, send: Send
) -> None:
    chunks = answer.chunks
    if coding is not None:
        chunks = encode_stream(coding, chunks)
        head += [(b"content-encoding", coding.encode()), (b"vary", b"accept-encoding")]
    await send({"type": "http.response.start", "status": answer.status, "headers": head})
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
    known = {*endpoints, "OPTIONS"} | ({"HEAD"} if "GET" in endpoints else set())
    return ", ".join(sorted(known))


def _problem_answer(error: OrtooError | Refusal) -> Answer:
    problem = to_problem(error)
    return Answer(encode_problem(problem), problem.status, CONTENT_TYPE, problem_headers(error, problem.status))


def _to_answer(reply: Reply, endpoint: Endpoint) -> Answer | Streaming:
    if type(reply) is bytes:
        return Answer(reply, endpoint.route.status)
    if isinstance(reply, Answer | Streaming):
        return reply
    if reply is None:
        return Answer(b"", 204)
    return Answer(_encode(reply), endpoint.route.status)
