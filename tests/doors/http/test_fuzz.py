"""Whatever bytes arrive: an HTTP answer or a closed connection, never an exception, and the next client is served."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as some
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ortoo.doors.http.openapi import describe
from ortoo.doors.http.table import ROUTES
from tests.doors.http.background import Background

_QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

_BODY = b'{"messages":[{"value":1,"key":"k"}]}'
_REQUESTS = [
    b"POST /v1/topics/t/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
    % (len(_BODY), _BODY),
    b"POST /v1/topics/t/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}}\r\n0\r\n\r\n",
    b"GET /v1/topics/t/messages?limit=1 HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n\r\n",
    (
        b"GET /v1/stream HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x82\x00\x00\x00\x00{}"
    ),
    b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /health HTTP/1.0\r\n\r\n",
]


@pytest.fixture(scope="module")
def server() -> Iterator[Background]:
    with Background() as server:
        yield server


@some.composite
def mangled(draw: Any) -> bytes:
    """Requests, a few in a row, with some of their bytes replaced, removed or added."""
    data = bytearray(b"".join(draw(some.lists(some.sampled_from(_REQUESTS), min_size=1, max_size=3))))
    for _ in range(draw(some.integers(0, 6))):
        at = draw(some.integers(0, len(data)))
        upto = min(len(data), at + draw(some.integers(0, 8)))
        data[at:upto] = draw(some.binary(max_size=8))
    return bytes(data)


def check(server: Background, data: bytes) -> None:
    answer = server.send(data)
    assert answer == b"" or re.match(rb"HTTP/1\.[01] [1-5]\d\d ", answer), answer
    assert b" 500 " not in answer.partition(b"\r\n")[0], answer
    assert server.is_well()


@_QUIET
@given(data=some.binary(max_size=200))
def test_any_bytes(server: Background, data: bytes) -> None:
    check(server, data)


@settings(_QUIET, max_examples=300)
@given(data=mangled())
def test_mangled_requests(server: Background, data: bytes) -> None:
    check(server, data)


_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(_QUIET, max_examples=200)
@given(frames=some.lists(some.binary(max_size=50) | _JSON, max_size=5), kind=some.sampled_from(["subscribe", "ack"]))
def test_any_frames_on_a_socket(server: Background, frames: list[Any], kind: str) -> None:
    server.converse(frames, kind)
    assert server.is_well()


# -- the description


schema = schemathesis.openapi.from_dict(describe(ROUTES, "test"))
schema.config.phases.coverage.enabled = False  # thorough, and slow


OPERATIONS = {
    operation.label: operation
    for operation in (found.ok() for found in list[Any](schema.get_all_operations()))
    if "text/event-stream" not in str(operation.definition.raw["responses"])  # those have no end; see test_events.py
}


@pytest.mark.parametrize("name", OPERATIONS)  # not schema.parametrize: with it, runs in parallel lose what is reported
@settings(_QUIET, max_examples=8)
@given(data=some.data())
def test_the_description_is_true(name: str, server: Background, data: some.DataObject) -> None:
    """Requests made from the description, good and bad ones: no 5xx, and each answer is one that it announces."""
    kind = data.draw(some.sampled_from(schema.config.generation.modes))
    try:
        case = data.draw(OPERATIONS[name].as_strategy(generation_mode=kind))
    except Unsatisfiable:  # there is no bad request for some
        assume(False)
    if isinstance(case.body, dict):
        for patient in {"wait", "timeout"} & case.body.keys():
            case.body[patient] = 0  # as good as any other, and sooner over
    case.call_and_validate(
        base_url=server.url,
        checks=[no_fault, status_code_conformance, content_type_conformance, response_schema_conformance],
    )
    assert server.is_well()


def no_fault(context: Any, response: Any, case: Any) -> None:
    """503 and 504 also tell of a full topic, and of a request that nobody answered."""
    assert response.status_code < 500 or response.json().get("code") in ("full", "no_reply"), response.text
