"""The first frame of a client."""

from __future__ import annotations

from ortoo.model.errors import InvalidError, ProtocolError
from ortoo.wire import protocol as p


def read_hello(body: memoryview) -> tuple[int, p.Hello]:
    """The id of the request, and what it says."""
    try:
        request_id, hello = p.decode_request(body)
    except InvalidError as error:
        raise ProtocolError(str(error)) from None
    if not isinstance(hello, p.Hello):
        raise ProtocolError("the first frame of a client must be its hello")
    if hello.protocol != p.PROTOCOL:
        raise ProtocolError(f"this server speaks protocol {p.PROTOCOL}, the client {hello.protocol}")
    return request_id, hello
