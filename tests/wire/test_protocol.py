"""Every request and every answer survives the wire, and no bytes at all can break the readers."""

from inspect import Parameter, signature
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ortoo.broker import reader
from ortoo.broker.inspecting import INSPECTORS
from ortoo.engine.engine import _DECIDE
from ortoo.model.commands import AnyCommand, Aside, Command, Once, PlainCommand
from ortoo.model.errors import ERRORS, ConfigError, LeaseLostError, OrtooError, ProtocolError, error_of
from ortoo.model.operations import OPERATIONS
from ortoo.model.queries import AnyQuery
from ortoo.wire import protocol as p
from ortoo.wire.frames import HEAD_BYTES, encode_frame
from tests.wire.shapes import values

COMMANDS: tuple[type, ...] = get_args(PlainCommand)
ASIDE: tuple[type, ...] = get_args(Aside)  # which the engine never sees
REQUESTS: tuple[type, ...] = get_args(p.Request)
QUERIES: tuple[type, ...] = get_args(AnyQuery)
HANDLED_BY_THE_SESSION = {p.Hello, p.Subscribe, p.Credit, p.Unsubscribe, p.Cancel}

encode = msgspec.msgpack.Encoder().encode
many = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def body_of(*frame: Any) -> memoryview:
    return memoryview(bytes(encode_frame(frame)))[HEAD_BYTES:]


# -- nothing is forgotten


def test_every_command_can_be_sent_and_is_answered() -> None:
    assert set(COMMANDS) == set(_DECIDE) == set(OPERATIONS) - set(QUERIES) - set(ASIDE)
    assert {*COMMANDS, Once} == set(get_args(Command))
    assert {*COMMANDS, *ASIDE, Once} == set(get_args(AnyCommand)) <= set(REQUESTS)


def test_every_request_is_handled_by_the_door() -> None:
    commands = {*COMMANDS, *ASIDE, Once, p.PublishOrWait}
    assert set(REQUESTS) == HANDLED_BY_THE_SESSION | {*QUERIES, *commands, p.Ping}


def test_every_query_has_an_answer() -> None:
    answered = {*reader._METHODS, *INSPECTORS}
    assert set(QUERIES) == answered == set(OPERATIONS) - set(COMMANDS) - set(ASIDE)
    assert not set(reader._METHODS) & set(INSPECTORS)
    for query in QUERIES:
        [asked] = query.__orig_bases__  # type: ignore[attr-defined]
        assert get_args(asked) == (OPERATIONS[query].answer,)


@pytest.mark.parametrize("query", list(reader._METHODS), ids=lambda query: query.__name__)
def test_the_fields_of_a_query_are_what_its_method_takes(query: type) -> None:
    parameters = list(signature(getattr(reader.Reader, reader._METHODS[query])).parameters.values())[1:]
    parameters = [
        parameter for parameter in parameters if parameter.name != "view"
    ]  # of who asks, not of what is asked
    defaults = [parameter.default for parameter in parameters if parameter.default is not Parameter.empty]
    assert len(parameters) == len(query.__struct_fields__)  # type: ignore[attr-defined]
    assert list(query.__struct_defaults__) == defaults  # type: ignore[attr-defined]


def test_requests_are_told_apart_by_their_names() -> None:
    tags = [kind.__struct_config__.tag for kind in REQUESTS]  # type: ignore[attr-defined]
    assert sorted(tags) == sorted(kind.__name__ for kind in REQUESTS)


# -- there and back


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
@many
@given(data=st.data())
def test_a_request_survives_the_wire(kind: type, data: st.DataObject) -> None:
    said = data.draw(values(kind))
    try:
        request: Any = msgspec.convert(said, kind)
    except (msgspec.ValidationError, ConfigError):
        assume(False)  # a topic's settings have bounds of their own
    body = body_of(7, request)
    request_id, found = p.decode_request(body)
    assert (request_id, type(found)) == (7, kind)
    assert body_of(7, found) == body  # by their bytes, because NaN is not NaN


@pytest.mark.parametrize(
    ("kind", "answer"),
    [(kind, operation.answer) for kind, operation in OPERATIONS.items()],
    ids=lambda one: getattr(one, "__name__", ""),
)
@many
@given(data=st.data())
def test_an_answer_survives_the_wire(kind: type, answer: Any, data: st.DataObject) -> None:
    said = data.draw(values(answer))
    try:
        given_ = msgspec.convert(said, answer)
    except (msgspec.ValidationError, ConfigError):
        assume(False)
    sent, request_id, raw = p.decode_response(body_of(p.ANSWER, 3, given_))
    assert (sent, request_id) == (p.ANSWER, 3)
    decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(answer)
    assert encode(p.decode_from_server(decoder, raw)) == encode(given_)


@pytest.mark.parametrize("code", ERRORS)
def test_every_error_survives_the_wire(code: str) -> None:
    error = error_of(code, "what to do", ["1.2.3.4.5"])
    _, _, raw = p.decode_response(body_of(p.ERROR, 1, p.to_problem(error)))
    found = p.to_error(p.decode_from_server(p.problem_decoder, raw))
    assert type(found) is type(error) is ERRORS[code]
    assert str(found) == "what to do"
    assert not isinstance(error, LeaseLostError) or (isinstance(found, LeaseLostError) and found.lost == error.lost)


def test_an_error_of_a_newer_server_is_still_an_error() -> None:
    found = p.to_error(p.Problem("too_tired", "try again tomorrow"))
    assert type(found) is OrtooError
    assert str(found) == "try again tomorrow"


# -- whatever comes


def read(body: bytes) -> None:
    try:
        request_id, _ = p.decode_request(memoryview(body))
        assert isinstance(request_id, int)
    except (p.RefusedRequestError, ProtocolError):
        pass


@given(st.binary(max_size=60))
def test_any_bytes_are_a_request_or_refused(body: bytes) -> None:
    read(body)


@settings(max_examples=200)
@given(st.sampled_from(REQUESTS).flatmap(values), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255))))
def test_a_valid_frame_with_some_bytes_changed_is_a_request_or_refused(
    said: Any, changes: list[tuple[int, int]]
) -> None:
    body = bytearray(body_of(7, said))
    for at, byte in changes:
        body[at % len(body)] = byte
    read(bytes(body))


@given(st.sampled_from(REQUESTS).flatmap(values), st.integers(0, 300))
def test_a_frame_cut_short_is_refused(said: Any, at: int) -> None:
    body = body_of(7, said)
    with pytest.raises((p.RefusedRequestError, ProtocolError)):
        p.decode_request(body[: at % len(body)])


@pytest.mark.parametrize("nest", [b"\x91", b"\x81\x01"])
def test_a_nest_without_end_is_refused(nest: bytes) -> None:
    for body in (nest * 100_000, b"\x92\x01" + nest * 100_000):
        with pytest.raises((p.RefusedRequestError, ProtocolError)):
            p.decode_request(memoryview(body))


def test_a_refused_request_names_its_number_so_that_it_can_be_answered() -> None:
    with pytest.raises(p.RefusedRequestError) as refused:
        p.decode_request(body_of(12, {"type": "Publish", "topic": 5}))
    assert refused.value.id == 12


def test_settings_out_of_bounds_are_refused_for_what_they_are() -> None:
    with pytest.raises(p.RefusedRequestError) as refused:
        p.decode_request(body_of(12, {"type": "CreateTopic", "topic": ("a", "b"), "config": {"partitions": 0}}))
    assert refused.value.id == 12
    assert p.to_problem(refused.value.reason).code == "config"


@given(st.binary(max_size=40))
def test_what_a_server_sends_is_understood_or_a_protocol_error(body: bytes) -> None:
    for work in (p.decode_response, lambda data: p.decode_from_server(p.delivery_decoder, data)):
        try:
            work(memoryview(body))
        except ProtocolError:
            pass
