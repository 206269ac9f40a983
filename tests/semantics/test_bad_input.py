"""Bad input from Python: each gives the right error, with words that say what to do, and nothing is changed.

Much of it only Python can say: wrong types, NaN, half a surrogate pair. What HTTP can get wrong is in tests/doors/http.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

import ortoo
from ortoo import ConfigError, InvalidError, Message, Queue, RequestError
from ortoo.model import limits

from .actors import take, values
from .refusing import Call, refused

NAN, INF = math.nan, math.inf
SURROGATE = "\ud800"


@pytest.fixture
def queue(python_queue: Queue) -> Queue:
    return python_queue


async def drained(items: AsyncIterator[object]) -> list[object]:
    return [item async for item in items]


PUBLISHES: dict[str, tuple[dict[str, Any], str]] = {
    "value of a wrong type": ({"value": {5}}, "a value is bytes, a str, or what JSON can say .*, not set"),
    "value with a surrogate": ({"value": SURROGATE}, "not valid Unicode"),
    "json with a surrogate": ({"value": {"a": SURROGATE}}, "cannot be written as JSON"),
    "json with an object": ({"value": {"a": object()}}, "cannot be written as JSON"),
    "json with odd keys": ({"value": {(1, 2): 3}}, "cannot be written as JSON"),
    "value too large": ({"value": b"x" * (1024 * 1024 + 1)}, "at most 1048576 bytes, this one has 1048577"),
    "key of a wrong type": ({"key": 5}, "key must be a string, not int"),
    "key of bytes": ({"key": b"k"}, "key must be a string, not bytes"),
    "key with a surrogate": ({"key": SURROGATE}, "not valid Unicode"),
    "key too long": ({"key": "k" * 4097}, "at most 4096 bytes, this one has 4097"),
    "key too long in bytes": ({"key": "é" * 2049}, "at most 4096 bytes, this one has 4098"),
    "headers of a wrong type": ({"headers": "a=b"}, "headers must be a dict"),
    "headers as a list": ({"headers": [("a", "b")]}, "headers must be a dict"),
    "header value of a wrong type": ({"headers": {"a": 1}}, "header must be a string, not int"),
    "header value none": ({"headers": {"a": None}}, "must be a string, not NoneType"),
    "header name of a wrong type": ({"headers": {1: "a"}}, "header must be a string, not int"),
    "header name none": ({"headers": {None: "a"}}, "must be a string, not NoneType"),
    "header with a surrogate": ({"headers": {"a": SURROGATE}}, "not valid Unicode"),
    "too many headers": ({"headers": {str(n): "" for n in range(129)}}, "at most 128 headers, this one has 129"),
    "headers too large": ({"headers": {"a": "x" * 20_000, "b": "y" * 20_000}}, "at most 32768 bytes"),
    "headers too large in bytes": ({"headers": {"a": "é" * 10_000, "b": "é" * 10_000}}, "at most 32768 bytes"),
    "priority unknown": ({"priority": "urgent"}, "high, normal, low, not 'urgent'"),
    "priority of a wrong type": ({"priority": 1.5}, "priority must be a number, not float"),
    "priority none": ({"priority": None}, "priority must be a number, not NoneType"),
    "priority negative": ({"priority": -1}, "priority is 0 to 1000000, lower is sooner"),
    "priority too large": ({"priority": 1_000_001}, "priority is 0 to 1000000, lower is sooner"),
    "delay nan": ({"delay": NAN}, "delay must be a number of seconds"),
    "delay infinite": ({"delay": INF}, "delay must lie between"),
    "delay negative": ({"delay": -1}, "delay must lie between"),
    "delay of a wrong type": ({"delay": "5"}, "delay must be a number of seconds, not str"),
    "deliver_at nan": ({"deliver_at": NAN}, "deliver_at must be a number of seconds"),
    "deliver_at in milliseconds": ({"deliver_at": 1_700_000_000_000}, "deliver_at"),
    "deliver_at too far": ({"deliver_at": 9_000_000_000}, "ten years"),
    "delay and deliver_at": ({"delay": 5, "deliver_at": 5}, "not both"),
    "ttl zero": ({"ttl": 0}, "ttl must lie between"),
    "ttl nan": ({"ttl": NAN}, "ttl must be a number of seconds"),
    "ttl negative": ({"ttl": -5}, "ttl must lie between"),
    "dedup_id of a wrong type": ({"dedup_id": 5}, "dedup_id must be a string, not int"),
    "dedup_id too long": ({"dedup_id": "d" * 256}, "at most 255 bytes, this one has 256"),
    "dedup_id with a surrogate": ({"dedup_id": SURROGATE}, "not valid Unicode"),
    "partition out of range": ({"partition": 6}, "partitions 0 to 5, not 6"),
    "partition negative": ({"partition": -1}, "partitions 0 to 5, not -1"),
    "partition of a wrong type": ({"partition": "0"}, "partition must be"),
    "wait nan": ({"wait": NAN}, "wait must be"),
    "wait negative": ({"wait": -1}, "wait must be"),
    "wait infinite": ({"wait": INF}, "wait must be"),
    "wait of a wrong type": ({"wait": "5"}, "wait must be"),
}


@pytest.mark.parametrize("case", PUBLISHES)
async def test_a_bad_publish_is_refused(queue: Queue, case: str) -> None:
    fields, words = PUBLISHES[case]
    fields = {"value": b"1", **fields}
    await refused(queue, lambda queue: queue.publish("new", **fields), InvalidError, words)


@pytest.mark.parametrize("case", [case for case in PUBLISHES if not case.startswith("wait")])
async def test_a_bad_message_refuses_its_whole_batch(queue: Queue, case: str) -> None:
    fields, words = PUBLISHES[case]
    batch = [Message(b"good", key="k"), Message(**{"value": b"1", **fields}), Message(b"good", partition=1)]
    await refused(queue, lambda queue: queue.publish_many("new", batch), InvalidError, words)


async def test_a_bad_message_does_not_take_its_neighbours_along(queue: Queue) -> None:
    """Concurrent publishes are gathered into one batch; each is answered for itself."""
    results = await asyncio.gather(
        queue.publish("orders", b"1"),
        queue.publish("orders", SURROGATE),
        queue.publish("orders", b"2", partition=99),
        queue.publish("orders", b"3"),
        return_exceptions=True,
    )
    assert [isinstance(result, InvalidError) for result in results] == [False, True, True, False]
    assert sorted(values(await take(queue, "orders"))) == [b"1", b"3"]


BATCHES: dict[str, tuple[Any, str]] = {
    "empty": ([], "1 to 10000 messages, this one has 0"),
    "too many": ([Message(b"")] * 10_001, "1 to 10000 messages, this one has 10001"),
    "one value alone": (b"12", "Message"),
    "sets": ([{1}, {2}], "not set"),
    "a message alone": (Message(b"1"), "Message"),
    "none": (None, "Message"),
}


@pytest.mark.parametrize("case", BATCHES)
async def test_a_bad_batch_is_refused(queue: Queue, case: str) -> None:
    batch, words = BATCHES[case]
    await refused(queue, lambda queue: queue.publish_many("new", batch), InvalidError, words)


async def test_a_batch_may_be_any_iterable(queue: Queue) -> None:
    """A generator's messages keep their keys like those of a list."""
    messages: Any = (Message(b"%d" % number, key="k", priority=1) for number in range(3))
    await queue.publish_many("orders", messages)
    assert [(m.value, m.key, m.priority) for m in await take(queue, "orders")] == [
        (b"0", "k", 1),
        (b"1", "k", 1),
        (b"2", "k", 1),
    ]


LEASES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing named": ({"topic": None}, "name a topic to lease from, or the labels"),
    "both named": ({"labels": {"a": "b"}}, "and not both"),
    "no messages": ({"max_messages": 0}, "max_messages must be 1 to 10000, not 0"),
    "too many messages": ({"max_messages": 10_001}, "max_messages must be 1 to 10000, not 10001"),
    "max_messages of a wrong type": ({"max_messages": "5"}, "max_messages must be"),
    "max_messages a fraction": ({"max_messages": 1.5}, "max_messages must be"),
    "wait negative": ({"wait": -1}, "wait must be 0 to 60 seconds, not -1"),
    "wait too long": ({"wait": 61}, "wait must be 0 to 60 seconds, not 61"),
    "wait nan": ({"wait": NAN}, "wait must be a number of seconds"),
    "wait of a wrong type": ({"wait": "5"}, "wait must be"),
    "lease zero": ({"lease": 0}, "lease lasts"),
    "lease negative": ({"lease": -1}, "lease lasts"),
    "lease too long": ({"lease": 43_201}, "lease lasts"),
    "lease nan": ({"lease": NAN}, "lease must be"),
    "lease infinite": ({"lease": INF}, "lease must be"),
    "lease of a wrong type": ({"lease": "5"}, "lease must be"),
    "group empty": ({"group": ""}, "group's name must have 1 to 255 bytes"),
    "group of a wrong type": ({"group": 5}, "group's name must be a string"),
    "group with a surrogate": ({"group": SURROGATE}, "not valid Unicode"),
    "consumer too long": ({"consumer": "c" * 256}, "consumer's name must have 1 to 255 bytes"),
    "consumer of a wrong type": ({"consumer": 5}, "consumer's name must be a string"),
    "partition out of range": ({"partition": 6}, "partitions 0 to 5"),
    "partition of a wrong type": ({"partition": "1"}, "partition must be"),
    "key of a wrong type": ({"key": 5}, "key must be a string"),
    "key with a surrogate": ({"key": SURROGATE}, "not valid Unicode"),
    "start unhashable": ({"start": []}, "'all' or 'new'"),
    "wait none": ({"wait": None}, "wait must be"),
    "namespace unhashable": ({"namespace": ["x"]}, "namespace must be a string"),
    "start unknown": ({"start": "middle"}, "'all' or 'new', not 'middle'"),
    "topic of a wrong type": ({"topic": ["orders"]}, "topic's name must be a string"),
    "labels of a wrong type": ({"topic": None, "labels": "task"}, "labels must be"),
}


@pytest.mark.parametrize("case", LEASES)
async def test_a_bad_lease_is_refused(queue: Queue, case: str) -> None:
    fields, words = LEASES[case]
    await queue.publish("orders", b"1")
    await refused(queue, lambda queue: queue.lease(**{"topic": "orders", **fields}), InvalidError, words)
    assert await queue.groups("orders") == []


RECEIPTS = ["", "x", "1.2.3", "1.2.3.4.5.6", "1.2.3.4.-5", "1.2.3.4.٥", "9" * 30 + ".1.1.1.1", 5, None, b"1.2.3.4.5"]
SETTLING = ["ack", "nack", "reject", "release", "extend", "ack_through"]


@pytest.mark.parametrize("receipt", RECEIPTS)
@pytest.mark.parametrize("how", SETTLING)
async def test_what_is_no_receipt_is_refused(queue: Queue, how: str, receipt: Any) -> None:
    await refused(queue, lambda queue: getattr(queue, how)(receipt), InvalidError, "receipt")
    if how != "ack_through":
        await refused(queue, lambda queue: getattr(queue, how)([receipt]), InvalidError, "receipt")


async def test_a_message_that_was_read_cannot_be_settled(queue: Queue) -> None:
    await queue.publish("orders", b"1")
    [message] = [message async for message in queue.read("orders")]
    for how in SETTLING:
        await refused(queue, lambda queue, how=how: getattr(queue, how)(message), InvalidError, "read, not leased")  # type: ignore[misc]


SETTLES: dict[str, tuple[str, dict[str, Any], str]] = {
    "nack delay negative": ("nack", {"delay": -1}, "delayed by 0 to"),
    "nack delay nan": ("nack", {"delay": NAN}, "delay must be"),
    "nack delay infinite": ("nack", {"delay": INF}, "delay must be"),
    "nack delay too long": ("nack", {"delay": 1e10}, "delayed by 0 to"),
    "nack delay of a wrong type": ("nack", {"delay": "5"}, "delay must be"),
    "nack error of a wrong type": ("nack", {"error": 5}, "error must be a string"),
    "reject error of a wrong type": ("reject", {"error": ValueError("x")}, "error must be a string"),
    "extend by nothing": ("extend", {"seconds": 0}, "lease lasts"),
    "extend negative": ("extend", {"seconds": -5}, "lease lasts"),
    "extend nan": ("extend", {"seconds": NAN}, "seconds must be"),
    "extend too long": ("extend", {"seconds": 43_201}, "lease lasts"),
}


@pytest.mark.parametrize("case", SETTLES)
async def test_a_bad_settling_is_refused(queue: Queue, case: str) -> None:
    how, fields, words = SETTLES[case]
    await queue.publish("orders", b"1")
    [message] = await queue.lease("orders")
    await refused(queue, lambda queue: getattr(queue, how)(message, **fields), InvalidError, words)
    await message.ack()


async def test_a_long_error_is_cut_and_an_odd_one_is_mended(queue: Queue) -> None:
    """An error text given to nack or reject is cut; what is not Unicode is replaced, for it came from a failure."""
    await queue.create_topic("orders", partitions=1)
    for error in ("x" * 10_000, f"bad {SURROGATE} text"):
        await queue.publish("orders", b"1")
        await queue.reject(await take(queue, "orders"), error)
    await queue.dead_letter((await queue.publish("orders", b"1")).id, error="y" * 200_000)
    first, second, third = await queue.dead_letters("orders")
    assert first.headers["ortoo-error"] == "x" * limits.ERROR_CHARS_MAX
    assert second.headers["ortoo-error"] == "bad ? text"
    assert third.headers["ortoo-error"] == "y" * limits.ERROR_CHARS_MAX


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"colour": "red"}, "no topic setting 'colour'; the settings are partitions"),
    "no partitions": ({"partitions": 0}, "partitions must be between 1 and 1000, not 0"),
    "too many partitions": ({"partitions": 1001}, "partitions must be between 1 and 1000, not 1001"),
    "partitions of a wrong type": ({"partitions": "six"}, "partitions must be a whole number"),
    "ordering unknown": ({"ordering": "random"}, "ordering must be one of 'none', 'key'"),
    "lease nan": ({"lease": NAN}, "lease must be between"),
    "lease infinite": ({"lease": INF}, "lease must be between"),
    "lease zero": ({"lease": 0}, "lease must be between"),
    "max_attempts zero": ({"max_attempts": 0}, "max_attempts must be between"),
    "backoff shrinking": ({"backoff_factor": 0.5}, "backoff_factor must be between"),
    "ttl zero": ({"ttl": 0}, "ttl must be between"),
    "max_depth zero": ({"max_depth": 0}, "max_depth must be between"),
    "max_message_bytes huge": ({"max_message_bytes": 2**40}, "max_message_bytes must be between"),
    "delay negative": ({"delay": -1}, "delay must be between"),
    "dlq_topic empty": ({"dlq_topic": ""}, "dlq_topic must have 1 to 255 bytes"),
    "labels of a wrong type": ({"labels": {"a": 1}}, "labels must be a dict of strings"),
    "too many labels": ({"labels": {str(n): "x" for n in range(65)}}, "at most 64 labels"),
    "label empty": ({"labels": {"": "x"}}, "label's name must have"),
    "retention zero": ({"retention_seconds": 0}, "retention_seconds must be between"),
    "retention of a wrong type": (
        {"retention_seconds": [7]},
        "retention_seconds must be a number of seconds, a timedelta",
    ),
    "lease no Unicode": ({"lease": SURROGATE}, "lease: .* is not a duration"),
    "labels a range": ({"labels": range(3)}, "labels|wrong type"),
    "on_expire unknown": ({"on_expire": "explode"}, "on_expire"),
}


@pytest.mark.parametrize("case", CONFIGS)
async def test_a_bad_setting_is_refused(queue: Queue, case: str) -> None:
    settings, words = CONFIGS[case]
    await queue.create_topic("orders")
    await refused(queue, lambda queue: queue.create_topic("new", **settings), ConfigError, words)
    await refused(queue, lambda queue: queue.update_topic("orders", **settings), ConfigError, words)


CALLS: dict[str, tuple[Call, str]] = {
    "message id": (lambda queue: queue.message("x"), "not a message id"),
    "message id of a wrong type": (lambda queue: queue.message(5), "not a message id"),  # type: ignore[arg-type]
    "trace id": (lambda queue: queue.trace("1.2"), "not a message id"),
    "delete id": (lambda queue: queue.delete_message("1.2.x"), "not a message id"),
    "retry id": (lambda queue: queue.retry_now(""), "not a message id"),
    "dead letter id": (lambda queue: queue.dead_letter("1.2.3.4"), "not a message id"),
    "dead letter error": (lambda queue: queue.dead_letter("1.0.0", error=5), "error must be a string"),  # type: ignore[arg-type]
    "seek time nan": (lambda queue: queue.seek("orders", "default", time=NAN), "time must be"),
    "seek time infinite": (lambda queue: queue.seek("orders", "default", time=INF), "time must be"),
    "seek time of a wrong type": (lambda queue: queue.seek("orders", "default", time="now"), "time must be"),  # type: ignore[arg-type]
    "seek place": (lambda queue: queue.seek("orders", "default", "middle"), "position is"),  # type: ignore[arg-type]
    "seek offset of a wrong type": (lambda queue: queue.seek("orders", "default", offset="0"), "offset must be"),  # type: ignore[arg-type]
    "group offset negative": (lambda queue: queue.create_group("orders", "g", offset=-1), "offset must be"),
    "read partition": (lambda queue: drained(queue.read("orders", partition=6)), "partitions 0 to 5, not 6"),
    "read offset": (lambda queue: drained(queue.read("orders", from_offset=-1)), "offset must be"),
    "read twice from": (lambda queue: drained(queue.read("orders", from_offset=1, from_time=1)), "one of"),
    "read batch": (lambda queue: drained(queue.read_batches("orders", partition=0, batch=0)), "1 to 10000"),
    "list state": (lambda queue: queue.messages("orders", state="lost"), "one of ready"),  # type: ignore[arg-type]
    "list limit negative": (lambda queue: queue.messages("orders", limit=-1), "limit must be"),
    "list limit of a wrong type": (lambda queue: queue.messages("orders", limit="5"), "limit must be"),  # type: ignore[arg-type]
    "heartbeat session nan": (lambda queue: queue.heartbeat("orders", "default", "c", session=NAN), "session must be"),
    "heartbeat session negative": (lambda queue: queue.heartbeat("orders", "default", "c", session=-1), "session"),
    "heartbeat consumer": (lambda queue: queue.heartbeat("orders", "default", ""), "consumer's name"),
    "begin name": (lambda queue: queue.begin(""), "transaction's name"),
    "begin timeout": (lambda queue: queue.begin("job", timeout=0), "1 to"),
    "begin timeout nan": (lambda queue: queue.begin("job", timeout=NAN), "timeout must be"),
    "begin part": (lambda queue: _stage(queue, "\n"), "control characters"),
    "stage nothing": (lambda queue: _stage(queue, "part", []), "empty"),
    "reply to no request": (lambda queue: _reply(queue, b"answer"), "not a request"),
    "request timeout": (lambda queue: queue.request("orders", b"", timeout=NAN), "timeout must be"),
    "prefetch": (
        lambda queue: drained(queue.consume("orders", prefetch=0)),
        "prefetch must be a whole number, 1 or more",
    ),
}


WRONG_TYPES: dict[str, Callable[[Any], Awaitable[object]]] = {
    "publish namespace": lambda queue: queue.publish("orders", b"", namespace=["x"]),
    "publish_many wait": lambda queue: queue.publish_many("orders", [b""], wait=None),
    "request namespace": lambda queue: queue.request("orders", b"", namespace=["x"]),
    "begin namespace": lambda queue: queue.begin("job", namespace=["x"]),
    "topics namespace": lambda queue: queue.topics(namespace=["x"]),
    "topic namespace": lambda queue: queue.topic("orders", namespace=["x"]),
    "create_group": lambda queue: queue.create_group("orders", ["g"]),
    "delete_group": lambda queue: queue.delete_group("orders", ["g"]),
    "seek group": lambda queue: queue.seek("orders", ["g"], "start"),
    "heartbeat group": lambda queue: queue.heartbeat("orders", ["g"], "c"),
    "consume start": lambda queue: drained(queue.consume("orders", start=[])),
    "consume_batches start": lambda queue: drained(queue.consume_batches("orders", start=[])),
    "consume consumer": lambda queue: drained(queue.consume("orders", consumer=[])),
    "lease consumer": lambda queue: queue.lease("orders", consumer=[]),
    "heartbeat consumer": lambda queue: queue.heartbeat("orders", "g", ["c"]),
    "leave consumer": lambda queue: queue.leave(["c"]),
    "leave group": lambda queue: queue.leave("c", "orders", ["g"]),
    "group": lambda queue: queue.group("orders", ["g"]),
    "messages group": lambda queue: queue.messages("orders", group=["g"]),
    "retry_now group": lambda queue: queue.retry_now("1.0.0", group=["g"]),
    "dead_letter group": lambda queue: queue.dead_letter("1.0.0", group=["g"]),
    "dead_letters group": lambda queue: queue.dead_letters("orders", group=["g"]),
    "redrive group": lambda queue: queue.redrive("orders", group=["g"]),
    "mark_archived": lambda queue: queue.mark_archived("orders", 5),
    "redrive": lambda queue: queue.redrive("orders", 5),
    "reply": lambda queue: queue.reply("orders", b""),
}


@pytest.mark.parametrize("case", WRONG_TYPES)
async def test_an_argument_of_a_wrong_type_is_refused(queue: Queue, case: str) -> None:
    await queue.publish("orders", b"1")
    await refused(queue, WRONG_TYPES[case], InvalidError, "must be|starts at|reply to")


async def _stage(queue: Queue, part: str, values: Sequence[bytes] = (b"1",)) -> None:
    tx = await queue.begin("job", part=part)
    try:
        await tx.publish_many("orders", values)
    finally:
        await tx.abort()


async def _reply(queue: Queue, value: bytes) -> None:
    [message] = [message async for message in queue.read("orders")]
    await queue.reply(message, value)


@pytest.mark.parametrize("case", CALLS)
async def test_a_bad_argument_is_refused(queue: Queue, case: str) -> None:
    call, words = CALLS[case]
    await queue.publish("orders", b"1")
    await queue.create_group("orders", "default")
    await refused(queue, call, InvalidError, words)


ODD: list[Any] = [1e308, -1e308, NAN, INF, -INF, 1.5, -1, 10**30, -(10**30), 2**63, True, "1", b"1", [], object(), 1e12]
NUMBERS: dict[str, Callable[[Queue, Any], Awaitable[object]]] = {
    "offsets": lambda queue, odd: queue.offsets("orders", time=odd),
    "read from offset": lambda queue, odd: drained(queue.read("orders", from_offset=odd)),
    "read to offset": lambda queue, odd: drained(queue.read("orders", to_offset=odd)),
    "read from time": lambda queue, odd: drained(queue.read("orders", from_time=odd)),
    "read to time": lambda queue, odd: drained(queue.read("orders", to_time=odd)),
    "read partition": lambda queue, odd: drained(queue.read("orders", partition=odd)),
    "read_batches batch": lambda queue, odd: drained(queue.read_batches("orders", partition=0, batch=odd)),
    "read_batches partition": lambda queue, odd: drained(queue.read_batches("orders", partition=odd)),
    "history_page partition": lambda queue, odd: queue.history_page("orders", partition=odd),
    "history_page start": lambda queue, odd: queue.history_page("orders", partition=0, start=odd),
    "history_page count": lambda queue, odd: queue.history_page("orders", partition=0, count=odd),
    "read_history partition": lambda queue, odd: drained(queue.read_history("orders", partition=odd)),
    "read_history from": lambda queue, odd: drained(queue.read_history("orders", partition=0, from_position=odd)),
    "messages": lambda queue, odd: queue.messages("orders", limit=odd),
    "dead letters": lambda queue, odd: queue.dead_letters("orders", limit=odd),
    "redrive": lambda queue, odd: queue.redrive("orders", [odd]),
    "seek offset": lambda queue, odd: queue.seek("orders", "default", offset=odd),
    "seek time": lambda queue, odd: queue.seek("orders", "default", time=odd),
    "seek to offset": lambda queue, odd: queue.seek("orders", "default", "start", to_offset=odd),
    "seek to time": lambda queue, odd: queue.seek("orders", "default", "start", to_time=odd),
    "create_group offset": lambda queue, odd: queue.create_group("orders", "g", offset=odd),
    "create_group time": lambda queue, odd: queue.create_group("orders", "g", time=odd),
    "heartbeat": lambda queue, odd: queue.heartbeat("orders", "default", "c", session=odd),
    "mark_archived": lambda queue, odd: queue.mark_archived("orders", {0: odd}),
    "lease max": lambda queue, odd: queue.lease("orders", max_messages=odd),
    "lease lease": lambda queue, odd: queue.lease("orders", lease=odd),
    "lease partition": lambda queue, odd: queue.lease("orders", partition=odd),
    "message": lambda queue, odd: queue.message(odd),
    "trace": lambda queue, odd: queue.trace(odd),
    "publish partition": lambda queue, odd: queue.publish("orders", b"", partition=odd),
    "publish priority": lambda queue, odd: queue.publish("orders", b"", priority=odd),
    "publish delay": lambda queue, odd: queue.publish("orders", b"", delay=odd),
    "publish ttl": lambda queue, odd: queue.publish("orders", b"", ttl=odd),
}


@pytest.mark.parametrize("case", NUMBERS)
async def test_an_odd_number_is_taken_or_refused_and_never_breaks_anything(queue: Queue, case: str) -> None:
    await queue.publish("orders", b"1")
    await queue.create_group("orders", "default")
    for odd in ODD:
        try:
            await NUMBERS[case](queue, odd)
        except RequestError:
            pass


async def test_bad_input_in_a_transaction_is_refused_where_it_is_made(queue: Queue) -> None:
    async with queue.transaction() as tx:
        with pytest.raises(InvalidError, match="key must be a string"):
            tx.publish("orders", b"1", key=5)
        with pytest.raises(InvalidError, match="receipt"):
            tx.ack("nonsense")
        with pytest.raises(InvalidError, match="1 to 10000"):
            tx.publish_many("orders", [])
    assert await queue.topics() == []


async def test_a_queue_needs_a_good_namespace() -> None:
    for namespace in ("x" * 256, "a\nb", SURROGATE):
        with pytest.raises(InvalidError, match="namespace"):
            ortoo.open(namespace=namespace)


def test_every_error_of_bad_input_is_the_callers_fault() -> None:
    assert issubclass(InvalidError, RequestError)
    assert InvalidError.code == "invalid"
