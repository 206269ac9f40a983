"""Does a replay bring what was published, in order, once, whatever archive and retention do meanwhile?"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import ortoo
from ortoo.app.clock import SystemClock
from ortoo.model import limits
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.pipeline.lake.compaction import compact
from ortoo.pipeline.lake.layout import MESSAGES, Lake
from ortoo.pipeline.lake.replay import Replay, replay
from ortoo.stores.disk import open_directory
from tests.stamping import StampingBroker

from .batches import all_sorts, archive_topic


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ortoo.SyncQueue]:
    monkeypatch.setattr(limits, "RETENTION_INTERVAL_MS", 20)
    with ortoo.open_sync(tmp_path / "data") as opened:
        yield opened


def publish(queue: ortoo.SyncQueue, count: int, topic: str = "orders", begin: int = 0) -> None:
    queue.publish_many(
        topic, [ortoo.Message(str(number).encode(), key=str(number % 7)) for number in range(begin, begin + count)]
    )


def by_partition(messages: list[ortoo.Received]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for message in messages:
        found.setdefault(message.id.rpartition(".")[0], []).append(message.offset)
    return found


def all_of(queue: ortoo.SyncQueue, lake: Lake, topic: str = "orders", **options: object) -> list[ortoo.Received]:
    return list(replay(queue, topic, lake.root, **options))  # type: ignore[arg-type]


def same(one: list[ortoo.Received], other: list[ortoo.Received]) -> bool:
    def fields(message: ortoo.Received) -> object:
        return (
            message.id,
            message.value,
            message.key,
            message.headers_or_none,
            message.priority,
            message.timestamp_ms,
            message.is_json,
            message.attempt,
            message.topic,
            message.namespace,
            message.publisher,
        )

    return sorted(map(str, map(fields, one))) == sorted(map(str, map(fields, other)))


def test_everything_about_a_message_is_the_same(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=3)
    queue.publish_many("orders", all_sorts())
    published = list(queue.read("orders"))
    archive_topic(lake, queue, "orders")
    assert same(all_of(queue, lake), published)
    queue.purge("orders")
    assert list(queue.read("orders")) == []
    assert same(all_of(queue, lake), published)


def test_whoever_published_it_is_told_and_files_from_before_that_was_archived_tell_nobody(
    lake: Lake, tmp_path: Path
) -> None:
    path = tmp_path / "named"
    publish_as(path, "billing", None)
    with ortoo.open_sync(path) as queue:
        archive_topic(lake, queue, "orders")
    assert [message.publisher for message in replayed(path, lake)] == ["billing", None]
    for file in lake.files(MESSAGES):
        pq.write_table(pq.ParquetFile(file).read().drop_columns("publisher"), file)  # as it was once
    publish_as(path, "shop", None)
    with ortoo.open_sync(path) as queue:
        archive_topic(lake, queue, "orders")
        compact(lake, grace=0)
        queue.purge("orders")
    assert len(lake.files(MESSAGES)) == 2  # they differ in their columns
    assert [message.publisher for message in replayed(path, lake)] == [None, None, "shop", None]


def publish_as(path: Path, *publishers: str | None) -> None:
    async def work() -> None:
        broker = StampingBroker(open_directory(path), SystemClock())
        async with ortoo.Queue(broker) as queue:
            await queue.ensure_topic("orders", partitions=1)
            for broker.publisher in publishers:
                await queue.publish("orders", b"x")

    asyncio.run(work())


def replayed(path: Path, lake: Lake) -> list[ortoo.Received]:
    with ortoo.open_sync(path) as queue:
        return sorted(all_of(queue, lake), key=lambda message: message.offset)


def test_removed_purged_and_deleted_messages_come_back(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=2)
    publish(queue, 50)
    published = list(queue.read("orders"))
    archive_topic(lake, queue, "orders")
    for message in published[10:20]:
        queue.delete_message(message.id)
    assert same(all_of(queue, lake), published)
    queue.purge("orders")
    publish(queue, 30, begin=50)
    assert same(all_of(queue, lake), published + list(queue.read("orders")))


def test_a_deleted_topic_comes_back_and_so_do_its_incarnations(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=3)
    publish(queue, 20)
    first = list(queue.read("orders"))
    archive_topic(lake, queue, "orders")
    queue.delete_topic("orders")
    assert same(all_of(queue, lake), first)
    queue.create_topic("orders", partitions=1)
    publish(queue, 10)
    archive_topic(lake, queue, "orders")
    publish(queue, 5, begin=10)
    found = all_of(queue, lake)
    assert same(found, first + list(queue.read("orders")))
    assert [message.id.partition(".")[0] for message in found] == sorted(
        message.id.partition(".")[0] for message in found
    )
    assert by_partition(all_of(queue, lake, partition=2)) == {
        f"{first[0].delivery.topic_id}.2": list(range(len([m for m in first if m.partition == 2])))
    }


def test_partitions_and_topics_that_came_later(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=1, ordering="none")
    publish(queue, 20)
    archive_topic(lake, queue, "orders")
    queue.update_topic("orders", partitions=3)
    publish(queue, 40)
    queue.create_topic("later")
    publish(queue, 5, "later")
    assert same(all_of(queue, lake), list(queue.read("orders")))
    assert same(all_of(queue, lake, "later"), list(queue.read("later")))


def test_oldest_first_over_partitions(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=4)
    for number in range(5):
        publish(queue, 40, begin=number)
        archive_topic(lake, queue, "orders")
    publish(queue, 40)
    found = all_of(queue, lake)
    assert len(found) == 240
    assert [message.timestamp_ms for message in found] == sorted(message.timestamp_ms for message in found)


def test_times_and_partitions(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=2)
    publish(queue, 20)
    archive_topic(lake, queue, "orders")
    time.sleep(0.01)
    since = time.time()
    time.sleep(0.01)
    publish(queue, 10, begin=20)
    archive_topic(lake, queue, "orders")
    time.sleep(0.01)
    until = time.time()
    time.sleep(0.01)
    publish(queue, 10, begin=30)
    values = sorted(int(message.value) for message in all_of(queue, lake, from_time=since))
    assert values == list(range(20, 40))
    assert sorted(int(message.value) for message in all_of(queue, lake, from_time=since, to_time=until)) == values[:10]
    queue.purge("orders")
    assert sorted(int(message.value) for message in all_of(queue, lake, from_time=since, to_time=until)) == values[:10]
    assert {message.partition for message in all_of(queue, lake, partition=1)} == {1}
    with pytest.raises(InvalidError, match="has partitions 0 to 1, not 5"):
        all_of(queue, lake, partition=5)


def test_what_is_nowhere_is_told(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=1)
    publish(queue, 10)
    archive_topic(lake, queue, "orders")
    publish(queue, 10)
    queue.purge("orders")
    told: list[str] = []
    assert len(all_of(queue, lake, tell=told.append)) == 10
    assert told == ["messages 10 to 19 of partition 0 are neither archived nor in the log"]
    publish(queue, 5)
    told.clear()
    assert len(all_of(queue, lake, tell=told.append)) == 15
    assert len(told) == 1


def test_what_is_missing_before_the_time_asked_for_is_not_told(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=1)
    archive_topic(lake, queue, "orders")
    publish(queue, 10)
    queue.purge("orders")
    publish(queue, 1)
    time.sleep(0.01)
    since = time.time()
    time.sleep(0.01)  # timestamps have milliseconds
    publish(queue, 3)
    told: list[str] = []
    assert len(all_of(queue, lake, from_time=since, tell=told.append)) == 3
    assert told == []


def test_single_deletions_are_no_gap(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=1)
    publish(queue, 10)
    archive_topic(lake, queue, "orders")
    publish(queue, 10)
    for message in list(queue.read("orders"))[10:13]:
        queue.delete_message(message.id)
    told: list[str] = []
    assert len(all_of(queue, lake, tell=told.append)) == 17
    assert told == []


def test_without_an_archive(queue: ortoo.SyncQueue, lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is not a lake"):
        replay(queue, "orders", tmp_path / "none")
    lake.own.mkdir(parents=True)
    with pytest.raises(NotFoundError, match="nothing was archived in"):
        replay(queue, "orders", lake.root)
    queue.create_topic("orders")
    archive_topic(lake, queue, "orders")
    with pytest.raises(NotFoundError):
        all_of(queue, lake, "unknown")


def test_what_a_batch_on_its_way_has_moved_does_not_count_yet(queue: ortoo.SyncQueue, lake: Lake) -> None:
    queue.create_topic("orders", partitions=1)
    publish(queue, 10)
    archive_topic(lake, queue, "orders")
    manifest = (lake.own / "manifest.json").read_bytes()
    publish(queue, 10)
    archive_topic(lake, queue, "orders")
    (lake.own / "manifest.json").write_bytes(manifest)
    assert by_partition(all_of(queue, lake)) == {f"{queue.topic('orders').id}.0": list(range(20))}


def test_a_file_that_is_merged_before_it_is_opened(
    queue: ortoo.SyncQueue, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.create_topic("orders", partitions=1)
    for _ in range(2):
        publish(queue, 10)
        archive_topic(lake, queue, "orders")
    real = Lake.files

    def stale(self: Lake, *names: str) -> list[Path]:
        monkeypatch.setattr(Lake, "files", real)
        found = real(self, *names)
        assert compact(self, grace=0).folders == 1
        return found

    monkeypatch.setattr(Lake, "files", stale)
    assert [message.offset for message in all_of(queue, lake)] == list(range(20))


def test_following_goes_on_where_it_stood(queue: ortoo.SyncQueue, lake: Lake) -> None:
    """An earlier incarnation got further than the topic has today."""
    queue.create_topic("orders", partitions=1)
    publish(queue, 30)
    archive_topic(lake, queue, "orders")
    queue.delete_topic("orders")
    queue.create_topic("orders", partitions=1)
    publish(queue, 5)
    job = Replay(queue, lake, "orders")
    assert sum(map(len, job.batches())) == 35
    publish(queue, 4)
    archive_topic(lake, queue, "orders")
    queue.purge("orders")
    publish(queue, 2)
    assert [message.offset for batch in job.more() for message in batch] == [5, 6, 7, 8, 9, 10]
    assert list(job.more()) == []


def test_nothing_is_missed_or_repeated_while_everything_moves(queue: ortoo.SyncQueue, lake: Lake) -> None:
    """Published, archived, merged and trimmed, all at the same time as it is replayed."""
    queue.create_topic("orders", partitions=3, retention_seconds=0.001, retention_waits_for_archive=True)
    archive_topic(lake, queue, "orders")
    stop = threading.Event()
    failed: list[BaseException] = []

    def work(step: object) -> None:
        try:
            while not stop.is_set():
                step()  # type: ignore[operator]
        except BaseException as error:
            failed.append(error)
            raise

    def produce() -> None:
        publish(queue, 50)
        time.sleep(0.005)

    def maintain() -> None:
        archive_topic(lake, queue, "orders")
        compact(lake, grace=0)

    threads = [threading.Thread(target=work, args=(step,)) for step in (produce, maintain)]
    for thread in threads:
        thread.start()
    told: list[str] = []
    rounds = 0
    try:
        end = time.monotonic() + 4
        while time.monotonic() < end or rounds < 3:
            job = Replay(queue, lake, "orders", tell=told.append)
            found = [message for batch in job.batches() for message in batch]
            found += [message for _ in range(3) for batch in job.more() for message in batch]
            for offsets in by_partition(found).values():
                assert offsets == list(range(len(offsets)))
            rounds += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed
    assert told == []
    assert min(queue.offsets("orders", at="start")) > 0  # or nothing was proved
