"""Messages and history lie in the write-ahead log until they are flushed: when that happens, what it costs, and what is left of
what cannot be flushed."""

from __future__ import annotations

import errno
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from ortoo import Message, Queue
from ortoo.broker import Broker
from ortoo.model.batch import Batch, content_bytes
from ortoo.model.errors import ConfigError, CorruptionError, UnavailableError
from ortoo.model.names import TopicId
from ortoo.model.records import Published, TopicCreated, TopicDeleted, decode_records, encode_records
from ortoo.model.replies import Columns
from ortoo.model.topic import TopicConfig
from ortoo.stores.disk import DiskStore, File, KeyRing, RealDisk, flushing, recent
from ortoo.stores.disk.catalog import Catalog
from ortoo.stores.disk.crypto import Sealed
from ortoo.stores.disk.flushing import FlushPlan
from ortoo.stores.disk.frame import Frame, scan_frames
from ortoo.stores.disk.log import DiskLog
from ortoo.stores.disk.logged import CommitReader
from ortoo.stores.disk.wal import Wal
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle
from ortoo.testing.crash import kill
from ortoo.testing.simulated_disk import SimulatedDisk

NEVER = 1 << 40
MIB = 1 << 20


class Site:
    """A disk that one process after the other opens."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.broker: Broker | None = None
        self.syncs = 0

    async def open(self, keys: dict[str, bytes] | None = None) -> Queue:
        if self.broker is not None:
            await kill(self.broker)
        self.store = DiskStore(
            self.disk, KeyRing(keys or {}), checkpoint_bytes=NEVER, flush_bytes=NEVER, reserve_bytes=0, in_threads=False
        )
        self.broker = Broker(self.store, ManualClock())
        return await Queue(self.broker, consumer="tester").open()

    async def checkpoint(self, flush: bool = False) -> int:
        """Returns how many times it synced something."""
        assert self.broker is not None
        await self.broker.flush()
        self.store._flush_bytes = 0 if flush else NEVER
        syncs = [0]

        def count(_: int, kind: str) -> str:
            syncs[0] += kind == "sync"
            return "none"

        self.disk.plan = count  # type: ignore[assignment]
        await self.store.checkpoint(self.broker.engine.snapshot(), self.broker.now())
        self.disk.plan = lambda _operation, _kind: "none"
        return syncs[0]

    def files(self, folder: str) -> list[str]:
        return sorted(path for path in self.disk.names if path.startswith(folder))

    def damage(self, text: bytes) -> str:
        """Where it lies in the write-ahead log."""
        [path] = [path for path in self.files("wal/") if text in self.disk.names[path].now]
        content = self.disk.names[path]
        content.now[bytes(content.now).index(text)] ^= 0xFF
        content.durable = bytes(content.now)
        return path


async def read(queue: Queue, topic: str) -> list[bytes]:
    return [message.value async for message in queue.read(topic)]


async def use(queue: Queue, topics: int) -> None:
    for number in range(topics):
        await queue.publish(f"t{number}", b"%d" % number)
        await queue.ack(await queue.lease(f"t{number}"))


# -- when


@pytest.mark.parametrize(
    ("sizes", "flush_bytes", "everything", "wanted"),
    [
        ([10, 10, 10], 100, False, []),
        ([10, 10, 10], 100, True, [[1, 2, 3]]),
        ([40, 40, 40], 100, False, [[1, 2]]),  # the older half: what is left is no more than half of the limit
        ([200, 1, 1], 100, False, [[1]]),
        ([1, 1, 200], 100, False, [[1, 2, 3]]),
        ([], 0, True, []),
        ([30 * MIB, 30 * MIB, 30 * MIB], MIB, False, [[1, 2], [3]]),  # no more at a time than may be in memory
        ([1] * 63, NEVER, False, []),
        ([1] * 64, NEVER, False, [[*range(1, 33)]]),  # each opening begins a file
    ],
)
def test_the_plan(sizes: list[int], flush_bytes: int, everything: bool, wanted: list[list[int]]) -> None:
    wal = Wal(SimulatedDisk(Random(1)))
    wal.files = list(range(1, len(sizes) + 2))
    wal.sizes = dict(enumerate([*sizes, 5], start=1))
    wal.next_number = len(sizes) + 2
    plan = FlushPlan(flush_bytes, everything)
    assert plan.passes(wal, 1, len(sizes)) == wanted
    assert plan.passes(wal, None, len(sizes)) == []


async def test_many_blocks_are_flushed_whatever_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    queue = await site.open()
    await use(queue, 3)
    monkeypatch.setattr("ortoo.stores.disk.store.FLUSH_BLOCKS", 1000)
    await site.checkpoint()
    assert site.files("logs/") == []
    monkeypatch.setattr("ortoo.stores.disk.store.FLUSH_BLOCKS", 3)
    await site.checkpoint()
    assert len(site.files("logs/")) == len(site.files("history/")) == 3
    assert len(site.files("wal/")) == 1


# -- what it costs


async def test_a_checkpoint_costs_the_same_for_one_topic_and_for_many() -> None:
    syncs = []
    for topics in (1, 40):
        site = Site()
        queue = await site.open()
        await use(queue, topics)
        syncs.append(await site.checkpoint())
        assert site.files("logs/") == site.files("history/") == []
    assert syncs[0] == syncs[1]


async def test_a_large_flush_syncs_everything_at_once() -> None:
    site = Site()
    queue = await site.open()
    light = await site.checkpoint()
    await use(queue, flushing.FEW_FILES)
    heavy = await site.checkpoint(flush=True)
    assert len(site.files("logs/")) == flushing.FEW_FILES
    assert heavy == light + 1
    queue = await site.open()
    assert [await read(queue, f"t{number}") for number in range(flushing.FEW_FILES)] == [
        [b"%d" % number] for number in range(flushing.FEW_FILES)
    ]


async def test_what_is_gone_by_then_is_not_written() -> None:
    site = Site()
    queue = await site.open()
    for topic in ("purged", "deleted", "kept"):
        await queue.publish(topic, topic.encode() * 100)
    await queue.purge("purged")
    await queue.delete_topic("deleted")
    await site.checkpoint(flush=True)
    written = b"".join(bytes(site.disk.names[path].now) for path in site.files("logs/"))
    assert len(site.files("logs/")) == 1
    assert b"purged" not in written
    assert await read(queue, "kept") == [b"kept" * 100]


async def test_memory_is_bounded_and_what_is_not_in_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "RECENT_BYTES", 20_000)
    monkeypatch.setattr(recent, "FRAMES_BYTES", 5_000)
    site = Site()
    queue = await site.open()
    wanted = [b"%03d" % number * 300 for number in range(200)]
    for at in range(0, 200, 10):
        await queue.publish_many("one" if at % 20 else "two", wanted[at : at + 10], wait=1)
        for value in wanted[at : at + 10]:
            await queue.publish("three", value)
    logs = site.store._catalog.logs.values()
    held = [stretch for log in logs for stretch in log.recent]
    assert 0 < sum(len(value) for stretch in held for value in stretch.values) <= 20_000
    assert sorted(await read(queue, "one") + await read(queue, "two")) == wanted
    assert sorted(await read(queue, "three")) == wanted
    assert site.store._catalog._shared.frames._bytes <= 5_000 + 70_000  # the frame that was read last is always there


@pytest.mark.parametrize("headers", [0, 1, 2, 8])
def test_what_messages_take_in_memory_is_known_about(headers: int) -> None:
    """Also where half of them have none."""
    count = 4_000
    given = [
        {f"name {at}": f"{number}.{at}" for at in range(headers)} if number % 2 else None for number in range(count)
    ]
    batch = Batch([b"%d" % number * 20 for number in range(count)], headers=given if headers else None)
    size = content_bytes(batch.values, None, batch.headers)
    data = encode_records([Published(0, TopicId(1), 0, 0, count, size, batch)])
    tracemalloc.start()
    try:
        [record] = decode_records(data)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(record, Published)
    assert 0.7 < recent.memory_of(count, size, record.batch.headers) / taken < 1.5
    log = DiskLog(SimulatedDisk(Random(1)), TopicId(1), 0)
    log.append(record, 1, 0)
    assert log._shared.recent._bytes >= 0.7 * taken
    log._shared.frames.put(
        log, Columns(range(count), record.batch.values, [0] * count, headers=record.batch.headers), size
    )
    assert log._shared.frames._bytes >= 0.7 * taken


# -- what cannot be flushed

DAMAGED = b"the damaged one"


async def good_and_bad(*before: bytes) -> tuple[Site, Queue]:
    """Two topics, in the write-ahead log alone: one has a message that can be damaged."""
    site = Site()
    queue = await site.open()
    for topic in ("good", "bad"):
        await queue.create_topic(topic, partitions=1)
    for value in (*before, DAMAGED):
        await queue.publish("bad", value)
    await queue.publish("good", b"good")
    await site.checkpoint()
    return site, queue


async def test_a_log_that_is_damaged_in_the_write_ahead_log_stays_there_and_the_others_go_on() -> None:
    site, queue = await good_and_bad(b"before")
    path = site.damage(DAMAGED)
    queue = await site.open()  # whether it is opened anew or not
    assert any(path in problem and "quarantined" in problem for problem in site.store.problems)
    for _ in range(2):
        await queue.publish("good", b"more")
        await site.checkpoint(flush=True)
        assert path in site.files("wal/")
    queue = await site.open()
    assert await read(queue, "good") == [b"good", b"more", b"more"]
    assert any("quarantined" in problem for problem in site.store.problems)


async def test_damage_that_a_flush_is_the_first_to_find() -> None:
    site, queue = await good_and_bad(b"before")
    path = site.damage(DAMAGED)
    for number in range(3):
        await queue.publish("bad", b"after %d" % number)
        await queue.publish("good", b"more")
        await site.checkpoint(flush=True)
        assert path in site.files("wal/")
    assert [problem for problem in site.store.problems if "stays in the write-ahead log" in problem]
    assert await read(queue, "good") == [b"good", b"more", b"more", b"more"]
    log = next(log for log in site.store._catalog.logs.values() if log.is_stuck)
    log.recent.clear()
    assert log.read([0, 2, 3, 4], KeyRing({})).values == [b"before", b"after 0", b"after 1", b"after 2"]
    with pytest.raises(CorruptionError, match=path):
        log.read([1], KeyRing({}))


@pytest.mark.parametrize("where", ["the same file", "a later file"])
async def test_a_damaged_commit_that_holds_a_copy_of_an_earlier_one_is_not_made_up_for_by_it(where: str) -> None:
    """Somebody queues a backup of the queue, in the queue."""
    site = Site()
    queue = await site.open()
    await queue.create_topic("t", partitions=1)
    for value in (b"first", b"second"):
        await queue.publish("t", value)
        await queue.ack(await queue.lease("t", group="g"))
    if where == "a later file":
        await site.checkpoint()
    frames = [
        bytes(content.now)[frame.position : frame.position + frame.fixed.size]
        for path, content in site.disk.names.items()
        for frame in (scan_frames(bytes(content.now)) if path.startswith("wal/") else ())
        if isinstance(frame, Frame)
    ]
    copies = b"".join(frame for frame in frames if b"first" in frame or b"Acked" in frame)
    await queue.publish("t", b"copy: " + copies)
    await queue.ack(await queue.lease("t", group="g"))
    await queue.publish("t", b"last")
    await site.checkpoint()
    path, hurt = next(
        (path, frame.position)
        for path, content in site.disk.names.items()
        for frame in (scan_frames(bytes(content.now)) if path.startswith("wal/") else ())
        if isinstance(frame, Frame) and b"copy: " in (frame.body or b"")
    )
    site.disk.names[path].now[hurt + 50] ^= 0xFF  # its head: what is in it is searched for the next frame
    await site.checkpoint(flush=True)
    assert [problem for problem in site.store.problems if "stays in the write-ahead log" in problem]
    assert path in site.files("wal/")
    log = site.store._catalog.logs[TopicId(1), 0]
    log.recent.clear()
    assert log.read([0, 1, 3], KeyRing({})).values == [b"first", b"second", b"last"]
    with pytest.raises(CorruptionError, match=path):
        log.read([2], KeyRing({}))
    history = await site.store.read_history(TopicId(1), 0, 0, 100)
    assert [list(record.offsets) for record in history.records] == [[0], [0], [1], [1], [2], [2]]
    await queue.publish("other", b"x")
    await site.checkpoint()
    site.disk.names[path].durable = bytes(site.disk.names[path].now)
    queue = await site.open()
    assert await read(queue, "other") == [b"x"]
    assert any(
        "is quarantined" in problem and problem.startswith("partition 0 of topic") for problem in site.store.problems
    )


async def test_history_that_cannot_be_decrypted_now_is_not_lost_by_a_flush() -> None:
    disk, ring = SimulatedDisk(Random(1)), {"k": bytes(32)}
    told: list[int] = []
    for keys, flush in ((ring, False), ({}, True), ({}, True), (ring, True), (ring, False)):
        store = DiskStore(
            disk,
            KeyRing(keys),
            checkpoint_bytes=NEVER,
            flush_bytes=0 if flush else NEVER,
            reserve_bytes=0,
            in_threads=False,
        )
        broker = Broker(store, ManualClock())
        queue = await Queue(broker, consumer="tester").open()
        if not told:
            await queue.create_topic("secret", partitions=1, encrypted=True)
            await queue.publish_many("secret", [b"a", b"b"])
            await queue.ack(await queue.lease("secret"))
        await queue.publish("plain", b"x")
        await broker.flush()
        await store.checkpoint(broker.engine.snapshot(), broker.now())
        if keys:
            told.append(len((await store.read_history(TopicId(1), 0, 0, 100)).records))
        await kill(broker)
    assert told == [2, 2, 2]


A, B, OTHER = b"a" * 32, b"b" * 32, b"c" * 32


async def sealed_with_an_old_key(site: Site) -> dict[str, bytes]:
    """In the write-ahead log alone; returns keys of which the newest is not what it was."""
    queue = await site.open({"a": A, "b": B})
    await queue.create_topic("before", encrypted=True)
    await queue.publish("before", b"with b, so that b is known")
    await queue.delete_topic("before")
    queue = await site.open({"a": A})
    await queue.create_topic("secret", partitions=1, encrypted=True)
    await queue.publish_many("secret", [b"one", b"two"])
    await queue.ack(await queue.lease("secret", group="g"))
    await site.checkpoint()
    return {"a": A, "b": OTHER}


async def encrypted_later(site: Site) -> dict[str, bytes]:
    """What was plain at first; returns no keys."""
    queue = await site.open({"a": A})
    await queue.create_topic("secret", partitions=1)
    await queue.publish_many("secret", [b"one", b"two"])
    await queue.ack(await queue.lease("secret", group="g"))
    await queue.update_topic("secret", encrypted=True)
    await site.checkpoint()
    return {}


@pytest.mark.parametrize("prepare", [sealed_with_an_old_key, encrypted_later])
async def test_a_topic_that_cannot_be_encrypted_stays_and_the_others_are_flushed(
    prepare: Callable[[Site], Awaitable[dict[str, bytes]]],
) -> None:
    site = Site()
    queue = await site.open(await prepare(site))
    await queue.create_topic("plain", partitions=1)
    for number in range(2):
        await queue.publish("plain", b"%d" % number)
        await queue.ack(await queue.lease("plain", group="g"))
        await site.checkpoint(flush=True)
        assert not [problem for problem in site.store.problems if "checkpoint failed" in problem]
    [plain] = {log.topic for log in site.store._catalog.logs.values() if log.segments}
    assert site.files("logs/") == [f"logs/{plain}/0/{0:020d}.log"]
    assert site.files("history/") == [f"history/{plain}/0/{1:010d}.hist"]
    assert [problem for problem in site.store.problems if "stays in the write-ahead log" in problem]
    for flush in (False, True):
        queue = await site.open({"a": A, "c": bytes(32)})
        assert await read(queue, "secret") == [b"one", b"two"]
        assert await read(queue, "plain") == [b"0", b"1"]
        [secret] = {log.topic for log in site.store._catalog.logs.values()} - {plain}
        assert len((await site.store.read_history(secret, 0, 0, 100)).records) == 2
        await site.checkpoint(flush)
    assert len(site.files("logs/")) == len(site.files("history/")) == 2
    assert len(site.files("wal/")) == 1


async def test_a_key_that_goes_during_a_flush_costs_nothing() -> None:
    """One frame is encrypted already, of the messages and of what happened to them."""
    site = Site()
    queue = await site.open({"a": A})
    await queue.create_topic("secret", partitions=1, encrypted=True)
    for number in range(4):
        await queue.publish("secret", b"%d" % number)
        await queue.ack(await queue.lease("secret", group="g"))
    await queue.publish("plain", b"x")
    whole, left = KeyRing.seal, [3]

    def seal(self: KeyRing, plain: bytes, context: bytes) -> tuple[Sealed, bytes]:
        left[0] -= 1
        if left[0] < 0:
            raise ConfigError("the key is gone")
        return whole(self, plain, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeyRing, "seal", seal)
        patch.setattr("ortoo.stores.disk.new_frames.FRAME_MESSAGES", 2)
        patch.setattr("ortoo.stores.disk.history.FRAME_RECORDS", 2)
        await site.checkpoint(flush=True)
    assert not [problem for problem in site.store.problems if "checkpoint failed" in problem]
    queue = await site.open({"a": A})
    assert await read(queue, "secret") == [b"0", b"1", b"2", b"3"]
    history = await site.store.read_history(TopicId(1), 0, 0, 100)
    assert (len(history.records), history.end) == (8, 8)
    await site.checkpoint(flush=True)
    assert len(site.files("wal/")) == 1


class FailingDisk(RealDisk):
    """Of which one log cannot be opened, and after that none at all."""

    is_failing = False

    def open(self, path: str) -> File:
        if self.is_failing and "logs/1/39/" in path:
            self.root_is_lost = True
        if self.is_failing and getattr(self, "root_is_lost", False):
            raise OSError(errno.EMFILE, "too many open files")
        return super().open(path)


async def test_a_large_flush_that_fails_and_cannot_even_be_undone_leaves_nothing_behind(tmp_path: Path) -> None:
    """No message is written twice by the next one, and no file stays open."""
    disk = FailingDisk(tmp_path)
    store = DiskStore(disk, checkpoint_bytes=NEVER, flush_bytes=0, reserve_bytes=0, in_threads=False, files_max=16)
    broker = Broker(store, ManualClock())
    queue = await Queue(broker).open()
    await queue.create_topic("t", partitions=40)

    async def round_of(value: bytes) -> None:
        await queue.publish_many("t", [Message(value, partition=number) for number in range(40)])
        await broker.flush()
        await store.checkpoint(broker.engine.snapshot(), broker.now())

    await round_of(b"one")
    disk.is_failing = True
    await round_of(b"two")
    assert any("too many open files" in problem for problem in store.problems)
    roots = [path for path in Path("/proc/self/fd").iterdir() if path.exists() and path.samefile(tmp_path)]
    assert roots == []
    disk.is_failing = False
    store._paused_until = 0.0
    await round_of(b"three")
    assert store.problems == []
    for number in range(40):
        assert (await store.scan(TopicId(1), number, 0, 100)).values == [b"one", b"two", b"three"]
        log = store._catalog.log(TopicId(1), number)
        log.recent.clear()
        assert log.scan(0, 100, KeyRing({})).values == [b"one", b"two", b"three"]
    await queue.close()


async def test_directories_that_are_opened_often_do_not_gather_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "FLUSH_FILES", 8)
    monkeypatch.setattr("ortoo.stores.disk.store.FLUSH_FILES", 8)
    site = Site()
    for _ in range(30):
        queue = await site.open()
        await queue.publish("t", b"x")
        assert site.broker is not None
        await site.broker.flush()
    assert len(site.files("wal/")) <= 10
    assert len(await read(queue, "t")) == 30


async def test_messages_that_are_gone_do_not_gather_in_memory() -> None:
    catalog = Catalog(SimulatedDisk(Random(1)))
    for number in range(60_000):
        catalog.absorb(TopicCreated(0, TopicId(number), "n", "t", TopicConfig()), number)
        catalog.absorb(Published(0, TopicId(number), 0, 0, 1, 10, Batch([b"0123456789"])), number)
        catalog.absorb(TopicDeleted(0, TopicId(number)), number)
    assert len(catalog._shared.recent._order) <= recent.RECENT_BYTES // 2_000


@pytest.mark.parametrize("partitions", [1, 7, 200])
async def test_a_publish_is_read_by_itself_out_of_a_large_commit(partitions: int) -> None:
    site = Site()
    queue = await site.open()
    await queue.create_topic("t", partitions=partitions, ordering="none")
    sent = []
    for commit in range(3):
        values = [b"%d.%d " % (commit, number) + bytes(700) for number in range(400)]
        await queue.publish_many("t", [Message(value, partition=at % partitions) for at, value in enumerate(values)])
        sent += values
    reader = CommitReader(site.store._wal, KeyRing({}), bytes_max=1)  # keeps one commit at a time
    log = site.store._catalog.logs
    for _ in range(2):
        found = []
        for place in log.values():
            place.recent.clear()
            place._shared._commits = reader
            place._shared.frames.drop(place)
            found += place.scan(0, 10_000, KeyRing({})).values
        assert sorted(found) == sorted(sent)
    assert reader._slices_count == 3 * partitions
    for content in site.disk.names.values():  # what lies there changes after it was checked
        content.now = bytearray(bytes(content.now).replace(b"0.0 ", b"0.X "))
    reader._cached.clear()
    log[TopicId(1), 0]._shared.frames.drop(log[TopicId(1), 0])
    with pytest.raises(CorruptionError, match="is damaged at byte"):
        log[TopicId(1), 0].scan(0, 10_000, KeyRing({}))


@pytest.mark.parametrize("how", ["the head", "the end of its file"])
@pytest.mark.parametrize("is_last", [False, True])
async def test_damage_to_an_old_commit_costs_its_partition_and_no_other(how: str, is_last: bool) -> None:
    site, queue = await good_and_bad()
    if is_last:  # of its file
        await queue.publish("bad", DAMAGED + b", too")
        await site.checkpoint()
    path = [path for path in site.files("wal/") if DAMAGED in site.disk.names[path].now][-1]
    content = site.disk.names[path]
    frames = [item for item in scan_frames(bytes(content.now)) if isinstance(item, Frame)]
    hurt = next(frame for frame in frames if DAMAGED in (frame.body or b""))
    if how == "the head" or not is_last:
        content.now[hurt.position + 50] ^= 0xFF
    else:
        del content.now[hurt.position + 60 :]
    content.durable = bytes(content.now)
    queue = await site.open()
    assert await read(queue, "good") == [b"good"]
    assert any("partition 0 of topic 'bad' is quarantined" in problem for problem in site.store.problems)
    await queue.publish("good", b"more")
    await site.checkpoint(flush=True)
    assert path in site.files("wal/")
    queue = await site.open()
    assert await read(queue, "good") == [b"good", b"more"]


async def test_a_missing_file_of_the_write_ahead_log_is_not_taken_for_damage() -> None:
    """Somebody may bring it back, with the history that is only there."""
    site, queue = await good_and_bad()
    await queue.publish("bad", b"in a file of its own")
    await site.checkpoint()
    await queue.publish("good", b"more")
    await site.checkpoint()
    files = site.files("wal/")
    del site.disk.names[files[1]]
    with pytest.raises(CorruptionError, match="are missing"):
        await site.open()


# -- what is freed


async def test_what_is_purged_frees_the_write_ahead_log_with_the_next_checkpoint() -> None:
    site = Site()
    queue = await site.open()
    await queue.publish_many("t", [bytes(1000)] * 100)
    await site.checkpoint()
    await queue.purge("t")
    await site.checkpoint()
    assert sum(len(site.disk.names[path].now) for path in site.files("wal/")) < 1000
    queue = await site.open()
    assert site.store.problems == []
    await queue.publish("t", b"new")
    assert await read(queue, "t") == [b"new"]


async def test_a_damaged_log_holds_only_files_that_it_lies_in_and_none_once_it_is_purged() -> None:
    site, queue = await good_and_bad()
    path = site.damage(DAMAGED)
    for number in range(6):
        await queue.publish("good", b"%d" % number)
        if number == 3:
            await queue.publish("bad", b"more")
        await site.checkpoint(flush=True)
    assert len(site.files("wal/")) == 3  # with the two of that log, and the one that is written
    assert path in site.files("wal/")
    await queue.purge("bad")
    for _ in range(2):
        await queue.publish("good", b"again")
        await queue.publish("bad", b"fresh")
        await site.checkpoint(flush=True)
    assert len(site.files("wal/")) == 1
    assert await read(queue, "bad") == [b"fresh", b"fresh"]


async def test_what_a_transaction_has_staged_is_no_reason_for_a_checkpoint_where_room_is_short() -> None:
    site = Site()
    queue = await site.open()
    site.store._reserve_bytes = site.store._room._reserve_bytes = 1_000_000
    site.store._checkpoint_bytes = 3_200_000
    site.disk.capacity = sum(len(content.now) for content in site.disk.names.values()) + 5_000_000
    tx = await queue.begin("job")
    await tx.publish_many("out", [bytes(100_000)] * 9)
    assert site.broker is not None
    await site.broker.flush()
    site.store.status()
    assert site.store._room.is_short
    before = site.store._checkpoint_seconds.count
    for _ in range(20):
        await tx.publish("out", b"x")
        await site.broker.flush()
        await settle()
    assert site.store._checkpoint_seconds.count - before <= 1


async def test_a_large_flush_does_not_sync_all_at_once_what_lies_elsewhere(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    disk = RealDisk(tmp_path)
    with disk.syncing_all() as sync:
        assert sync is not None
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "7").symlink_to(elsewhere, target_is_directory=True)
    with disk.syncing_all() as sync:
        assert sync is None


@pytest.mark.parametrize("what", ["purge", "stage", "create_group", "delete_group", "seek"])
async def test_what_is_said_of_an_encrypted_topic_without_its_key_is_refused_and_hurts_nobody(what: str) -> None:
    disk = SimulatedDisk(Random(1))
    broker = Broker(DiskStore(disk, KeyRing({"k": bytes(32)}), reserve_bytes=0, in_threads=False), ManualClock())
    async with Queue(broker) as queue:
        await queue.create_topic("secret", partitions=1, encrypted=True)
        await queue.create_group("secret", "g")
    broker = Broker(DiskStore(disk, KeyRing({}), reserve_bytes=0, in_threads=False), ManualClock())
    async with Queue(broker) as queue:
        tx = await queue.begin("job")
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "purge": lambda: queue.purge("secret"),
            "stage": lambda: tx.publish("secret", b"x"),
            "create_group": lambda: queue.create_group("secret", "h"),
            "delete_group": lambda: queue.delete_group("secret", "g"),
            "seek": lambda: queue.seek("secret", "g", offset=0),
        }
        with pytest.raises(UnavailableError, match=r"topic 'secret' is quarantined: .*key"):
            await calls[what]()
        await queue.publish("plain", b"goes on")
    assert broker.meters.recoveries == 0
