"""check, repair, backup and restore, as an operator runs them."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import ortoo
from ortoo.app import repair
from ortoo.app.clock import SystemClock
from ortoo.app.repair import repair_directory
from ortoo.broker import Broker
from ortoo.cli.main import app, main
from ortoo.client import Queue
from ortoo.stores.disk import DiskStore, KeyRing, RealDisk, backup, open_directory
from ortoo.stores.disk import log as log_module
from ortoo.stores.disk.format import NEWEST
from ortoo.stores.disk.lock import DirectoryLock
from ortoo.testing import ManualClock

PARTITIONS, BATCHES, SIZE = 2, 30, 50


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def busy(path: Path) -> Queue:
    """A queue that makes a checkpoint every few kilobytes."""
    path.mkdir(exist_ok=True)
    store = DiskStore(RealDisk(path), KeyRing({}), checkpoint_bytes=20_000, flush_bytes=0, lock=DirectoryLock(path))
    return Queue(Broker(store, SystemClock()))


def unsaved(path: Path) -> Queue:
    """A queue that is closed without a checkpoint, as one that was killed: all of it is in the write-ahead log."""
    path.mkdir(exist_ok=True)
    return Queue(Broker(DiskStore(RealDisk(path), KeyRing({}), lock=DirectoryLock(path)), SystemClock()))


async def fill(path: Path) -> None:
    async with busy(path) as queue:
        await queue.create_topic("orders", partitions=PARTITIONS)
        for batch in range(BATCHES):
            messages = [ortoo.Message(b"%d" % (batch * SIZE + at), key=f"k{at % 9}") for at in range(SIZE)]
            await queue.publish_many("orders", messages)
            leased = await queue.lease("orders", max_messages=10)
            await queue.ack(leased[:5])
            await queue.nack(leased[5:], error="later", delay=0)


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    await fill(tmp_path / "data")
    return tmp_path / "data"


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern))


def damage(path: Path, share: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 0x10
    path.write_bytes(data)


def values(path: Path) -> set[bytes]:
    with ortoo.open_sync(path) as queue:
        return {message.value for message in queue.read("orders")}


EVERYTHING = {b"%d" % number for number in range(BATCHES * SIZE)}


def test_check_finds_nothing_wrong_with_a_good_directory(data: Path) -> None:
    result = run("check", data)
    assert result.exit_code == 0
    assert "no problems" in result.stdout


def test_check_names_file_and_position_and_exits_with_1(data: Path) -> None:
    segment = newest(data, "logs/*/0/*.log")
    damage(segment)
    result = run("check", data)
    assert result.exit_code == 1
    assert str(segment.relative_to(data)) in result.stdout
    assert re.search(r"byte \d+", result.stdout)
    assert "salvage what is readable with `ortoo repair`" in result.stdout


@pytest.mark.parametrize("what", ["a newer format", "half a copy", "strange files", "nothing of ours"])
def test_check_recommends_repair_only_where_that_helps(data: Path, what: str) -> None:
    if what == "a newer format":
        (data / "FORMAT").write_bytes(b"ortoo data directory, format 99\n")
    elif what == "half a copy":
        (data / "FORMAT").rename(data / "FORMAT.partial")
    else:
        shutil.rmtree(data)
        data.mkdir()
    if what == "strange files":
        (data / "notes.txt").touch()
    result = run("check", data)
    assert result.exit_code == 1
    assert "ortoo repair" not in result.stdout


def test_check_recommends_repair_where_only_the_version_is_missing(data: Path) -> None:
    (data / "FORMAT").unlink()
    assert "ortoo repair" in run("check", data).stdout
    assert run("repair", data).exit_code == 0
    assert run("check", data).exit_code == 0


def test_check_as_json_counts_what_it_read(data: Path) -> None:
    report = json.loads(run("check", data, "--json").stdout)
    assert report["problems"] == []
    assert report["files"] > 3


def test_check_of_something_else_says_so(tmp_path: Path) -> None:
    result = run("check", tmp_path)
    assert result.exit_code == 1
    assert "not a data directory" in result.stdout


def test_check_changes_nothing(data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    run("check", data)
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_a_torn_tail_is_not_damage(data: Path) -> None:
    wal = newest(data, "wal/*.wal")
    wal.write_bytes(wal.read_bytes()[:-3])
    assert run("check", data).exit_code == 0


def test_repair_keeps_all_but_the_damaged_frame_and_says_what_is_gone(data: Path) -> None:
    damage(newest(data, "logs/*/0/*.log"))
    done = json.loads(run("repair", data, "--json").stdout)
    [loss] = done["losses"]
    assert (loss["topic"], loss["partition"]) == ("orders", 0)
    kept = values(data)
    assert kept < EVERYTHING
    assert len(EVERYTHING - kept) == loss["end"] - loss["start"]
    assert run("check", data).exit_code == 0


def test_repair_keeps_the_damaged_directory(data: Path) -> None:
    segment = newest(data, "logs/*/0/*.log")
    damage(segment)
    broken = segment.read_bytes()
    done = json.loads(run("repair", data, "--json").stdout)
    assert (Path(done["damaged"]) / segment.relative_to(data)).read_bytes() == broken


def test_a_repaired_queue_goes_on(data: Path) -> None:
    damage(newest(data, "logs/*/1/*.log"))
    run("repair", data)
    with ortoo.open_sync(data) as queue:
        backlog = queue.group("orders").backlog
        assert 0 < backlog < BATCHES * SIZE
        queue.publish("orders", b"new", key="k1")
        taken = 0
        while messages := queue.lease("orders", max_messages=1000):
            queue.ack(messages)
            taken += len(messages)
        assert taken == backlog + 1


def test_repair_after_a_lost_commit_keeps_what_came_after_it(data: Path) -> None:
    wal = newest(data, "wal/*.wal")
    if wal.stat().st_size < 1000:
        asyncio.run(fill_more(data))
        wal = newest(data, "wal/*.wal")
    damage(wal, 0.3)
    assert run("check", data).exit_code == 1
    assert run("repair", data).exit_code == 0
    assert run("check", data).exit_code == 0
    assert values(data)


async def fill_more(path: Path) -> None:
    async with unsaved(path) as queue:
        for number in range(20):
            await queue.publish("orders", b"%d" % number, key="k0")


def test_repair_without_the_state_keeps_the_messages_and_says_so(data: Path) -> None:
    checkpoint = newest(data, "checkpoint/*.ckpt")
    damage(checkpoint, 0.99)
    result = run("repair", data)
    assert "what groups had done is not known" in result.stdout
    assert values(data) == EVERYTHING


def test_repair_of_a_good_directory_loses_nothing(data: Path) -> None:
    done = json.loads(run("repair", data, "--json").stdout)
    assert (done["losses"], done["complaints"]) == ([], [])
    assert values(data) == EVERYTHING


def history(path: Path) -> list[list[ortoo.HistoryEvent]]:
    with ortoo.open_sync(path) as queue:
        histories = [queue.read_history("orders", partition=index) for index in range(PARTITIONS)]
        return [[event for events in each for event in events] for each in histories]


def test_repair_leaves_what_happened_its_positions(data: Path) -> None:
    before = history(data)
    run("repair", data)
    assert history(data) == before


@pytest.mark.parametrize("share", [0.2, 0.99])
def test_whoever_follows_a_history_that_lost_some_goes_on_with_what_is_new(data: Path, share: float) -> None:
    before = history(data)[0]
    damage(newest(data, "history/*/0/*.hist"), share)
    run("repair", data)
    after = history(data)[0]
    assert 0 < len(after) < len(before)
    assert all(event in before for event in after)  # each at the position it had
    with ortoo.open_sync(data) as queue:
        end = before[-1].position
        queue.ack(queue.lease("orders", partition=0))
        [first, *_] = next(queue.read_history("orders", partition=0, from_position=end + 1))
        assert (first.position, first.what) == (end + 1, "delivered")


async def fill_short(path: Path) -> list[bytes]:
    """A log of 40 messages that is trimmed to its last few, and what is left of it."""
    path.mkdir(exist_ok=True)
    clock = ManualClock()
    store = DiskStore(RealDisk(path), KeyRing({}), in_threads=False, reserve_bytes=0, flush_bytes=0)
    broker = Broker(store, clock)
    async with Queue(broker) as queue:
        await queue.create_topic("orders", partitions=1, retention_seconds=60.0)
        for number in range(40):
            await queue.publish("orders", b"%d" % number, key="k")
            await clock.advance(10)
            if number % 10 == 9:
                await store.checkpoint(broker.engine.snapshot(), broker.now())
        return [message.value async for message in queue.read("orders")]


@pytest.mark.parametrize("share", [0.2, 0.99], ids=["all of it", "only the state"])
async def test_repair_of_a_trimmed_log_without_its_checkpoint_makes_a_directory_that_opens(
    tmp_path: Path, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "SEGMENT_BYTES", 1)
    left = await fill_short(tmp_path / "data")
    assert 0 < len(left) < 10
    damage(newest(tmp_path / "data", "checkpoint/*.ckpt"), share)
    before = sum(file.stat().st_size for file in (tmp_path / "data").rglob("*") if file.is_file())
    done = json.loads((await asyncio.to_thread(run, "repair", tmp_path / "data", "--json")).stdout)
    assert done["state_kept"] is False
    assert [loss for loss in done["losses"] if loss["certain"]] == []
    after = sum(file.stat().st_size for file in (tmp_path / "data").rglob("*") if file.is_file())
    assert after < 2 * before  # a gap is a gap, and no row of blanks
    async with Queue(Broker(open_directory(tmp_path / "data"), ManualClock())) as queue:
        [topic] = await queue.topics()
        found = [message.value async for message in queue.read(topic.name)]
        assert found[-len(left) :] == left
        assert (await queue.publish(topic.name, b"next")).offset == 40


async def test_repair_keeps_an_open_transaction(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with busy(data) as queue:
        await queue.create_topic("orders", partitions=PARTITIONS)
        staged = await queue.begin("job")
        await staged.publish("orders", b"staged")
        for _ in range(BATCHES):
            await queue.publish_many("orders", [bytes(100)] * SIZE)
    damage(newest(data, "logs/*/0/*.log"))
    done = json.loads((await asyncio.to_thread(run, "repair", data, "--json")).stdout)
    assert done["transactions"] == []
    async with ortoo.open(data) as queue:
        assert await queue.named("job").commit() == 1
        assert b"staged" in {message.value async for message in queue.read("orders")}


async def test_repair_says_which_transaction_is_lost_and_never_commits_half_of_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with busy(data) as queue:
        staged = await queue.begin("job")
        await staged.publish("orders", b"staged, one")
        await staged.publish("orders", b"staged, two")
    wal = newest(data, "wal/*.wal")
    wal.write_bytes(wal.read_bytes().replace(b"staged, one", b"Staged, one"))
    done = json.loads((await asyncio.to_thread(run, "repair", data, "--json")).stdout)
    assert done["transactions"] == ["default/job"]
    async with ortoo.open(data) as queue:
        with pytest.raises(ortoo.NotFoundError):
            await queue.named("job").commit()


async def test_repair_says_where_the_write_ahead_log_was_torn(data: Path) -> None:
    await fill_more(data)
    wal = newest(data, "wal/*.wal")
    wal.write_bytes(wal.read_bytes()[:-3])
    done = json.loads((await asyncio.to_thread(run, "repair", data, "--json")).stdout)
    [complaint] = done["complaints"]
    assert wal.name in complaint
    assert "never confirmed" in complaint
    assert (done["losses"], done["commits"]) == ([], [])


async def test_repair_names_a_lost_commit_and_what_it_spoke_of(data: Path) -> None:
    await fill_more(data)
    wal = newest(data, "wal/*.wal")
    damage(wal, 0.5)
    done = json.loads((await asyncio.to_thread(run, "repair", data, "--json")).stdout)
    [lost] = done["commits"]
    assert lost["first"] == lost["last"]
    [loss] = done["losses"]
    assert lost["touched"] == [f"partition {loss['partition']} of topic 'orders'"]
    assert loss["end"] - loss["start"] == 1


async def test_repair_with_a_wrong_key_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with ortoo.open(data, keys={"k": b"1" * 32}) as queue:
        await queue.create_topic("secret", encrypted=True)
        await queue.publish("secret", b"1")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    for keys in ({}, {"k": b"2" * 32}):
        with pytest.raises(ortoo.UnavailableError, match="key"):
            await asyncio.to_thread(repair_directory, data, keys)
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_repair_refuses_a_directory_that_is_open(data: Path) -> None:
    with ortoo.open_sync(data):
        result = run("repair", data)
    assert isinstance(result.exception, ortoo.UnavailableError)


async def test_a_backup_is_taken_while_the_queue_runs_and_loses_nothing_confirmed(tmp_path: Path) -> None:
    source, target, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    confirmed: list[bytes] = []
    async with busy(source) as queue:
        await queue.create_topic("orders")

        async def publish() -> None:
            for number in range(2_000):
                await queue.publish("orders", b"%d" % number)
                confirmed.append(b"%d" % number)
                if number == 300:
                    under_way.set()

        under_way = asyncio.Event()
        publishing = asyncio.create_task(publish())
        await under_way.wait()
        before = set(confirmed)
        result = await asyncio.to_thread(run, "backup", source, target)
        assert result.exit_code == 0, result.output
        await publishing
    assert run("restore", target, restored).exit_code == 0
    assert run("check", restored).exit_code == 0
    with ortoo.open_sync(restored) as again:
        kept = {message.value for message in again.read("orders")}
    assert before <= kept
    assert kept <= set(confirmed)


@pytest.mark.parametrize("links", [True, False], ids=["same file system", "another file system"])
async def test_a_backup_is_whole_though_a_checkpoint_comes_with_each_file_that_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    monkeypatch.setattr(log_module, "SEGMENT_BYTES", 200)
    source, target, loop = tmp_path / "data", tmp_path / "backup", asyncio.get_running_loop()
    source.mkdir()
    store = DiskStore(
        RealDisk(source), KeyRing({}), in_threads=False, reserve_bytes=0, flush_bytes=0, lock=DirectoryLock(source)
    )
    broker = Broker(store, SystemClock())
    async with Queue(broker) as queue:
        await queue.create_topic("orders", partitions=1, ordering="none")
        sent: list[bytes] = []

        async def go_on() -> None:
            """What was there goes, as far as the queue is concerned."""
            sent.append(b"%d" % len(sent))
            await queue.publish("orders", sent[-1] * 50)
            await queue.ack(await queue.lease("orders"))
            await store.checkpoint(broker.engine.snapshot(), broker.now())
            if len(sent) % 5 == 0:
                await queue.purge("orders")
                await store.checkpoint(broker.engine.snapshot(), broker.now())

        for _ in range(4):
            await go_on()
        before, real_copy, real_link = list(sent), backup._copy, os.link

        def copy(*arguments: Any) -> None:
            asyncio.run_coroutine_threadsafe(go_on(), loop).result(60)
            real_copy(*arguments)

        def link(old: Path, new: Path) -> None:
            if not links and target in new.parents:
                raise OSError(errno.EXDEV, "another file system")
            real_link(old, new)

        monkeypatch.setattr(backup, "_copy", copy)
        monkeypatch.setattr(os, "link", link)
        assert await asyncio.to_thread(backup.back_up, source, target) > 0
    assert len(sent) > len(before) + 3
    assert not list(source.glob("backup-*"))
    assert run("check", target).exit_code == 0
    with ortoo.open_sync(target) as again:
        assert [message.value for message in again.read("orders")] == [value * 50 for value in before]


async def test_what_a_killed_backup_held_goes_when_the_queue_is_opened(data: Path) -> None:
    (data / "backup-4711-0.tmp" / "wal").mkdir(parents=True)
    (data / "backup-4711-0.tmp" / "wal" / "1.wal").write_bytes(b"held")
    assert run("check", data).exit_code == 0
    async with ortoo.open(data):
        assert not list(data.glob("backup-*"))


def test_a_backup_stays_as_it_is_when_a_restored_copy_is_used(data: Path, tmp_path: Path) -> None:
    run("backup", data, tmp_path / "backup")
    before = {path: path.read_bytes() for path in (tmp_path / "backup").rglob("*") if path.is_file()}
    run("restore", tmp_path / "backup", tmp_path / "again")
    with ortoo.open_sync(tmp_path / "again") as queue:
        queue.purge("orders")
    assert {path: path.read_bytes() for path in (tmp_path / "backup").rglob("*") if path.is_file()} == before


def test_backup_and_restore_refuse_a_target_that_holds_something(data: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    for command in ("backup", "restore"):
        assert isinstance(run(command, data, tmp_path / "full").exception, ortoo.ExistsError)
    assert (tmp_path / "full" / "file").read_text() == "mine"


def is_killed(work: Callable[[], object]) -> bool:
    """Runs it in a process of its own; whether it was killed."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    try:
        work()
    finally:
        os._exit(0)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_within(at: int, work: Callable[[Path, Path], object], source: Path, target: Path) -> None:
    """Dies when half of that file is copied."""
    copied, real = itertools.count(), backup._copy

    def copy(source: Path, target: Path, path: str, size: int | None = None) -> None:
        if next(copied) == at:
            real(source, target, path, (source / path).stat().st_size // 2)
            die()
        real(source, target, path, size)

    backup._copy = copy
    work(source, target)


@pytest.mark.parametrize("work", [backup.back_up, backup.restore])
def test_a_copy_that_was_killed_anywhere_does_not_pass_for_a_whole_one(
    work: Callable[[Path, Path], object], tmp_path: Path
) -> None:
    source = tmp_path / "data"
    with ortoo.SyncQueue(lambda: unsaved(source)) as queue:  # all of it in one file of the write-ahead log
        for _ in range(20):
            queue.publish_many("orders", [b"x"] * 100)
    at = 0
    while is_killed(partial(killed_within, at, work, source, target := tmp_path / f"target-{at}")):
        assert run("check", target).exit_code == 1
        for use in (ortoo.open_sync, repair_directory):
            with pytest.raises(ortoo.UnavailableError, match="never finished; remove it, and copy again"):
                use(target)
        at += 1
    assert at > 0
    assert run("check", target).exit_code == 0


def test_a_restore_that_fails_leaves_nothing(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(source: Path, target: Path, path: str, size: int | None = None) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(backup, "_copy", copy)
    with pytest.raises(OSError, match="no space left"):
        backup.restore(data, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_no_new_directory_is_made_where_a_repair_was_killed_in_the_middle_of_the_exchange(data: Path) -> None:
    def repair() -> None:
        real = Path.rename

        def rename(old: Path, new: Path) -> None:
            real(old, new)
            die()

        Path.rename = rename  # type: ignore[method-assign,assignment]
        repair_directory(data)

    assert is_killed(repair)
    for use in (ortoo.open_sync, repair_directory):
        with pytest.raises(ortoo.UnavailableError, match="rename that one to data and repair it again"):
            use(data)
    assert not data.exists()
    (data.parent / "data.damaged-1").rename(data)
    assert run("repair", data).exit_code == 0
    assert run("check", data).exit_code == 0


def test_a_repair_that_cannot_put_the_new_directory_in_place_leaves_the_old_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, before = Path.rename, contents(data)

    def rename(old: Path, new: Path) -> Path:
        if old.name == "data.repairing-1":
            raise OSError(errno.EIO, "cannot be renamed")
        return real(old, new)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="cannot be renamed"):
        repair_directory(data)
    assert contents(data) == before
    assert [path.name for path in data.parent.iterdir()] == ["data"]


def test_what_killed_repairs_left_goes_with_the_next_one(data: Path) -> None:
    """And nothing else that has such a name."""

    def killed() -> None:
        repair._exchange = lambda *_: die()
        repair_directory(data)

    others = [data.parent / name for name in ("data.repairing-mine", "data2.repairing-1", "data.repairing-7")]
    for other in others:
        other.mkdir()
    (others[-1] / "LOCK").touch()  # it was opened since
    for _ in range(2):
        assert is_killed(killed)
    draft = data.parent / "data.repairing-1"
    assert (draft / "FORMAT").exists()
    assert run("repair", data).exit_code == 0
    assert not draft.exists()
    assert not (data.parent / "data.repairing-2").exists()
    assert all(other.exists() for other in others)


def test_repair_through_a_link_leaves_the_link_and_the_data_where_they_are(data: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "queue"
    link.symlink_to(data)
    (data / "FORMAT").write_bytes(b"")
    done = json.loads(run("repair", link, "--json").stdout)
    assert done["damaged"] == str(tmp_path / "data.damaged-1")
    assert link.readlink() == data
    assert not data.is_symlink()
    assert [path.name for path in (tmp_path / "links").iterdir()] == ["queue"]
    assert run("check", link).exit_code == 0
    data.rename(tmp_path / "elsewhere")
    with pytest.raises(ortoo.UnavailableError, match="a repair was interrupted"):
        ortoo.open_sync(link)


def test_a_mount_point_is_not_repaired_and_the_error_says_what_to_do(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = data.rename(tmp_path / "the data")
    line = f"63 43 254:0 /a {str(place).replace(' ', chr(92) + '040')} rw,relatime - ext4 /dev/vda rw\n"
    (tmp_path / "mounts").write_text("22 28 0:21 / /proc rw shared:5 - proc proc rw\n" + line)
    monkeypatch.setattr(repair, "MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(repair, "_rebuild", lambda *_: pytest.fail("the work is done in vain"))
    before = contents(place)
    with pytest.raises(ortoo.UnavailableError, match=r"is a mount point.*repair the copy"):
        repair_directory(place)
    assert contents(place) == before


def test_a_folder_that_is_mounted_onto_itself_is_a_mount_point(data: Path) -> None:
    mount = ["mount", "--bind", str(data), str(data)]
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", *mount], check=False).returncode:
        pytest.skip("this system lets us mount nothing")
    repair = f"{shlex.join(mount)} && exec {sys.executable} -m ortoo repair {shlex.quote(str(data))}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", repair], capture_output=True, text=True, check=False)
    assert done.returncode
    assert "is a mount point" in " ".join(done.stderr.split())


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_directory_of_a_newer_format_is_not_repaired(data: Path) -> None:
    (data / "FORMAT").write_bytes(b"ortoo data directory, format %d\n" % (NEWEST + 1))
    before = contents(data)
    with pytest.raises(ortoo.UnavailableError, match=f"format {NEWEST + 1}"):
        repair_directory(data)
    assert contents(data) == before
    (data / "FORMAT").write_bytes(b"ortoo data directory, for")
    repair_directory(data)
    assert run("check", data).exit_code == 0


def test_an_error_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["ortoo", "backup", str(tmp_path / "nothing"), str(tmp_path / "target")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert capsys.readouterr().err.splitlines()[0].startswith("error (not_found): ")


def test_help_and_version() -> None:
    assert "repair" in run("--help").stdout
    assert ortoo.__version__ in run("--version").stdout
