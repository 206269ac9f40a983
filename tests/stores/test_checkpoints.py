"""Checkpoints that fail, that are needed because the disk is full, and that go on beside a quarantined partition."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

import pytest

from ortoo import CorruptionError, FullError, Message, OutcomeUnknownError, Queue, UnavailableError
from ortoo.broker import Broker
from ortoo.client.transaction import NamedTransaction
from ortoo.stores.disk import DiskStore, KeyRing, history
from ortoo.stores.disk import log as logs
from ortoo.stores.disk.segment import Segment
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle
from ortoo.testing.crash import kill
from ortoo.testing.simulated_disk import DiskFault, SimulatedCrash, SimulatedDisk

NEVER = 1 << 40
KEY = {"k": bytes(32)}


class Site:
    """A disk that one process after the other opens."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.clock = ManualClock()
        self.keys: dict[str, bytes] = {}
        self.broker: Broker | None = None

    async def open(self, checkpoint_bytes: int = NEVER, reserve_bytes: int = 0, **options: Any) -> Queue:
        """Ends the process that has it open, as a crash does, and opens it anew."""
        if self.broker is not None:
            await kill(self.broker)
            self.disk.open_files = 0  # the system closes what a process had open
        self.store = DiskStore(
            self.disk,
            KeyRing(self.keys),
            checkpoint_bytes=checkpoint_bytes,
            reserve_bytes=reserve_bytes,
            in_threads=False,
            now=self.clock.time,
            **{"flush_bytes": 0} | options,
        )
        self.broker = Broker(self.store, self.clock)
        return await Queue(self.broker, consumer="tester").open()

    async def checkpoint(self) -> None:
        assert self.broker is not None
        await self.broker.flush()
        await self.store.checkpoint(self.broker.engine.snapshot(), self.broker.now())

    def files(self, folder: str) -> list[str]:
        return sorted(path for path in self.disk.names if path.startswith(folder))

    def damage(self, path: str, text: bytes) -> None:
        content = self.disk.names[path]
        content.now[bytes(content.now).index(text)] ^= 0xFF
        content.durable = bytes(content.now)

    def once(self, kind: str, fault: DiskFault) -> None:
        """The next operation of that kind fails."""
        left = [fault]
        self.disk.plan = lambda _, asked: left.pop() if asked == kind and left else "none"


@pytest.fixture
def site() -> Site:
    return Site()


async def read(queue: Queue, topic: str) -> list[bytes]:
    return [message.value async for message in queue.read(topic)]


# -- no room


async def fill_up(queue: Queue, topic: str) -> int:
    await queue.create_topic(topic, partitions=1, ordering="none")
    sent = 0
    with pytest.raises(FullError):
        for _ in range(1_000):
            await queue.publish_many(topic, [Message(Random(sent).randbytes(10_000)) for _ in range(10)])
            sent += 10
    return sent


@pytest.mark.parametrize("how", ["purge", "delete", "retention"])
@pytest.mark.parametrize("checkpoint_bytes", [1_000_000, NEVER], ids=["in segments", "in the write-ahead log"])
async def test_a_full_disk_heals_when_something_is_removed(
    site: Site, how: str, checkpoint_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SEGMENT_BYTES", 500_000)
    site.disk.capacity = 4_000_000
    queue = await site.open(checkpoint_bytes, reserve_bytes=500_000)
    assert await fill_up(queue, "t") >= 100
    if how == "purge":
        await queue.purge("t")
    elif how == "delete":
        await queue.delete_topic("t")
    else:
        await queue.update_topic("t", retention_seconds=100.0)
        await site.clock.advance(200)
    await site.clock.advance(20)  # nobody does anything
    assert site.store.status().full is None
    await queue.publish("other", b"there is room again")
    assert site.disk.free_bytes() > 3_000_000
    queue = await site.open()
    assert await read(queue, "other") == [b"there is room again"]


@pytest.mark.parametrize("how", ["abort", "timeout"])
async def test_a_disk_that_is_full_of_what_was_staged_heals_when_that_is_given_up(site: Site, how: str) -> None:
    """Although the last checkpoint knows all of it, so that the next one would have nothing to write."""
    site.disk.capacity = 4_000_000
    queue = await site.open(1_000_000, reserve_bytes=500_000)
    tx = await queue.begin("job", timeout=1000)
    with pytest.raises(FullError):
        for _ in range(1_000):
            await tx.publish_many("t", [Message(bytes(10_000))] * 5)
    await site.checkpoint()
    with pytest.raises(FullError):
        await queue.publish("other", bytes(100_000))
    if how == "abort":
        await tx.abort()
    else:
        await site.clock.advance(1001)
    await site.clock.advance(20)  # nobody does anything
    await queue.publish("other", bytes(100_000))
    assert site.disk.free_bytes() > 3_000_000


@pytest.mark.parametrize("how", ["one large batch", "many at a time", "a transaction", "staged"])
async def test_what_there_is_no_room_for_is_refused_before_it_takes_what_is_kept_for_settling(
    site: Site, how: str
) -> None:
    """It is written twice. What others publish in the same commit counts, too."""
    site.disk.capacity = 200_000
    queue = await site.open(reserve_bytes=50_000)
    await queue.create_topic("t", partitions=1, ordering="none")
    await queue.publish_many("t", [b"%d" % number for number in range(100)])
    tx = await queue.begin("job")
    room = site.store.status().room_bytes
    assert room is not None
    batches = [[Message(bytes(room // 8))]] * 8 if how == "many at a time" else [[Message(bytes(room // 8))] * 5]
    outcomes = await asyncio.gather(*(_send(queue, tx, how, batch) for batch in batches), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert refused
    assert all(isinstance(outcome, FullError) and "settling still works" in str(outcome) for outcome in refused)
    assert len(outcomes) - len(refused) == (3 if how == "many at a time" else 0)
    await queue.ack(await queue.lease("t", max_messages=50))
    await site.checkpoint()
    assert site.store.problems == []
    assert site.disk.free_bytes() >= 40_000
    await queue.publish("t", b"small")


async def _send(queue: Queue, tx: NamedTransaction, how: str, batch: list[Message]) -> None:
    if how == "staged":
        await tx.publish_many("t", batch)
    elif how == "a transaction":
        async with queue.transaction() as together:
            together.publish_many("t", batch)
    else:
        await queue.publish_many("t", batch)


async def test_what_is_refused_for_its_size_is_taken_once_a_checkpoint_has_made_room(site: Site) -> None:
    site.disk.capacity = 300_000
    queue = await site.open(reserve_bytes=50_000)
    await queue.publish_many("t", [Message(Random(number).randbytes(20_000)) for number in range(5)])
    await site.checkpoint()
    large = [Message(bytes(90_000))]
    with pytest.raises(FullError, match="publish less at a time"):
        await queue.publish_many("t", large)
    await queue.purge("t")
    await site.clock.advance(100)
    await queue.publish_many("t", large)


async def test_a_checkpoint_that_has_no_room_leaves_nothing_behind(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """No draft, no half file, no open one: that would take from what is kept for acks."""
    monkeypatch.setattr(history, "FRAME_RECORDS", 1)
    queue = await site.open()
    await queue.publish_many("t", [b"1", b"2", b"3"])
    leased = await queue.lease("t", max_messages=3)
    await site.checkpoint()
    for message in leased:
        await queue.ack(message)
    before, opened = {path: len(content.now) for path, content in site.disk.names.items()}, site.disk.open_files
    for failing in range(1, 10):
        appends = count(1)
        site.disk.plan = lambda _, kind: "no space" if kind == "append" and next(appends) == failing else "none"  # noqa: B023
        await site.checkpoint()
        if not site.store.problems:
            break
        after = {path: len(content.now) for path, content in site.disk.names.items() if len(content.now)}
        is_flushed = {path for path in after if path.startswith("history/") and after[path] > before[path]}
        assert {path: after[path] for path in after.keys() - is_flushed} == {
            path: size for path, size in before.items() if size and path not in is_flushed
        }
        assert len(is_flushed) == (failing > 3)  # once it is whole, it need not be written again
        assert site.disk.open_files == opened
    assert failing > 2


async def test_a_checkpoint_that_was_killed_leaves_no_draft_once_the_queue_is_open(site: Site) -> None:
    queue = await site.open()
    await queue.publish("t", b"1")
    site.once("rename", "crash before")
    with pytest.raises(SimulatedCrash):
        await site.checkpoint()
    site.disk.is_off = False
    assert any(path.endswith(".tmp") for path in site.files("checkpoint/"))
    await site.open()
    assert site.files("checkpoint/") == []


async def test_a_disk_filled_by_others_heals_when_a_checkpoint_at_first_has_no_room(site: Site) -> None:
    queue = await site.open(100_000, reserve_bytes=50_000)
    await queue.create_topic("t", partitions=1, ordering="none")
    await queue.publish_many("t", [Message(bytes(10_000))] * 5)
    site.disk.capacity = 60_000  # others took the rest
    with pytest.raises(FullError):
        for _ in range(100):
            await queue.publish_many("t", [Message(bytes(500))] * 5)
            await site.clock.advance(1)
    await queue.purge("t")
    for _ in range(10):
        await site.clock.advance(10)
    await queue.publish("t", b"again")
    assert await read(queue, "t") == [b"again"]


@pytest.mark.parametrize("failing", ["append", "rename"])
async def test_what_a_failed_checkpoint_should_have_removed_goes_with_the_next_one(site: Site, failing: str) -> None:
    """The folder of a topic that was deleted is named by nothing else."""
    queue = await site.open()
    await queue.create_topic("t", partitions=2)
    await queue.publish_many("t", [Message(b"%d" % number, key=f"k{number}") for number in range(20)])
    await queue.ack(await queue.lease("t"))
    await site.checkpoint()
    assert len(site.files("logs/1/")) == 2
    assert site.files("history/1/")
    await queue.delete_topic("t")
    await queue.publish("u", b"1")
    site.once(failing, "no space")
    await site.checkpoint()
    assert "checkpoint failed" in (await queue.stats()).problems[0]
    assert len(site.files("logs/1/")) == 2
    await site.checkpoint()
    assert (await queue.stats()).problems == []
    assert site.files("logs/1/") == site.files("history/1/") == []


async def test_a_segment_that_cannot_be_sealed_is_tried_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the next start: it is read as a whole for that, and would be with each checkpoint."""
    monkeypatch.setattr(logs, "SEGMENT_BYTES", 1)
    tried: list[str] = []
    seal = Segment.seal

    def counted(segment: Segment) -> Segment:
        tried.append(segment.path)
        return seal(segment)

    monkeypatch.setattr(Segment, "seal", counted)
    queue = await site.open()
    await queue.create_topic("t", partitions=1)
    await queue.publish("t", b"damaged")
    await site.checkpoint()
    first = site.files("logs/1/")[0]
    site.damage(first, b"damaged")
    for number in range(4):
        await queue.publish("t", b"%d" % number)
        await site.checkpoint()
    assert tried.count(first) == 1
    assert len(tried) == 4  # the others were sealed, but for the last one
    assert [problem for problem in (await queue.stats()).problems if "stays as it is" in problem]


# -- a new file of the write-ahead log


@pytest.mark.parametrize("fault", ["no space", "no file"])
async def test_a_checkpoint_that_cannot_begin_a_file_of_the_log_costs_nothing(site: Site, fault: DiskFault) -> None:
    queue = await site.open()
    await queue.publish("t", b"1")
    site.once("create", fault)
    await site.checkpoint()
    [problem] = (await queue.stats()).problems
    assert "checkpoint failed" in problem
    await queue.publish("t", b"2")
    await site.checkpoint()
    assert (await queue.stats()).problems == []
    queue = await site.open()
    assert await read(queue, "t") == [b"1", b"2"]


async def test_a_store_that_cannot_begin_a_file_when_it_recovers_recovers_later(site: Site) -> None:
    queue = await site.open()
    await queue.publish("t", b"1")
    site.disk.plan = lambda _, kind: "no space" if kind in ("append", "create") else "none"
    with pytest.raises(OutcomeUnknownError):
        await queue.publish("t", b"2")
    for _ in range(3):
        await site.clock.advance(10)
        with pytest.raises(UnavailableError):
            await queue.publish("t", b"3")
    site.disk.plan = lambda _, __: "none"
    await site.clock.advance(10)
    await queue.publish("t", b"4")
    assert (await read(queue, "t"))[-1] == b"4"
    assert site.disk.open_files <= 2


# -- failed checkpoints


async def three_segments(site: Site, monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setattr(logs, "SEGMENT_BYTES", 1)
    queue = await site.open()
    await queue.create_topic("t", partitions=1, ordering="none")
    for number in range(3):
        await queue.publish("t", b"%d" % number)
        await site.checkpoint()
    return queue


@pytest.mark.parametrize("failing", ["append", "sync", "rename"])
async def test_a_failed_checkpoint_keeps_what_is_to_be_freed_in_mind(
    site: Site, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await three_segments(site, monkeypatch)
    assert len(site.files("logs/")) == 3
    await queue.purge("t")

    def plan(_: int, kind: str) -> DiskFault:
        writes = any(path.endswith(".ckpt.tmp") for path in site.disk.names)
        return ("sync fails" if kind == "sync" else "no space") if kind == failing and writes else "none"

    site.disk.plan = plan
    await site.checkpoint()
    assert any("checkpoint failed" in problem for problem in site.store.status().problems)
    site.disk.plan = lambda _, __: "none"
    await site.checkpoint()
    assert site.files("logs/") == []
    assert site.store.status().problems == ()


async def test_a_file_that_cannot_be_removed_is_removed_by_a_later_checkpoint(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await three_segments(site, monkeypatch)
    await queue.purge("t")
    site.disk.plan = lambda _, kind: "no space" if kind == "remove" else "none"
    await site.checkpoint()
    site.disk.plan = lambda _, __: "none"
    await site.checkpoint()
    assert site.files("logs/") == []


async def test_a_damaged_segment_is_tried_once_and_leaves_no_draft(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SEGMENT_BYTES", 1)
    queue = await site.open()
    await queue.create_topic("t", partitions=1, ordering="none")
    await queue.publish("t", b"the damaged one")
    await site.checkpoint()
    site.damage(site.files("logs/")[0], b"the damaged one")
    for number in range(5):
        await queue.publish("t", b"%d" % number)
        await site.checkpoint()
    assert [path for path in site.disk.names if path.endswith(".tmp")] == []
    assert site.disk.open_files <= 10
    assert len([problem for problem in site.store.status().problems if "damaged" in problem]) == 1


# -- quarantine


async def test_a_quarantined_partition_does_not_stop_checkpoints(site: Site) -> None:
    queue = await site.open()
    await queue.create_topic("bad", partitions=1, ordering="none")
    await queue.publish("bad", b"kept")
    await queue.publish("good", b"first")
    await site.checkpoint()
    [path] = [path for path in site.files("logs/") if b"kept" in site.disk.names[path].now]
    site.disk.names[path].now[26] ^= 0xFF  # in its head
    before = bytes(site.disk.names[path].now)
    queue = await site.open(1_000)
    for _ in range(50):
        await queue.publish("good", bytes(100))
    assert site.store.figures().wal_bytes < 5_000
    assert site.store._catalog.count_blocks() < 50
    for _ in range(2):
        queue = await site.open()
        assert len(await read(queue, "good")) == 51
        with pytest.raises(UnavailableError, match="quarantined"):
            await queue.publish("bad", b"no")
        assert bytes(site.disk.names[path].now) == before


async def test_dedup_ids_of_an_encrypted_topic_survive_restarts_beside_a_quarantined_partition(site: Site) -> None:
    site.keys = KEY
    queue = await site.open(1)
    await queue.create_topic("secret", partitions=2, encrypted=True, dedup_window=86_400.0, retention_seconds=30.0)
    await queue.publish("secret", b"damaged", partition=1)
    await queue.publish("other", b"makes a checkpoint")
    [path] = site.files("logs/1/1/")
    site.disk.names[path].now[40] ^= 0xFF
    queue = await site.open(1)
    assert "quarantined" in (await queue.stats()).problems[0]
    await queue.publish("secret", b"once", partition=0, dedup_id="X")
    await site.clock.advance(60)
    await site.clock.advance(60)
    assert (await queue.topic("secret")).partitions[0].start == 1  # it is trimmed
    for _ in range(3):
        for _ in range(3):
            await queue.publish("other", b"makes a checkpoint")
        queue = await site.open(1)
        assert (await queue.publish("secret", b"once", partition=0, dedup_id="X")).duplicate


async def test_a_topic_whose_key_is_missing_for_a_while_loses_nothing_by_checkpoints(site: Site) -> None:
    site.keys = KEY
    queue = await site.open()
    await queue.create_topic("secret", partitions=2, encrypted=True, ordering="none")
    await queue.publish("secret", b"in a segment", partition=0)
    await site.checkpoint()
    await queue.publish("secret", b"in the log", partition=0)
    await queue.publish("secret", b"other partition", partition=1)
    await queue.ack(await queue.lease("secret", group="g", max_messages=1))
    for _ in range(3):
        site.keys = {}
        queue = await site.open()
        with pytest.raises(UnavailableError, match="key"):
            await queue.publish("secret", b"no")
        for number in range(5):
            await queue.publish("plain", b"%d" % number)
            await site.checkpoint()
        assert (await queue.stats()).problems != []
    assert len(site.files("wal/")) < 10
    site.keys = KEY
    queue = await site.open()
    assert (await queue.stats()).problems == []
    assert sorted(await read(queue, "secret")) == [b"in a segment", b"in the log", b"other partition"]
    assert (await queue.group("secret", "g")).backlog == 2
    assert len(await read(queue, "plain")) == 15
    await site.checkpoint()
    await site.checkpoint()
    assert len(site.files("wal/")) == 1
    queue = await site.open()
    assert (await queue.group("secret", "g")).backlog == 2


async def test_a_topic_whose_key_is_missing_again_and_again_loses_nothing(site: Site) -> None:
    site.keys = KEY
    queue = await site.open()
    await queue.create_topic("secret", partitions=1, encrypted=True, ordering="none")
    await queue.publish("secret", b"1")
    await site.checkpoint()
    await queue.publish("secret", b"2")
    site.keys = {}
    queue = await site.open()
    await queue.publish("plain", b"1")
    await site.checkpoint()
    site.keys = KEY
    queue = await site.open()
    await queue.publish("secret", b"3")  # and no checkpoint follows
    site.keys = {}
    queue = await site.open()
    await queue.publish("plain", b"2")
    await site.checkpoint()
    await site.checkpoint()
    site.keys = KEY
    assert await read(await site.open(), "secret") == [b"1", b"2", b"3"]


async def test_a_topic_made_in_the_commit_of_its_first_messages_loses_nothing_while_its_key_is_missing(
    site: Site,
) -> None:
    site.keys = KEY
    queue = await site.open()
    await queue.create_topic("secret", partitions=1, encrypted=True, ordering="none", max_attempts=1)
    await queue.publish("secret", b"1")
    await queue.reject(await queue.lease("secret"), "no")  # which makes the topic of the dead letters, encrypted, too
    site.keys = {}
    queue = await site.open()
    assert len(await queue.topics()) == 2
    await queue.publish("plain", b"1")
    await site.checkpoint()
    await site.checkpoint()
    site.keys = KEY
    queue = await site.open()
    assert [letter.value for letter in await queue.dead_letters("secret")] == [b"1"]


async def test_a_commit_that_is_damaged_stays_known_as_such_after_checkpoints(site: Site) -> None:
    queue = await site.open()
    await queue.create_topic("bad", partitions=1, ordering="none")
    await queue.create_topic("good", partitions=1, ordering="none")
    await queue.publish("bad", b"before")
    await queue.publish("bad", b"damaged")
    await queue.publish("bad", b"after")
    await queue.publish("good", b"1")
    site.damage(site.files("wal/")[0], b"damaged")
    for number in range(3):
        queue = await site.open()
        await queue.publish("good", b"more %d" % number)
        await site.checkpoint()
        await queue.publish("good", b"even more %d" % number)
        with pytest.raises(UnavailableError, match="quarantined"):
            await queue.publish("bad", b"no")
        await site.checkpoint()
    assert any(b"after" in site.disk.names[path].now for path in site.files("wal/"))  # for who repairs it
    assert len(await read(queue, "good")) == 7
    await queue.delete_topic("bad")
    await site.checkpoint()
    await site.checkpoint()
    assert not any(b"after" in site.disk.names[path].now for path in site.disk.names)
    await settle()


# -- what a crash, or somebody, has left


async def test_what_was_cut_off_at_the_end_of_the_log_is_told(site: Site) -> None:
    queue = await site.open()
    await queue.publish("t", b"1")
    [*_, last] = site.files("wal/")
    site.disk.names[last].now += b"half a commit"
    queue = await site.open()
    [problem] = (await queue.stats()).problems
    assert "13 bytes" in problem
    assert "never confirmed" in problem
    assert (await site.open()) is not queue
    assert site.store.status().problems == ()


async def test_a_directory_that_has_lost_its_log_is_refused_however_young_it_is(site: Site) -> None:
    queue = await site.open()
    await queue.publish("t", b"1")
    for path in site.files("wal/"):
        del site.disk.names[path]
    before = dict(site.disk.names)
    with pytest.raises(CorruptionError, match=r"missing.*restore"):
        await site.open()
    assert site.disk.names == before


async def test_a_directory_that_has_lost_the_last_file_of_its_log_is_refused_beside_an_open_transaction(
    site: Site,
) -> None:
    """What is published then would get numbers that the checkpoint contains, and be gone the next time."""
    queue = await site.open()
    await (await queue.begin("job")).publish("t", b"staged")
    for number in range(5):
        await queue.publish("t", b"%d" % number)
        await site.checkpoint()
    first, last = site.files("wal/")
    del site.disk.names[last]
    before = dict(site.disk.names)
    with pytest.raises(CorruptionError, match=rf"{last}.*missing.*restore"):
        await site.open()
    assert site.disk.names == before
    assert first in before


@pytest.mark.parametrize("fault", ["crash before", "crash after"])
async def test_a_directory_whose_making_was_interrupted_anywhere_is_made(site: Site, fault: DiskFault) -> None:
    for stop in range(30):
        disk = site.disk = SimulatedDisk(Random(stop))
        disk.plan = lambda operation, _, stop=stop: fault if operation == stop else "none"  # type: ignore[misc]
        with suppress(SimulatedCrash):
            _ = [commit async for commit in DiskStore(disk, in_threads=False, reserve_bytes=0).recover()]
        disk.plan = lambda _, __: "none"
        site.broker = None
        disk.power_off()
        queue = await site.open()
        await queue.publish("t", b"1")


@pytest.mark.parametrize("when", ["recovering", "checkpoint"])
async def test_a_sync_of_the_folder_of_the_log_that_fails_is_not_tried_again(site: Site, when: str) -> None:
    """Of a file, or of the folder: the system may have forgotten what it failed to write."""
    failures: list[OSError] = []
    queue = await site.open(on_sync_failure=failures.append)
    await queue.publish("t", b"1")
    left = ["sync fails"]
    broken = site.disk.sync_dir

    def sync_dir(folder: str) -> None:
        if folder == "wal" and left:
            raise OSError(left.pop())
        broken(folder)

    site.disk.sync_dir = sync_dir  # type: ignore[method-assign]
    if when == "checkpoint":
        await site.checkpoint()
    else:
        with pytest.raises(UnavailableError):
            await site.open(on_sync_failure=failures.append)
    assert [str(error) for error in failures] == ["sync fails"]
