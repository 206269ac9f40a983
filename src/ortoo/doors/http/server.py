"""The server itself: is it there, is it ready, its metrics, and the description of this interface."""

from __future__ import annotations

import msgspec

from .call import Answer, Call
from .problems import Refusal
from .shapes import Health, Readiness

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_encode = msgspec.json.Encoder().encode


async def health(call: Call) -> Health:
    return Health("ok")


async def ready(call: Call) -> Answer:
    reason = "the server is stopping" if call.services.is_closing else call.services.ready()
    if reason is None:
        return Answer(_encode(Readiness("ready")))
    return Answer(_encode(Readiness("not ready", reason)), 503)


async def metrics(call: Call) -> Answer:
    return Answer(await call.services.metrics(), content_type=METRICS_TYPE.encode())


async def upgrade_required(call: Call) -> Answer:
    raise Refusal(426, "this is a WebSocket: connect with ws:// or wss://", [(b"upgrade", b"websocket")])


async def openapi(call: Call) -> Answer:
    return Answer(call.services.description.json)


async def docs(call: Call) -> Answer:
    return Answer(call.services.description.html, content_type=b"text/html; charset=utf-8")
