"""Damage at rest: bits flipped, runs overwritten, files cut and files gone, in every file of a data directory.

Whatever is damaged, a reader finds it out. Either the queue says which file is damaged and does not open, or partitions are
quarantined and the others are as they were, or the end of the last write-ahead log file is cut, or reading the message that
is damaged fails. No wrong value is served, and nothing else is raised.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any, NamedTuple

import pytest

from ortoo.engine.partition import Partition
from ortoo.model.errors import CorruptionError, UnavailableError
from ortoo.model.message import Received
from ortoo.model.names import MessageRef, TopicId, parse_message_id
from ortoo.model.records import decode_records
from ortoo.model.replies import Columns, join_columns
from ortoo.stores.disk.frame import SIZE, Frame, scan_frames
from ortoo.testing.clock import ManualClock
from ortoo.testing.pieces import in_one
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format.directory import (
    START,
    Opened,
    Truth,
    Value,
    fill,
    histories,
    opened,
    partition_states,
    quarantine_reasons,
    small_files,
    values,
)

Files = dict[str, bytes]
NEW: Value = (b"new", None, None, 5, False, None)
DEAD = {"ortoo-origin", "ortoo-damaged"}
States = dict[tuple[str, int], Any]


class Whole(NamedTuple):
    """The directory before anything happened to it, and what it says."""

    files: Files
    truth: Truth
    states: States
    history: dict[MessageRef, bytes]
    last_wal: str
    cuts: dict[int, States]  # what is left when the last write-ahead log file ends at that frame


class Damaged(NamedTuple):
    path: str
    at: int
    how: str
    data: bytes | None  # None: the file is gone


def disk_of(files: Files) -> SimulatedDisk:
    disk = SimulatedDisk(Random(1))
    for path, data in files.items():
        disk.open(path).append(data)
    return disk


def files_of(disk: SimulatedDisk) -> Files:
    return {path: bytes(content.now) for path, content in sorted(disk.names.items())}


@pytest.fixture(scope="module")
def whole() -> Whole:
    return asyncio.run(_whole())


async def _whole() -> Whole:
    disk = SimulatedDisk(Random(1))
    truth = await fill(disk)
    files = files_of(disk)
    last_wal = max(path for path in files if path.startswith("wal/"))
    async with opened(disk_of(files)) as one:
        assert one.store.problems == []
        states, history = partition_states(one), await histories(one, truth)
    cuts = {}
    for frame in scan_frames(files[last_wal]):
        async with opened(disk_of(files | {last_wal: files[last_wal][: frame.position]})) as one:
            cuts[frame.position] = partition_states(one)
    return Whole(files, truth, states, history, last_wal, cuts)


def test_the_directory_has_something_of_everything(whole: Whole) -> None:
    kinds = Counter(path.rpartition(".")[2] for path in whole.files)
    assert kinds.keys() == {"FORMAT", "KEYS", "ckpt", "seg", "log", "hist", "wal"}
    assert kinds["seg"] > 3
    assert kinds["wal"] > 1
    assert len(whole.cuts) > 10


def test_nothing_of_an_encrypted_topic_can_be_read_in_the_files(whole: Whole) -> None:
    """Values, keys, headers, dedup ids, publishers and errors: of messages, staged ones, dead letters and histories."""
    for path, data in whole.files.items():
        for secret in (b"secret 0.", b"secret 7.", b"staged in secret", b"not now, secret", b"secret-4", b"secret-app"):
            assert secret not in data, path
        for public in (b"orders 7.0", b"not now, orders", b"orders-app-7"):
            assert not path.startswith(whole.last_wal) or public in data


# -- damages


def frame_starts(data: bytes) -> list[int]:
    return [frame.position for frame in scan_frames(data)]


def flips(path: str, data: bytes) -> Iterator[Damaged]:
    """A bit of each frame's fixed part, of its head and of its body. Where exactly goes round from frame to frame."""
    fixed = [0, 4, 5, 6, 8, 16, 20, 24, 32]
    for turn, frame in enumerate(scan_frames(data), start=sum(path.encode())):
        places = [0, len(data) // 2, len(data) - 1]
        if isinstance(frame, Frame) and frame.fixed.body_size:
            body = frame.position + SIZE + frame.fixed.head_size
            size = frame.fixed.body_size
            places = [
                frame.position + fixed[turn % 9],
                frame.position + SIZE + turn % frame.fixed.head_size,
                body + turn * 7 % size if turn % 6 else frame.position + 40,
                body + [0, size // 2, size - 1][turn % 3],
            ]
        for at in places:
            broken = bytearray(data)
            broken[at] ^= 1 << (at + turn) % 8
            yield Damaged(path, at, "flip", bytes(broken))


def runs(path: str, data: bytes) -> Iterator[Damaged]:
    """Zeros, or something else's bytes, over the start, the middle and across a boundary of two frames."""
    places = [0, len(data) // 2, max(0, frame_starts(data)[-1] - 3)]
    for at, run in zip(places, [bytes(7), Random(path).randbytes(20), bytes(300)], strict=True):
        broken = (data[:at] + run + data[at + len(run) :])[: len(data)]
        if broken != data:
            yield Damaged(path, at, "run", broken)


def cuts(path: str, data: bytes) -> Iterator[Damaged]:
    starts = frame_starts(data)
    for at in sorted({0, starts[len(starts) // 2], starts[-1] + 20, len(data) - 1}):
        yield Damaged(path, at, "cut", data[:at])


def damages(whole: Whole, folder: str) -> Iterator[Damaged]:
    for path, data in whole.files.items():
        if path.startswith(folder):
            yield from flips(path, data)
            yield from runs(path, data)
            yield from cuts(path, data)
            yield Damaged(path, 0, "gone", None)


# -- what may come of it


async def check(whole: Whole, damage: Damaged, deep: bool) -> str:
    files = {path: data for path, data in whole.files.items() if path != damage.path}
    disk = disk_of(files if damage.data is None else files | {damage.path: damage.data})
    one = Opened(disk)
    try:
        await one.queue.open()
    except (CorruptionError, UnavailableError) as error:
        check_names(damage, error)
        check_untouched(files, disk)
        return "closed"
    with small_files():
        outcome = await check_opened(whole, damage, one)
        if deep:
            await check_working(whole, damage, one)
        await one.queue.close()
        if deep:  # once more, after it has worked
            async with opened(disk, clock=ManualClock(START + 9 * 86_400)) as one:
                await check_values(whole, damage, one)
    return outcome


def check_names(damage: Damaged, error: Exception) -> None:
    text = str(error)
    if damage.data is None:
        assert "missing" in text or "none of Ortoo's" in text
    else:
        assert damage.path in text
        assert "at byte " in text or damage.path == "FORMAT" or "should come next" in text


def check_untouched(files: Files, disk: SimulatedDisk) -> None:
    """A directory that does not open keeps what it has."""
    now = files_of(disk)
    for path, data in files.items():
        assert now.get(path) == data or path.startswith("wal/"), path


async def check_opened(whole: Whole, damage: Damaged, one: Opened) -> str:
    states, troubled = partition_states(one), quarantine_reasons(one)
    for reason in troubled.values():
        assert damage.path[:-4] in reason  # without the suffix: a file that is gone might have been sealed, or not
        assert "at byte " in reason or (damage.data is None and "is missing" in reason)
    await check_values(whole, damage, one)
    expected = whole.states
    outcome = "quarantined" if troubled else "no effect"
    if damage.path == whole.last_wal and not troubled and states != whole.states:
        place = max(position for position in whole.cuts if position <= damage.at)
        expected, outcome = whole.cuts[place], "cut"
    healthy = expected.keys() - troubled
    assert {place: states[place] for place in healthy} == {place: expected[place] for place in healthy}
    if outcome != "cut":
        await check_history(whole, damage, one, troubled)
    return outcome


async def check_history(whole: Whole, damage: Damaged, one: Opened, troubled: dict[tuple[str, int], str]) -> None:
    for ref, wanted in whole.history.items():
        if (one.broker.engine.state.topics[ref.topic].name.name, ref.partition) in troubled:
            continue
        try:
            found = await in_one(one.store.history(*ref))
        except CorruptionError as error:
            check_names(damage, error)
            continue
        if found != decode_records(wanted):
            assert damage.path.startswith(f"history/{ref.topic}/{ref.partition}/")
            assert any(damage.path in problem for problem in one.store.problems)
            assert all(record in decode_records(wanted) for record in found)


async def check_values(whole: Whole, damage: Damaged, one: Opened) -> None:
    """Every message of a healthy partition is what was published, or reading it fails and names the place."""
    for topic in one.broker.engine.state.topics.values():
        for partition in topic.partitions:
            if partition.quarantine_reason is None:
                try:
                    columns = await one.store.scan(topic.id, partition.index, partition.start, partition.end)
                except CorruptionError:
                    assert damage.path.startswith(f"logs/{topic.id}/{partition.index}/")
                    columns = await read_what_can_be_read(damage, one, topic.id, partition)
                else:
                    assert columns.offsets == list(range(partition.start, partition.end))
                for offset, value in values(columns).items():
                    assert is_right(whole, MessageRef(topic.id, partition.index, offset), value)


async def read_what_can_be_read(damage: Damaged, one: Opened, topic: TopicId, partition: Partition) -> Columns:
    parts = []
    for offset in range(partition.start, partition.end):
        try:
            parts.append(await one.store.read(topic, partition.index, [offset]))
        except CorruptionError as error:
            check_names(damage, error)
    assert len(parts) < partition.end - partition.start
    return join_columns(parts)


def is_right(whole: Whole, ref: MessageRef, value: Value) -> bool:
    """As it was published; or published by this test, perhaps in the place of one that was cut off; or a new dead letter."""
    headers = value[2] or {}
    return value in (whole.truth.get(ref), NEW) or (ref not in whole.truth and not DEAD.isdisjoint(headers))


async def check_working(whole: Whole, damage: Damaged, one: Opened) -> None:
    """Drains everything, publishes everywhere, lets time pass, makes checkpoints and seals."""
    troubled = quarantine_reasons(one)
    for topic in await one.queue.topics():
        for info in topic.partitions:
            if (topic.name, info.partition) in troubled:
                await check_refuses(damage, one, topic.name, info.partition)
            else:
                await one.queue.publish(topic.name, b"new", partition=info.partition)
                await drain(whole, damage, one, topic.name, info.partition)
    before = partition_states(one)
    await one.clock.advance(10_000)  # retries come due, leases run out
    one.clock.jump(8 * 86_400)
    await one.clock.advance(1)  # and retention trims
    await one.broker.flush()
    after = partition_states(one)
    for place in troubled:  # what is quarantined waits for its repair, whatever the time
        assert after[place] == before[place]
    if not troubled:
        await one.checkpoint()
        await one.checkpoint()


async def check_refuses(damage: Damaged, one: Opened, topic: str, partition: int) -> None:
    with pytest.raises(UnavailableError, match=re.escape(damage.path[:-4])):
        await one.queue.publish(topic, b"new", partition=partition)
    try:
        assert await one.queue.lease(topic, group="reader", partition=partition) == []
    except UnavailableError as error:  # all of the topic is quarantined
        check_names(damage, error)


async def drain(whole: Whole, damage: Damaged, one: Opened, topic: str, partition: int) -> None:
    for _ in range(60):
        try:
            leased = await one.queue.lease(topic, group="reader", partition=partition)
        except CorruptionError as error:
            check_names(damage, error)
            continue
        if not leased:
            return
        assert is_right(whole, parse_message_id(leased[0].id), value_of(leased[0]))
        await one.queue.ack(leased)
    pytest.fail("there is no end to it")


def value_of(message: Received) -> Value:
    own = (message.value, message.key, message.headers_or_none, message.priority, message.is_json)
    return *own, message.publisher


async def check_all(whole: Whole, folder: str, every: int, step: int = 1) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for number, damage in enumerate(islice(damages(whole, folder), 0, None, step)):
        try:
            outcomes[await check(whole, damage, deep=number % every == 0)] += 1
        except BaseException as error:
            error.add_note(f"with {damage._replace(data=None)}")
            raise
    return outcomes


async def test_damage_to_the_format_keeps_the_queue_closed(whole: Whole) -> None:
    assert (await check_all(whole, "FORMAT", 1)).keys() == {"closed"}


async def test_damage_to_the_list_of_keys_is_told_and_costs_nothing(whole: Whole) -> None:
    assert (await check_all(whole, "KEYS", 5)).keys() == {"no effect"}
    async with opened(disk_of(whole.files | {"KEYS": b""})) as one:
        assert any("KEYS is damaged" in problem for problem in one.store.problems)


async def test_damage_to_the_checkpoint_keeps_the_queue_closed(whole: Whole) -> None:
    outcomes = await check_all(whole, "checkpoint/", 5)
    assert outcomes.keys() == {"closed"}


# A frame has four damages, so that every third comes to each kind in turn; `make soak` tries them all.
steps = pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])


@steps
async def test_damage_to_history_costs_history_only(whole: Whole, step: int) -> None:
    assert (await check_all(whole, "history/", 20, step)).keys() == {"no effect"}


@steps
async def test_damage_to_a_segment_costs_its_partition_or_one_read(whole: Whole, step: int) -> None:
    outcomes = await check_all(whole, "logs/", 30, step)
    assert outcomes.keys() == {"quarantined", "no effect"}
    assert min(outcomes.values()) > 20 // step


@steps
async def test_damage_to_the_write_ahead_log_is_isolated_or_reported_or_a_cut_tail(whole: Whole, step: int) -> None:
    outcomes = await check_all(whole, "wal/", 40, step)
    assert outcomes.keys() == {"closed", "quarantined", "cut", "no effect"}
    assert outcomes["quarantined"] > 30 // step
