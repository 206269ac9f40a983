"""Frames that would become large: refused with a word, before they cost anybody else time or memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ortoo.model import limits
from ortoo.model.commands import ChangeTopic, Commit, Extend, Lease, MarkArchived, Once, Run, Settle, Transact
from ortoo.wire import protocol as p
from tests.doors.tcp.home import Home
from tests.doors.tcp.test_requests import JOBS, make_jobs, publish
from tests.doors.watching import Watch, calmest

MB = 1 << 20
TURN_SECONDS = 0.5  # CPU time; what is mended here took seconds, and a busy machine takes a few times longer
GROWN = 300 * MB  # of which the frame has some, here at the client and there at the server

encode = msgspec.msgpack.encode


def array(count: int, item: bytes = b"\xc0") -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + item * count


def mapping(**fields: bytes) -> bytes:
    return b"\xde" + len(fields).to_bytes(2, "big") + b"".join(encode(name) + value for name, value in fields.items())


def numbers(count: int) -> bytes:
    """A map of so many numbers to empty texts."""
    pairs = b"".join(b"\xa8%08d\xa0" % number for number in range(count))
    return b"\xdf" + count.to_bytes(4, "big") + pairs


TOPIC = encode(["default", "jobs"])
COMMIT_SMALL = mapping(type=encode("Commit"), transaction=encode("t"))


def many_runs() -> bytes:
    return array(400_000, mapping(topic=b"\x01", group=b"\x01", lease=b"\x01", partition=b"\x00", offsets=b"\x90"))


def said(kind: str, **fields: bytes) -> bytes:
    return mapping(type=encode(kind), **fields)


def once(command: bytes) -> bytes:
    return said("Once", producer=encode("p"), sequence=b"\x01", done_below=b"\x01", command=command)


def run_of(count: int) -> bytes:
    return mapping(topic=b"\x01", group=b"\x01", lease=b"\x01", partition=b"\x00", offsets=array(count, b"\x01"))


async def refused(home: Home, request: bytes) -> str:
    """What a request is refused with; the connection lives on."""
    body = b"\x92\x07" + request
    frame = len(body).to_bytes(4, "big") + body
    messages = set[str]()
    async with home.wire() as wire:

        async def send() -> Watch:
            async with Watch() as watch:
                wire.writer.write(frame)
                kind, request_id, problem = await wire.receive()
            assert (kind, request_id, problem["code"]) == (p.ERROR, 7, "invalid")
            messages.add(problem["message"])
            return watch

        watch = await calmest(send, stall=TURN_SECONDS)
        assert watch.longest_stall < TURN_SECONDS, watch
        assert watch.grown < GROWN, watch
        assert (await wire.ask(p.Ping()))[0] == p.ANSWER
    (message,) = messages
    return message


@pytest.mark.parametrize("column", ["values", "keys", "headers", "priorities", "json", "delays", "dedup_ids"])
async def test_a_batch_with_millions_of_messages_is_refused_unbuilt(home: Home, column: str) -> None:
    columns = {"values": array(1, b"\xc4\x00"), column: array(16 * MB, b"\x80" if column == "headers" else b"\xc0")}
    message = await refused(home, said("Publish", topic=TOPIC, batch=mapping(**columns)))
    assert "at most 10000 items" in message


async def test_a_message_with_millions_of_headers_is_refused_unbuilt(home: Home) -> None:
    batch = mapping(values=array(1, b"\xc4\x00"), headers=b"\x91" + numbers(2_000_000))
    assert "at most 128 headers" in await refused(home, said("Publish", topic=TOPIC, batch=batch))


# What has tens of megabytes is made when its test runs.
SMALL: dict[str, Callable[[], bytes]] = {
    "offsets": lambda: said("Settle", outcome=encode("ack"), runs=b"\x91" + run_of(16 * MB)),
    "runs": lambda: said("Settle", outcome=encode("ack"), runs=many_runs()),
    "extend": lambda: said("Extend", runs=b"\x91" + run_of(16 * MB)),
    "unknown": lambda: said("Ping", unknown=array(16 * MB)),
    "labels": lambda: said("Lease", consumer=encode("c"), labels=numbers(1_000_000)),
    "cancel": lambda: said("Cancel", request=array(16 * MB)),
    "text": lambda: said("ListTopics", namespace=b"\xdb" + (16 * MB).to_bytes(4, "big") + b"x" * (16 * MB)),
    "type last": lambda: mapping(topic=TOPIC, batch=mapping(values=array(16 * MB)), type=encode("Publish")),
    "no map": lambda: array(16 * MB),
}


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
async def test_what_does_not_say_first_that_it_carries_messages_is_small(home: Home, make: Callable[[], bytes]) -> None:
    assert "only what carries messages" in await refused(home, make())


async def test_receipts_by_the_million_are_refused_unbuilt_though_they_come_with_a_publish(home: Home) -> None:
    many = said("Transact", acks=array(limits.RUNS_MAX, run_of(50_000)), publishes=b"\x90")
    acks = said("Transact", acks=b"\x91" + run_of(16 * MB), publishes=b"\x90")
    async with Built() as built:
        for request in (acks, once(acks), many, once(many), said("Transact", acks=many_runs(), publishes=b"\x90")):
            message = await refused(home, request)
            assert f"at most {limits.RECEIPTS_MAX} receipts, of {limits.RUNS_MAX} leases" in message
    assert built.count == 0


def change(item: bytes) -> bytes:
    return said("ChangeTopic", topic=TOPIC, changes=mapping(lease=array(8 * MB, item)))


LARGE: dict[str, Callable[[], bytes]] = {
    "lists": lambda: change(b"\x90"),
    "maps": lambda: change(b"\x80"),
    "labels": lambda: said("CreateTopic", topic=TOPIC, config=mapping(labels=numbers(2_000_000))),
    "receipts": lambda: said("Settle", outcome=encode("ack"), runs=array(100, run_of(100_000))),
    "parts": lambda: said("Commit", transaction=encode("t"), parts=array(8 * MB, b"\xa0")),
    "unknown": lambda: said("Ping", unknown=array(8 * MB, b"\x90")),
}


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
async def test_what_carries_no_messages_is_small_whatever_it_is_wrapped_in(
    home: Home, make: Callable[[], bytes]
) -> None:
    request = make()
    async with Built() as built:
        for wrapped in (request, once(request), said("PublishOrWait", publish=once(request), wait_ms=b"\x01")):
            assert "only what carries messages" in await refused(home, wrapped)
    assert built.count == 0


@pytest.mark.parametrize("size", [200_000, 3 * MB])
async def test_what_carries_messages_only_at_first_sight_is_small(home: Home, size: int) -> None:
    """A field that is there twice: the first looks harmless, the second is what counts."""
    change = said("ChangeTopic", topic=TOPIC, changes=mapping(lease=array(size, b"\x90")))
    harmless = said("Publish", topic=TOPIC, batch=mapping(values=b"\x90"))
    fields = b"\xa4type\xa4Once\xa8producer\xa1p\xa8sequence\x01\xaadone_below\x01\xa7command%b\xa7command%b"
    async with Built() as built:
        for one, two in ((harmless, change), (change, harmless), (COMMIT_SMALL, change)):
            await refused(home, b"\x86" + fields % (one, two))
        await refused(home, b"\x83\xa4type\xa7Publish\xa4type\xabChangeTopic\xa7changes" + array(size, b"\x90"))
    assert built.count == 0


async def test_values_within_few_bytes_are_counted_before_they_are_built(home: Home) -> None:
    await make_jobs(home)
    changes = said("ChangeTopic", topic=TOPIC, changes=mapping(lease=array(30_000, b"\x90")))
    nested = said("ChangeTopic", topic=TOPIC, changes=mapping(lease=array(600, array(40, b"\x90"))))
    async with Built() as built:
        for request in (changes, nested, once(changes), once(nested)):
            assert "at most 4096 values" in await refused(home, request)
    assert built.count == 0


async def test_each_kind_has_the_room_that_it_may_need(home: Home) -> None:
    await make_jobs(home)
    long = "x" * (limits.NAME_BYTES_MAX - 4)
    labels = {f"{number:04d}{long}": long for number in range(limits.LABELS_MAX)}
    receipts = list(range(2**61, 2**61 + limits.RECEIPTS_MAX // limits.RUNS_MAX))
    runs = [Run(2**61, 2**61, 2**61 + number, 2**61, receipts) for number in range(limits.RUNS_MAX)]  # type: ignore[arg-type]
    parts = [f"{number:05d}{long[:-1]}" for number in range(limits.BATCH_MESSAGES_MAX)]
    async with home.wire() as wire:
        for request, answer in (
            (ChangeTopic(JOBS, {"labels": labels, "dlq_webhook": "http://x/" + "y" * 2_000}), None),
            (Lease(labels=labels, consumer="c" * 255), None),
            (Settle("ack", runs), None),
            (Extend(runs), None),
            (Transact(runs, [publish(b"x" * MB)]), "lease"),
            (Commit("t", parts), "is not open"),
            (MarkArchived(JOBS, dict.fromkeys(range(limits.PARTITIONS_MAX), 2**61)), "can be archived up to"),
        ):
            for sent in [request] if isinstance(request, Lease) else [request, Once("p", 1, 1, request)]:
                kind, body = await wire.ask(sent)
                assert kind == p.ANSWER or (answer and answer in body["message"]), (type(request), body)


async def test_so_many_messages_fail_at_a_time_and_no_more(home: Home) -> None:
    await make_jobs(home)
    runs = [Run(1, 1, number, 0, list(range(5_000))) for number in (1, 2, 3)]  # type: ignore[arg-type]
    async with home.wire() as wire:
        for outcome in ("nack", "reject"):
            kind, problem = await wire.ask(Settle(outcome, runs))
            assert (kind, problem["code"]) == (p.ERROR, "invalid")
            assert "at most 10000 receipts, this one has 15000" in problem["message"]
        assert (await wire.ask(Settle("ack", runs)))[0] == p.ANSWER
        many = [Run(1, 1, number, 0, list(range(90_000))) for number in (1, 2)]  # type: ignore[arg-type]
        assert "at most 100000 receipts" in (await wire.ask(Settle("ack", many)))[1]["message"]


async def test_a_transaction_has_no_more_messages_than_a_batch(home: Home) -> None:
    await make_jobs(home)
    async with home.wire() as wire:
        kind, problem = await wire.ask(Transact([], [publish(*[b"x"] * 6_000)] * 2))
        assert (kind, problem["code"]) == (p.ERROR, "invalid")
        assert "at most 10000 messages, this one has 12000" in problem["message"]


async def test_a_message_of_many_megabytes_is_published(home: Home) -> None:
    await home.queue.create_topic("jobs", max_message_bytes=64 * MB)
    async with home.wire() as wire:

        async def send() -> Watch:
            async with Watch() as watch:
                kind, _ = await wire.ask(publish(bytes(32 * MB)))
            assert kind == p.ANSWER
            return watch

        watch = await calmest(send, stall=TURN_SECONDS)
        assert watch.longest_stall < TURN_SECONDS, watch


@pytest.mark.parametrize("columns", [{}, {"keys": "key", "headers": {"a": "b", "c": "d"}, "dedup_ids": "id"}])
async def test_a_full_batch_is_published(home: Home, columns: dict[str, Any]) -> None:
    await make_jobs(home)
    command = msgspec.to_builtins(publish(*[b"x" * 1000] * 10_000), builtin_types=[bytes])
    for name, value in columns.items():
        command["batch"][name] = [f"{value}{number}" if isinstance(value, str) else value for number in range(10_000)]
    async with home.wire() as wire:
        assert (await wire.ask(command))[0] == p.ANSWER
    assert (await home.queue.topic("jobs")).messages == 10_000


FULL = {f"{number:03d}": "" for number in range(limits.HEADERS_MAX)}


async def test_headers_of_many_messages_are_refused_before_they_are_built(home: Home) -> None:
    await make_jobs(home)
    count = limits.BATCH_MESSAGES_MAX
    batch = mapping(values=array(count, encode(b"")), headers=array(count, encode(FULL)))
    async with Built() as built:
        for request in (
            said("Publish", topic=TOPIC, batch=batch),
            said("PublishOrWait", publish=said("Publish", topic=TOPIC, batch=batch), wait_ms=b"\x01"),
        ):
            assert "at most 250000 headers" in await refused(home, request)
    assert built.count == 0


@pytest.mark.parametrize("column", ["values", "keys"])
async def test_a_transaction_of_very_many_messages_is_refused_before_they_are_built(home: Home, column: str) -> None:
    await make_jobs(home)
    lists = {"values": b"\x90", column: array(9_000, encode(b"") if column == "values" else b"\xc0")}
    publishes = array(2_000, mapping(topic=TOPIC, batch=mapping(**lists)))
    async with Built() as built:
        assert "at most 10000 messages" in await refused(home, said("Transact", acks=b"\x90", publishes=publishes))
    assert built.count == 0


class Built:
    """How many commands were built of what came."""

    def __init__(self) -> None:
        self.count = 0
        self._patch = pytest.MonkeyPatch()

    async def __aenter__(self) -> Built:
        decoder = p._requests

        class Counting:
            @staticmethod
            def decode(body: memoryview) -> Any:
                found = decoder.decode(body)
                self.count += not isinstance(found[1], p.Hello | p.Ping)
                return found

        self._patch.setattr(p, "_requests", Counting)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._patch.undo()


async def test_a_batch_with_as_many_headers_as_it_may_have_is_published(home: Home) -> None:
    await make_jobs(home)
    count = limits.BATCH_HEADERS_MAX // limits.HEADERS_MAX
    batch = mapping(values=array(count, encode(b"")), headers=array(count, encode(FULL)))
    body = b"\x92\x07" + said("Publish", topic=TOPIC, batch=batch)
    async with home.wire() as wire:
        wire.writer.write(len(body).to_bytes(4, "big") + body)
        assert (await wire.receive())[:2] == (p.ANSWER, 7)
