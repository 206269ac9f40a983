"""Whatever happens to the files of a directory: `check` says what opening would say, and `repair` makes a directory that opens,
in which every message is either what it was or listed as gone, and nothing that was never there. What still lies whole in any
file, of the logs or of the write-ahead log, is never gone.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from ortoo import Queue
from ortoo.app.losses import LostCommit
from ortoo.app.repair import Repair, repair_directory
from ortoo.engine.state import State
from ortoo.model.errors import OrtooError
from ortoo.model.names import LEASES_PER_EPOCH, MessageRef
from ortoo.model.records import Record
from ortoo.stores.disk import KeyRing, RealDisk, draft
from ortoo.stores.disk.check import check_directory
from ortoo.stores.disk.frame import scan_frames
from ortoo.stores.disk.view import ViewDisk
from ortoo.testing.clock import ManualClock
from tests.format.directory import KEYS, Opened, Truth, opened
from tests.format.whole import whole_messages
from tests.format.worn import (
    END,
    STAGED,
    Files,
    Worn,
    checkpointed_history,
    go_on,
    numbered_history,
    quarantine_some,
    readable,
    wear,
)


@pytest.fixture(scope="module")
def worn() -> Worn:
    return asyncio.run(wear())


@pytest.fixture(scope="module")
def unflushed() -> Worn:
    """Its messages and its history are in the write-ahead log alone, also what the checkpoint contains."""
    worn = asyncio.run(wear(flush=False))
    assert not any(path.startswith(("logs/", "history/")) for path in worn.files)
    return worn


@pytest.fixture(scope="module")
def young() -> Worn:
    return asyncio.run(wear(1))


@pytest.fixture(scope="module")
def quarantined(worn: Worn) -> Worn:
    """What it missed keeps old files of the write-ahead log, as the open transaction does."""
    return asyncio.run(quarantine_some(worn))


class Damaged(NamedTuple):
    files: Files
    what: list[str]
    paths: set[str]


def hurt(data: bytes, random: Random) -> tuple[str, bytes | None]:
    how = random.choice(["flip", "flip", "cut", "edge", "zeros", "empty", "gone"])
    if how == "gone":
        return how, None
    if how == "empty" or not data:
        return how, b""
    at = random.randrange(len(data))
    if how == "flip":
        return f"{how} {at}", data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    if how == "zeros":
        size = random.randrange(1, 200)
        return f"{how} {at}+{size}", (data[:at] + bytes(size) + data[at + size :])[: len(data)]
    if how == "edge":
        at = random.choice([item.position for item in scan_frames(data)])
    return f"{how} {at}", data[:at]


def names_a_version(data: bytes | None) -> bool:
    """A newer one is not damage to be repaired."""
    return data is not None and re.match(rb"ortoo data directory, format [04-9]\n", data) is not None


def damage(worn: Worn, seed: int) -> Damaged:
    """One to three files, of any kind."""
    random = Random(seed)
    files, what, paths = dict(worn.files), [], set()
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        kind = random.choice(
            ["wal", "logs", "logs", "history", "checkpoint", random.choice(["FORMAT", "KEYS", "wal", "wal"])]
        )
        path = random.choice([path for path in worn.files if path.startswith(kind)] or ["FORMAT"])
        how, data = hurt(worn.files[path], random)
        what.append(f"{path}: {how}")
        if data == worn.files[path] or (path == "FORMAT" and names_a_version(data)):
            continue
        paths.add(path)
        files.pop(path, None)
        if data is not None:
            files[path] = data
    return Damaged(files, what, paths)


def put(files: Files, root: Path) -> Path:
    root.mkdir(parents=True)
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def check(path: Path) -> list[str]:
    return list(map(str, check_directory(ViewDisk(path), KeyRing(KEYS)).problems))


class Seen(NamedTuple):
    refusal: str | None
    problems: list[str]
    messages: Truth


async def look(path: Path) -> Seen:
    """What opening tells, and what can be read then."""
    try:
        async with opened(RealDisk(path), clock=ManualClock(END)) as one:
            problems = list(one.store.problems)
            try:
                return Seen(None, problems, await readable(one))
            except OrtooError as error:
                return Seen(None, [*problems, str(error)], {})
    except OrtooError as error:
        return Seen(str(error), [], {})


def is_listed(repair: Repair, ref: MessageRef, end: int) -> bool:
    for loss in repair.losses:
        is_there = (loss.topic_id, loss.partition) == (ref.topic, ref.partition)
        if is_there and loss.start <= ref.offset and (loss.end is None or ref.offset < loss.end):
            return True
    return ref.offset >= end and any(lost.touched is None for lost in repair.commits)


def live_messages(state: State) -> set[MessageRef]:
    """Those that somebody may still ask for."""
    logs = [(topic.id, log) for topic in state.topics.values() for log in topic.partitions]
    assert all(log.start <= log.end for _, log in logs), "offsets would be given again"
    return {
        MessageRef(topic, log.index, offset)
        for topic, log in logs
        for offset in range(log.start, log.end)
        if offset not in log.deleted
    }


async def check_repaired(worn: Worn, hurt: Damaged, repair: Repair, path: Path) -> None:
    assert check(path) == []
    for ref, value in whole_messages(take(path)).items():  # also where nobody could read it
        assert value == worn.ever.get(ref), f"{ref} was invented, or is not what it was"
    async with opened(RealDisk(path), clock=ManualClock(END)) as one:
        assert one.store.problems == []
        state, found = one.broker.engine.state, await readable(one)
        assert found.keys() == live_messages(state), "the state knows of others than there are"
        ends = {(t.id, p.index): p.end for t in state.topics.values() for p in t.partitions}
        is_cut = (
            max(path for path in worn.files if path.startswith("wal/")) in hurt.paths
        )  # nothing may tell of its end
        for ref in worn.truth.keys() - found.keys():
            if is_cut and ref.offset >= ends.get((ref.topic, ref.partition), 0):
                continue
            assert is_listed(repair, ref, ends.get((ref.topic, ref.partition), 0)), f"{ref} is gone without a word"
        for ref in found.keys() - worn.truth.keys():  # was removed; only what told so may have been lost
            assert is_cut or repair.commits or not repair.state_kept, f"{ref} came back"
        await check_history(worn, hurt, one)
        await check_transaction(one.queue, repair, is_cut)
        for topic in await one.queue.topics():
            for partition in range(len(topic.partitions)):
                sent = await one.queue.publish(topic.name, b"it goes on", partition=partition)
                ref = MessageRef(sent.topic_id, sent.partition, sent.offset)
                assert is_cut or repair.commits or ref not in worn.ever, f"{ref} is given again"
            await one.queue.ack(await one.queue.lease(topic.name, group="another", max_messages=1000))
        await one.checkpoint()
    assert check(path) == []


async def check_history(worn: Worn, hurt: Damaged, one: Opened) -> None:
    """What happened keeps its number, as far as a checkpoint tells it. And what only history tells is heeded, where the files
    that may have it are whole: what was deleted, and which numbers of groups and leases were given."""
    found, state = await numbered_history(one), one.broker.engine.state
    if not any(path.startswith("checkpoint/") for path in hurt.paths):
        for (topic, partition), end in worn.history_ends.items():
            numbers = range(end if topic in state.topics else 0)
            wrong = [
                number
                for number in numbers
                if (record := found.get((topic, partition, number))) is not None
                and record != worn.told.get((topic, partition, number))
            ]
            assert not wrong, f"history of topic {topic}, partition {partition}: {wrong} are others now"
    if not any(path.startswith(("history/", "wal/")) for path in hurt.paths):
        assert not worn.deleted & live_messages(state), "what was deleted came back"
        leases = [getattr(record, "lease", 0) for record in worn.told.values()]
        assert state.epoch > max(leases, default=0) // LEASES_PER_EPOCH, "leases are given again"
        assert state.number >= max([getattr(record, "group", 0) for record in worn.told.values()], default=0)


async def check_transaction(queue: Queue, repair: Repair, is_cut: bool) -> None:
    """All that was staged is there, or nothing, and then that is told."""
    try:
        count = await queue.named("job").commit()
    except OrtooError:
        assert is_cut or repair.transactions == ["default/job"] or any(lost.touched is None for lost in repair.commits)
    else:
        assert is_cut or count == len(STAGED)
        assert repair.transactions == []


@pytest.mark.parametrize("which", [0, -1], ids=["the first file", "the last file"])
async def test_what_a_lost_file_of_the_write_ahead_log_may_have_told_is_listed_as_gone(
    worn: Worn, tmp_path: Path, which: int
) -> None:
    """A transaction is open, and a checkpoint has all but what it staged: two files are left."""
    files = dict(worn.stages[-1])
    logs = [path for path in files if path.startswith("wal/")]
    after = int(logs[-1][-24:-4]) - 1
    assert len(logs) == 2
    del files[logs[which]]
    path = put(files, tmp_path / "data")
    assert (await look(path)).refusal is not None
    assert take(path).keys() - {"LOCK"} == files.keys()  # nothing is begun behind what is missing
    repair = await asyncio.to_thread(repair_directory, path, KEYS)
    assert repair.commits == ([LostCommit(after + 1, None, None)] if which else [])
    assert repair.transactions == ["default/job"]
    assert repair.losses == []
    assert check(path) == []
    assert (await look(path)).refusal is None


async def test_topics_that_lost_their_names_are_told_with_those_they_have_now(worn: Worn, tmp_path: Path) -> None:
    lost = {path: b"" if path.startswith("checkpoint/") else data for path, data in worn.files.items()}
    repair = await asyncio.to_thread(repair_directory, put(lost, tmp_path / "data"), KEYS)
    async with opened(RealDisk(tmp_path / "data"), clock=ManualClock(END)) as one:
        names = [topic.name for topic in await one.queue.topics() if topic.name.startswith("recovered-")]
    assert names
    for name in names:
        assert any(repr(name) in complaint for complaint in repair.complaints)


async def run_round(worn: Worn, seed: int, root: Path) -> str:
    hurt = damage(worn, seed)
    try:
        before = put(hurt.files, root / "check")
        files = {path: path.read_bytes() for path in before.rglob("*") if path.is_file()}
        problems = check(before)
        assert {path: path.read_bytes() for path in before.rglob("*") if path.is_file()} == files
        seen = await look(before)
        wrong = [
            problem for problem in seen.problems if "never confirmed" not in problem
        ]  # a torn end is told, not wrong
        assert problems or not (seen.refusal or wrong), (seen.refusal, wrong)
        if not problems:
            assert all(worn.ever.get(ref) == value for ref, value in seen.messages.items())
        path = put(hurt.files, root / "data")
        if seed % 3 == 0 and not seen.refusal:
            worn = (await go_on(worn, RealDisk(path)))._replace(history_ends=checkpointed_history(take(path)))
            seen = await look(put(take(path), root / "again"))
        whole = whole_messages(take(path))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                draft, "FLUSH_BYTES", 40 if seed % 2 else 1 << 40
            )  # what is written on the way, and at the end
            held = watch_memory(patch)
            repair = await asyncio.to_thread(repair_directory, path, KEYS)
            assert max(held, default=0) <= draft.FLUSH_BYTES
        found = await look_quietly(path)
        for ref in seen.messages.keys() - found.keys():
            assert is_listed(repair, ref, 1 << 60), f"{ref} could be read before"
        for ref in (whole.keys() & worn.truth.keys()) - found.keys():
            raise AssertionError(f"{ref} lay whole in a file, and is gone")
        await check_repaired(worn, hurt, repair, path)
    except BaseException as error:
        error.add_note(f"seed {seed}: {hurt.what}")
        raise
    return "closed" if seen.refusal else "problems" if problems else "well"


def watch_memory(patch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of messages a repair holds, whenever it has taken one."""
    held: list[int] = []
    whole = draft.Draft.take

    def take(self: draft.Draft, record: Record, number: int = 0) -> None:
        whole(self, record, number)
        held.append(sum(record.size for records in self._messages.values() for record in records))

    patch.setattr(draft.Draft, "take", take)
    return held


def take(root: Path) -> Files:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def look_quietly(path: Path) -> Truth:
    async with opened(RealDisk(path), clock=ManualClock(END)) as one:
        return await readable(one)


@pytest.mark.parametrize("first", range(0, 24, 12))
async def test_a_damaged_directory_is_checked_and_repaired(worn: Worn, first: int, tmp_path: Path) -> None:
    outcomes = [await run_round(worn, seed, tmp_path / str(seed)) for seed in range(first, first + 12)]
    assert len(set(outcomes)) > 1


async def test_one_with_a_quarantine_too(quarantined: Worn, tmp_path: Path) -> None:
    for seed in range(2000, 2012):
        await run_round(quarantined, seed, tmp_path / str(seed))


async def test_one_of_which_nothing_was_flushed_too(unflushed: Worn, tmp_path: Path) -> None:
    for seed in range(3000, 3016):
        await run_round(unflushed, seed, tmp_path / str(seed))


@pytest.mark.parametrize("which", ["worn", "unflushed"])
async def test_without_the_state_what_history_tells_is_heeded(
    worn: Worn, unflushed: Worn, which: str, tmp_path: Path
) -> None:
    before = {"worn": worn, "unflushed": unflushed}[which]
    [name] = [path for path in before.files if path.startswith("checkpoint/")]
    data = before.files[name]
    hurt = Damaged(before.files | {name: data[:-1] + bytes([data[-1] ^ 1])}, ["the state"], set())
    path = put(hurt.files, tmp_path / "data")
    repair = await asyncio.to_thread(repair_directory, path, KEYS)
    assert not repair.state_kept
    async with opened(RealDisk(path), clock=ManualClock(END)) as one:
        await check_history(before, hurt, one)
        assert before.deleted & before.ever.keys()


@pytest.mark.parametrize("how", ["emptied", "gone"])
@pytest.mark.parametrize("which", ["worn", "quarantined", "young", "unflushed"])
async def test_without_its_checkpoint_no_message_is_lost(
    worn: Worn, quarantined: Worn, young: Worn, unflushed: Worn, which: str, how: str, tmp_path: Path
) -> None:
    """Old files of the write-ahead log are left, and those between them are not."""
    before = {"worn": worn, "quarantined": quarantined, "young": young, "unflushed": unflushed}[which]
    files = {path: data for path, data in before.files.items() if not path.startswith("checkpoint/")}
    if how == "emptied":
        files |= {path: b"" for path in before.files if path.startswith("checkpoint/")}
    path = put(files, tmp_path / "data")
    repair = await asyncio.to_thread(repair_directory, path, KEYS)
    whole, found = whole_messages(files), await look_quietly(path)
    assert {ref: found.get(ref) for ref in before.truth.keys() & whole.keys()} == {
        ref: value for ref, value in before.truth.items() if ref in whole
    }
    for loss in repair.losses:
        gone = {ref.offset for ref in whole if (ref.topic, ref.partition) == (loss.topic_id, loss.partition)}
        assert loss.end is None or not gone & set(range(loss.start, loss.end)), loss


async def test_a_young_one_too(young: Worn, tmp_path: Path) -> None:
    for seed in range(1000, 1008):
        await run_round(young, seed, tmp_path / str(seed))


@pytest.mark.soak
async def test_and_many_more(worn: Worn, young: Worn, quarantined: Worn, unflushed: Worn, tmp_path: Path) -> None:
    first = int(os.environ.get("ORTOO_SEED", "10000"))
    for seed in range(first, first + int(os.environ.get("ORTOO_ROUNDS", "3000"))):
        await run_round([young, quarantined, worn, unflushed][seed % 4], seed, tmp_path / str(seed))


async def test_a_directory_that_is_well_stays_what_it_is(worn: Worn, tmp_path: Path) -> None:
    path = put(worn.files, tmp_path / "data")
    assert check(path) == []
    repair = await asyncio.to_thread(repair_directory, path, KEYS)
    assert (repair.losses, repair.complaints, repair.commits, repair.transactions) == ([], [], [], [])
    assert (await look(path)).messages == worn.truth
