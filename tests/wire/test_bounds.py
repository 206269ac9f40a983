"""What is told of a request before it is read agrees with what is read, whatever it is and however it is written."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.model.batch import Outgoing
from ortoo.model.commands import Once, PlainCommand, Publish, Stage, Transact
from ortoo.model.names import TopicName
from ortoo.wire import bounds
from ortoo.wire import protocol as p
from ortoo.wire.counting import count_elements
from ortoo.wire.heads import ENVELOPES, is_publish, read_id, read_kind
from tests.wire.shapes import values

NAMES = {kind.__name__ for kind in get_args(p.Request)}
JOBS = TopicName("default", "jobs")
SMALL = Publish(JOBS, Outgoing([b"x"]))

encode = msgspec.msgpack.encode
scalars: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()
)
scalars |= st.builds(msgspec.msgpack.Ext, st.integers(-128, 127), st.binary())
anything = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=50)


def held(value: Any) -> int:
    """In all lists and dicts in there, keys too."""
    if isinstance(value, dict):
        return 2 * len(value) + sum(map(held, value.values()))
    return len(value) + sum(map(held, value)) if isinstance(value, list) else 0


def body_of(request: Any, number: int = 7) -> memoryview:
    return memoryview(encode([number, request]))


@given(anything)
def test_what_is_held_is_counted_without_being_built(value: Any) -> None:
    assert count_elements(memoryview(encode(value)), 1 << 40) == held(value)


@pytest.mark.parametrize("length", [0, 31, 32, 255, 256, 65_535, 65_536])
def test_texts_bytes_and_lists_of_any_length_are_counted(length: int) -> None:
    value: Any
    for value in ("x" * length, b"x" * length, msgspec.msgpack.Ext(1, bytes(length)), [0] * length, [[]] * length):
        assert count_elements(memoryview(encode([value, [1], value])), 1 << 40) == 4 + 2 * held(value)
    many = {str(number): None for number in range(length)}
    assert count_elements(memoryview(encode([many, [1]])), 1 << 40) == 3 + 2 * length


@given(anything, st.integers(0, 20))
def test_counting_ends_once_there_is_too_much(value: Any, most: int) -> None:
    assert min(count_elements(memoryview(encode(value)), most), most + 1) == min(held(value), most + 1)


@given(st.binary(max_size=200))
def test_any_bytes_can_be_counted(body: bytes) -> None:
    assert count_elements(memoryview(body), 1000) >= 0


def test_what_was_announced_counts_though_it_does_not_come() -> None:
    assert count_elements(memoryview(b"\xdd\xff\xff\xff\xff"), 1000) > 1000


def test_what_was_not_announced_is_not_looked_at_for_long() -> None:
    assert count_elements(memoryview(b"\x92\x01\x90" + b"\xa1x" * 10_000_000), 1000) == 2


@given(st.sampled_from(sorted(NAMES)), st.integers(-(2**63), 2**64 - 1), st.binary(max_size=50))
def test_a_kind_is_told_from_the_beginning(kind: str, number: int, rest: bytes) -> None:
    body = memoryview(b"\x92" + encode(number) + b"\x83\xa4type" + encode(kind) + rest)
    assert read_id(body) == number
    assert read_kind(body) in ({kind} if kind not in ("Once", "PublishOrWait") else {kind, ""} | NAMES)


@given(st.sampled_from(get_args(PlainCommand)).flatmap(values), st.integers(0, 2**64 - 1), st.text(max_size=255))
def test_of_an_envelope_it_is_told_what_is_in_there(command: Any, number: int, producer: str) -> None:
    command = {"type": command["type"]} | command
    once = {"type": "Once", "producer": producer, "sequence": number, "done_below": 1, "command": command}
    assert read_kind(body_of(once)) == command["type"]
    assert read_kind(body_of({"type": "PublishOrWait", "wait_ms": number, "publish": once})) == command["type"]
    assert read_kind(body_of({"type": "Once", "command": command, "producer": producer})) == command["type"]


@pytest.mark.parametrize(
    "request_",
    [
        {"topic": JOBS, "type": "Publish"},
        {"type": "Once", "unknown": [], "command": {"type": "Publish"}},
        {"type": "Once", "producer": "p"},
        {"type": "Once", "command": 5},
        {"type": "Once", "producer": "\xa7command\x81\xa4type\xa7Publish"},
        {"type": 5},
        {},
        [],
    ],
    ids=str,
)
def test_what_does_not_say_so_first_is_of_no_kind(request_: Any) -> None:
    assert read_kind(body_of(request_)) == ""


@given(st.binary(max_size=60))
def test_any_bytes_are_of_some_kind_or_none(rest: bytes) -> None:
    assert isinstance(read_kind(memoryview(b"\x92\x01" + rest)), str)
    assert not is_publish(memoryview(rest))


PRODUCER = "0123456789abcdef" * 2


def test_what_our_own_client_publishes_is_known_at_once() -> None:
    for number in (1, 300, 70_000, 2**40):
        for command in (SMALL, Stage("t", "p", SMALL)):
            for request in (command, Once(PRODUCER, number, 1, command), Once(PRODUCER, number, number, command)):
                assert is_publish(body_of(request, number))
    for other in (Transact([], [SMALL]), Once(PRODUCER, 1, 1, Transact([], [])), p.Ping(), p.PublishOrWait(SMALL, 1)):
        assert not is_publish(body_of(other))


def test_nothing_else_is_taken_for_a_publish() -> None:
    once = {"type": "Once", "producer": PRODUCER, "sequence": 1, "done_below": 1, "command": SMALL}
    assert is_publish(body_of(once))
    assert not is_publish(body_of(once | {"more": 1}))  # which may be another command
    assert not is_publish(body_of(once | {"producer": "\xa7command\x81\xa4type\xa7Publish" + "x" * 12}))


def test_every_kind_with_bounds_of_its_own_is_one() -> None:
    assert set(bounds.BYTES_MAX) <= NAMES
    assert set(ENVELOPES) <= NAMES
