"""Values as models: what is published as JSON, what it is read as, and what those are told whose values do not fit."""

import asyncio
import datetime
import math
import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, Field

import ortoo
from ortoo import InvalidError, InvalidValueError, Message, Queue
from ortoo.model.validation import in_words

from .actors import take


class Colour(Enum):
    RED = "red"


class Item(msgspec.Struct):
    name: str
    count: int = 1


@dataclass
class Order:
    id: int
    items: list[Item]


class Paid(TypedDict):
    order: int
    by: str


class Address(BaseModel):
    city: str
    code: str = Field(alias="zip", default="")


class Customer(BaseModel):
    name: str
    addresses: list[Address] = []


class Price(BaseModel):
    amount: float


class Pair(NamedTuple):
    left: int
    right: int


@pytest.fixture
def queue(python_queue: Queue) -> Queue:
    return python_queue


async def sent(queue: Queue, value: Any) -> ortoo.Received:
    await queue.publish("orders", value)
    [message] = await take(queue, "orders")
    return message


MODELS: list[tuple[Any, Any, bytes]] = [
    (Item("tea", 2), Item, b'{"name":"tea","count":2}'),
    (Order(7, [Item("tea")]), Order, b'{"id":7,"items":[{"name":"tea","count":1}]}'),
    (Paid(order=7, by="ann"), Paid, b'{"order":7,"by":"ann"}'),
    (Customer(name="ann", addresses=[Address(city="Ulm", zip="89")]), Customer, b""),
    ([Item("a"), Item("b")], list[Item], b'[{"name":"a","count":1},{"name":"b","count":1}]'),
    ([Customer(name="ann")], list[Customer], b""),
    ({"who": Customer(name="bob")}, dict[str, Customer], b""),
    (Pair(1, 2), Pair, b"[1,2]"),
    ((1, "two"), tuple[int, str], b'[1,"two"]'),
    (None, type(None), b"null"),
    (True, bool, b"true"),
    (17, int, b"17"),
    (1.5, float, b"1.5"),
    (OrderedDict(b=1, a=2), dict[str, int], b'{"b":1,"a":2}'),
    (MappingProxyType({"a": 1}), dict[str, int], b'{"a":1}'),
    ({"null": None, "words": "null"}, dict[str, str | None], b'{"null":null,"words":"null"}'),
    ({1: Colour.RED}, dict[int, Colour], b'{"1":"red"}'),
]


@pytest.mark.parametrize(("value", "model", "data"), MODELS, ids=lambda part: type(part).__name__)
async def test_what_goes_in_comes_out(queue: Queue, value: Any, model: Any, data: bytes) -> None:
    """publish takes what JSON can say, and `message.json(Model)` gives it back."""
    message = await sent(queue, value)
    assert message.is_json
    assert message.json(model) == value
    assert message.value == data or not data


async def test_all_ways_of_publishing_take_models(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    await queue.publish_many("orders", [Item("a"), {"name": "b"}, Message(Item("c"), key="k")])
    async with queue.transaction() as tx:
        tx.publish("orders", Item("d"))
        tx.publish_many("orders", (Item("e"),))
    named = await queue.begin("job")
    await named.publish("orders", Item("f"))
    await named.commit()
    assert [message.json(Item).name for message in await take(queue, "orders")] == list("abcdef")


async def test_those_that_are_gathered_are_json_and_text_as_each_was(queue: Queue) -> None:
    values: list[Any] = [{"n": 1}, "text", b"bytes", Item("a"), None, 5]
    await asyncio.gather(*(queue.publish("orders", value) for value in values))
    found = await take(queue, "orders")
    assert {message.value for message in found if message.is_json} == {
        b'{"n":1}',
        b'{"name":"a","count":1}',
        b"null",
        b"5",
    }
    assert {message.value for message in found if not message.is_json} == {b"text", b"bytes"}
    assert {type(message.value) for message in found} == {bytes}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "it is nan, which JSON does not have; use None"),
        (-math.inf, "it is -inf"),
        ({"total": math.nan, "note": None}, "total is nan"),
        ({"rows": [{"x": 1.0}, {"x": math.inf}]}, r"rows\[1\]\.x is inf"),
        (Order(1, [Item("a", math.nan)]), r"items\[0\]\.count is nan"),  # type: ignore[arg-type]
        (Price(amount=math.nan), "amount is nan"),
        ({"a": object()}, "object has no form in it; use a dict, dataclass, msgspec Struct or pydantic model"),
        ({(1, 2): 3}, "the keys of a dict must be strings or numbers"),
        ({"a": Item}, "has no form in it"),
        ({1, 2}, "not set"),
        (object(), "a value is bytes, a str, or what JSON can say .*, not object"),
        (Item, "not StructMeta"),
        (Order, "not type"),
        ([Message(b"x")], "publish_many"),
    ],
)
async def test_what_json_cannot_say_is_refused(queue: Queue, value: Any, words: str) -> None:
    """A NaN that becomes null would be another value."""
    with pytest.raises(InvalidError, match=words):
        await queue.publish("orders", value)
    with pytest.raises(InvalidError):
        await queue.publish_many("orders", [b"good", value])
    assert await queue.topics() == []


async def test_a_received_message_is_no_value(queue: Queue) -> None:
    message = await sent(queue, b"x")
    with pytest.raises(InvalidError, match="publish its value"):
        await queue.publish("copies", message)
    with pytest.raises(InvalidError, match="publish_many"):
        await queue.publish("copies", Message(b"x"))


@pytest.mark.parametrize(
    "batch", [{"item": "tea"}, "tea", b"tea", bytearray(b"tea"), Customer(name="ann"), Item("tea"), 5]
)
async def test_one_value_is_no_batch(queue: Queue, batch: Any) -> None:
    """Each of these but the last could be walked, or taken for a list."""
    with pytest.raises(InvalidError, match=r"a batch is a list of values or of ortoo\.Message"):
        await queue.publish_many("orders", batch)


@pytest.mark.parametrize(
    ("value", "model", "words"),
    [
        (b"tea", Any, "is not JSON: "),
        (b"", Item, "is not JSON: Input data was truncated"),
        (b"\xff", Customer, "does not fit Customer"),
        ([], Item, "does not fit Item: it must be an object, not an array"),
        ({"name": 5}, Item, "does not fit Item: name must be a string, not a whole number"),
        ({"count": 5}, Item, "does not fit Item: name is missing"),
        (
            {"id": 1, "items": [{"name": "a"}, {"name": None}]},
            Order,
            r"Order: items\[1\]\.name must be a string, not null",
        ),
        ({"order": 1}, Paid, "does not fit Paid: by is missing"),
        (
            {"name": "a", "addresses": [{"city": 5}]},
            Customer,
            r"Customer: addresses\[0\]\.city: .*, not a whole number",
        ),
        ({}, Customer, "does not fit Customer: name: field required"),
        ([{"name": 5}], list[Customer], r"name: input should be a valid string, not a whole number"),
        ("5", int, "it is too|does not fit int: it must be a whole number, not a string"),
    ],
)
async def test_what_does_not_fit_is_told_by_place_and_kind(queue: Queue, value: Any, model: Any, words: str) -> None:
    message = await sent(queue, msgspec.json.encode(value) if not isinstance(value, bytes) else value)
    with pytest.raises(InvalidValueError, match=words) as caught:
        message.json(model)
    assert str(caught.value).startswith(f"the value of message {message.id} ")
    assert (caught.value.message_id, caught.value.code) == (message.id, "invalid")
    assert "`" not in str(caught.value)


async def test_nests_without_end_are_refused(queue: Queue) -> None:
    message = await sent(queue, b"[" * 100_000)
    for model in (Any, list[Any]):
        with pytest.raises(InvalidValueError, match="is nested too deeply"):
            message.json(model)
    nest: list[Any] = []
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(InvalidError, match="nested too deeply"):
        await queue.publish("orders", nest)


@pytest.mark.parametrize("model", [5, "Item", list[Queue], Queue])
async def test_what_is_no_type_for_values_is_a_mistake_of_the_program(queue: Queue, model: Any) -> None:
    """And so no fault of the message, which is not rejected for it."""
    message = await sent(queue, [{}])
    with pytest.raises(TypeError, match="cannot be read as"):
        message.json(model)


def test_pydantic_is_loaded_by_those_who_use_it() -> None:
    code = "import ortoo, sys; from ortoo.model.json_values import *; write_json({'a': 1}); read_json(b'1', int); "
    subprocess.run([sys.executable, "-c", code + "assert 'pydantic' not in sys.modules"], check=True)


WORDS: list[tuple[Any, bytes, str]] = [
    (Colour, b'"blue"', "it cannot be 'blue'"),
    (Literal[1, 2], b"3", "it cannot be 3"),
    (int | None, b'"a"', "it must be a whole number or null, not a string"),
    (bool, b"1", "it must be true or false, not a whole number"),
    (int, b"true", "it must be a whole number, not a boolean"),
    (dict[str, int], b'{"a":"b"}', "[...] must be a whole number, not a string"),
    (dict[int, int], b'{"a":1}', "a key of it must be a whole number, not a string"),
    (datetime.datetime, b'"x"', "it must be a date and time, such as 2026-01-31T12:00:00Z"),
    (datetime.datetime, b"{}", "it must be a date and time, such as 2026-01-31T12:00:00Z, not an object"),
    (datetime.date, b'"x"', "it must be a date, such as 2026-01-31"),
    (UUID, b'"x"', "it must be a UUID"),
    (bytes, b'"!"', "it must be base64"),
    (float, b"1e400", "it is too large a number"),
    (Annotated[int, msgspec.Meta(ge=1)], b"0", "it must be at least 1"),
    (Annotated[int, msgspec.Meta(multiple_of=5)], b"3", "it must be a multiple of 5"),
    (Annotated[str, msgspec.Meta(min_length=2)], b'"a"', "it must have at least 2 characters"),
    (Annotated[str, msgspec.Meta(pattern="^b")], b'"a"', "it must match the pattern '^b'"),
    (Annotated[list[int], msgspec.Meta(max_length=1)], b"[1,2]", "it must have at most 1 item"),
    (tuple[int, int], b"[1]", "it must have exactly 2 items"),
    (tuple[int, int], b'[1,"a"]', "[1] must be a whole number, not a string"),
    (Annotated[datetime.datetime, msgspec.Meta(tz=True)], b'"2020-01-01T00:00:00"', "it must have a time zone"),
]


@pytest.mark.parametrize(("kind", "data", "words"), WORDS)
def test_no_words_but_ours_are_shown(kind: Any, data: bytes, words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(data, type=kind)
    assert in_words(caught.value) == words
