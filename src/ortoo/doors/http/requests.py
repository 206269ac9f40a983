"""Request and response. A consumer answers by publishing to the topic that the request's `reply-to` header names."""

from __future__ import annotations

from msgspec import Raw

from ortoo.model.errors import ClosedError, InvalidError
from ortoo.model.message import Message, Received

from .call import Call
from .inboxes import JsonBytes
from .rendering import render
from .shapes import MessageView, RequestBody


async def ask(call: Call) -> MessageView:
    body: RequestBody = call.body
    message = Message(_value(body), body.key, body.headers, ttl=max(body.timeout, 0.001))
    asking = call.services.inboxes.ask(call.namespace, message, call.params["topic"], body.timeout)
    answer = await call.services.wait_for(call, asking, _is_dropped)
    if answer is None:
        raise ClosedError("the server stops; nobody has answered yet")
    return render(answer)


def _value(body: RequestBody) -> bytes:
    match body.value, body.value_base64:
        case Raw() as raw, value if not isinstance(value, bytes):
            return JsonBytes(bytes(raw))
        case value, bytes(binary) if not isinstance(value, Raw):
            return binary
    raise InvalidError("give value or value_base64, one of them")


async def _is_dropped(answer: Received) -> None:
    """Nobody is there to read it."""
