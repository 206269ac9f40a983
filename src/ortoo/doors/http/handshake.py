"""Letting a WebSocket in: who it is, where it comes from, and then its session."""

from __future__ import annotations

import binascii
import logging
from base64 import urlsafe_b64decode
from uuid import uuid4

from ortoo.model.errors import ClosedError, OrtooError, UnauthenticatedError

from .call import Scope, Send
from .head import read_head
from .origin import Origins
from .problems import CONTENT_TYPE, Refusal, encode_problem, problem_headers, to_problem
from .services import HttpServices, Receive
from .stream import Session

log = logging.getLogger("ortoo.http")

PATH = b"/v1/stream"
SUBPROTOCOL = "ortoo"
_TOKEN_PREFIX = "bearer."


def bearer_token(headers: dict[bytes, bytes]) -> str | None:
    given = headers.get(b"authorization")
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


class Handshake:
    def __init__(self, services: HttpServices, origins: Origins) -> None:
        self._desk = services
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        try:
            session = self._admit(scope, receive, send)
        except (OrtooError, Refusal) as error:
            await _refuse(error, send)
            return
        chosen = SUBPROTOCOL if SUBPROTOCOL in scope["subprotocols"] else None
        await send({"type": "websocket.accept", "subprotocol": chosen})
        await session.run()

    def _admit(self, scope: Scope, receive: Receive, send: Send) -> Session:
        headers = read_head(scope)
        self._origins.check("GET", headers)
        if scope["raw_path"] != PATH:
            raise Refusal(404, f"there is no WebSocket here; it is at {PATH.decode()}", code="not_found")
        token = bearer_token(headers) or offered_token(scope["subprotocols"])
        link = self._desk.gate.admit(token)
        if self._desk.is_closing:
            raise ClosedError("the server stops")
        return Session(self._desk, link, f"ws-{uuid4().hex}", receive, send)


async def _refuse(error: OrtooError | Refusal, send: Send) -> None:
    problem = to_problem(error)
    headers = [(b"content-type", CONTENT_TYPE), *problem_headers(error, problem.status)]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": encode_problem(problem)})
