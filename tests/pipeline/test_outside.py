"""Reading the files of a data directory while its owner may be at work on them."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import ortoo
from ortoo import SyncQueue
from ortoo.model.errors import ConfigError, CorruptionError, InvalidError, NotFoundError, UnavailableError
from ortoo.stores.disk import log as disk_log
from ortoo.stores.disk import merging, new_frames

pytest.importorskip("pyspark")

from ortoo.pipeline.source.files import Files
from ortoo.pipeline.source.origin import DataLostError, Range
from tests.format.halfway import VALUES, half_committed

from .directories import checkpoint, read


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def queue(data: Path) -> Iterator[SyncQueue]:
    with ortoo.open_sync(data) as opened:
        yield opened


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_log, "SEGMENT_BYTES", 500)
    monkeypatch.setattr(new_frames, "FRAME_MESSAGES", 7)


def fill(queue: SyncQueue, topic: str, rounds: int = 6, start: int = 0, flush: bool = True) -> None:
    """Messages whose value is their offset, in several segments."""
    for number in range(rounds):
        for at in range(start + 20 * number, start + 20 * number + 20):
            queue.publish(topic, str(at).encode())
        checkpoint(queue, flush)


def offsets(**options: str) -> list[int]:
    return [row["offset"] for row in read(**options)]


def test_what_is_checkpointed_is_read_and_how_much_is_not_is_told(
    data: Path, queue: SyncQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.publish_many("orders", [b"1", b"2"])
    checkpoint(queue)
    queue.publish_many("orders", [b"3", b"4", b"5"])
    queue.lease("orders", max_messages=2)
    queue.publish("later", b"x")
    assert [row["value"] for row in read(path=str(data), subscribe="orders")] == [b"1", b"2"]
    assert "the files of topic 'orders' end 3 messages before the queue does" in caplog.text
    assert read(path=str(data), subscribe="orders", table="history") == []
    assert "end 1 records of its history before" in caplog.text
    with pytest.raises(NotFoundError, match="as of the last checkpoint"):
        read(path=str(data), subscribe="later")
    caplog.clear()
    checkpoint(queue)
    assert len(read(path=f"file://{data}", subscribe="orders")) == 5
    assert len(read(path=f"file:{data}", subscribe="orders", table="history")) == 2
    assert not caplog.text


def test_only_some_of_it_asked_for_is_no_lag(data: Path, queue: SyncQueue, caplog: pytest.LogCaptureFixture) -> None:
    queue.publish_many("orders", [b"1", b"2"])
    checkpoint(queue)
    assert offsets(path=str(data), subscribe="orders", endingOffsets='{"orders": {"0": 1}}') == [0]
    assert not caplog.text


def test_the_lag_grows_and_goes(data: Path, queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=2)
    checkpoint(queue)
    files = Files(str(data), "default", "messages", None)
    for count in range(1, 4):
        queue.publish("orders", b"x", key="same")
        assert (sum(files.end("orders")), sum(files.whole_end("orders"))) == (0, count)
    checkpoint(queue)
    assert files.end("orders") == files.whole_end("orders")
    queue.publish("orders", b"x", key="same")
    assert sum(files.whole_end("orders")) - sum(files.end("orders")) == 1


def test_the_lag_of_a_history_is_counted_once(data: Path, queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=1)
    queue.publish_many("orders", [b"x"] * 4)
    queue.lease("orders")
    checkpoint(queue)
    files = Files(str(data), "default", "history", None)
    for count in range(1, 4):
        queue.lease("orders")
        next(queue.read_history("orders", partition=0))  # which waits until it is written
        assert (files.end("orders"), files.whole_end("orders"), files.whole_end("orders")) == (
            [1],
            [1 + count],
            [1 + count],
        )
    checkpoint(queue)
    assert files.end("orders") == files.whole_end("orders") == [4]


def read_any_range(data: Path) -> None:
    """Of 120 messages whose value is their offset."""
    files, random = Files(str(data), "default", "messages", None), Random(5)
    topic = files.topic("orders").id
    for _ in range(200):
        start, end = sorted(random.choices(range(125), k=2))
        found = [value for part in files.messages(Range("orders", topic, 0, start, end)) for value in part.values]
        assert found == [str(at).encode() for at in range(start, min(end, 120))]


@pytest.mark.usefixtures("small_segments")
def test_any_range_of_sealed_and_growing_segments(data: Path, queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=1)
    fill(queue, "orders")
    endings = {path.suffix for path in data.glob("logs/*/0/*")}
    assert endings == {".seg", ".log"}
    read_any_range(data)


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("flushed", [0, 1, 3])
def test_any_range_of_what_lies_in_segments_and_in_the_write_ahead_log(
    data: Path, queue: SyncQueue, flushed: int
) -> None:
    queue.create_topic("orders", partitions=1)
    for number in range(120):
        queue.publish("orders", str(number).encode())
        if number % 20 == 19:
            checkpoint(queue, flush=number // 20 < flushed)
    read_any_range(data)


def test_what_is_flushed_under_the_reader_s_hands_is_read_all_the_same(data: Path, queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=1)
    for number in range(3):
        queue.publish_many("orders", [str(number * 300 + at).encode() for at in range(300)])
        queue.ack(queue.lease("orders", max_messages=300))
    checkpoint(queue, flush=False)
    files, wanted = all_of(data, 900)
    history = Files(str(data), "default", "history", None)
    parts = files.messages(wanted)
    found = list(next(parts).values)
    checkpoint(queue)  # nothing is left of it in the write-ahead log
    checkpoint(queue)
    for part in parts:
        found += part.values
    assert found == [str(at).encode() for at in range(900)]
    told = Range("orders", history.topic("orders").id, 0, 0, 6)
    assert sum(len(part.records) for part in history.history(told)) == 6


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("flush", [True, False])
def test_times_mean_the_same_as_to_the_queue(data: Path, queue: SyncQueue, flush: bool) -> None:
    queue.create_topic("orders", partitions=1)
    fill(queue, "orders", rounds=4, flush=flush)
    files = Files(str(data), "default", "messages", None)
    times = {message.timestamp for message in queue.read("orders")}
    for time in {time + step for time in times for step in (-0.001, 0, 0.001)} | {0.0, 9e9}:
        assert files.at("orders", time) == queue.offsets("orders", time=time)


@pytest.mark.usefixtures("small_segments")
def test_what_was_superseded_is_left_out_also_when_its_segments_are_merged(
    data: Path, queue: SyncQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "FEW", 2)
    queue.create_topic("state", partitions=1, keep="latest")
    for number in range(60):
        queue.publish_many("state", [ortoo.Message(str(number).encode(), key=key) for key in ("a", f"k{number % 7}")])
        if number % 15 == 14:
            checkpoint(queue)
            live = {message.offset: message.value for message in queue.read("state")}
            assert len(live) == 8
            rows = read(path=str(data), subscribe="state")
            assert {row["offset"]: row["value"] for row in rows} == live
            some = sorted(live)[3]
            assert [
                row["offset"]
                for row in read(path=str(data), subscribe="state", startingOffsets=f'{{"state":{{"0":{some}}}}}')
            ] == [offset for offset in sorted(live) if offset >= some]
    assert sum(path.stat().st_size for path in data.glob("logs/*/*/*.seg")) < 3_000


def test_deleted_messages_are_left_out(data: Path, queue: SyncQueue) -> None:
    queue.publish_many("orders", [b"1", b"2", b"3"])
    (second,) = [message for message in queue.read("orders") if message.value == b"2"]
    queue.delete_message(second.id)
    checkpoint(queue)
    assert [row["value"] for row in read(path=str(data), subscribe="orders")] == [b"1", b"3"]


def test_namespaces_are_apart(data: Path, queue: SyncQueue) -> None:
    queue.publish("orders", b"ours")
    queue.publish("orders", b"theirs", namespace="team")
    checkpoint(queue)
    assert [row["value"] for row in read(path=str(data), subscribe="orders")] == [b"ours"]
    assert [row["value"] for row in read(path=str(data), subscribe="orders", namespace="team")] == [b"theirs"]


@pytest.mark.usefixtures("small_segments")
def test_what_was_purged_is_missed(data: Path, queue: SyncQueue, caplog: pytest.LogCaptureFixture) -> None:
    queue.create_topic("orders", partitions=1)
    fill(queue, "orders", rounds=2)
    queue.purge("orders")
    fill(queue, "orders", rounds=1, start=40)
    assert offsets(path=str(data), subscribe="orders") == list(range(40, 60))
    begin = {"path": str(data), "subscribe": "orders", "startingOffsets": '{"orders": {"0": 3}}'}
    with pytest.raises(DataLostError, match=r"messages 3 to 39 of partition 0 .* were removed"):
        read(**begin)
    assert offsets(**begin, failOnDataLoss="false") == list(range(40, 60))
    assert "going on without" in caplog.text


def test_a_topic_that_was_made_again_is_another(data: Path, queue: SyncQueue) -> None:
    queue.publish("orders", b"old")
    checkpoint(queue)
    old = Files(str(data), "default", "messages", None).topic("orders").id
    queue.delete_topic("orders")
    queue.publish("orders", b"new")
    checkpoint(queue)
    files = Files(str(data), "default", "messages", None)
    assert list(files.messages(Range("orders", old, 0, 0, 1))) == []
    assert [row["value"] for row in read(path=str(data), subscribe="orders")] == [b"new"]


def test_nothing_is_changed(data: Path, queue: SyncQueue) -> None:
    queue.publish_many("orders", [b"1", b"2"])
    queue.lease("orders")
    checkpoint(queue)
    queue.publish("orders", b"3")

    def seen() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in data.rglob("*")}

    before = seen()
    read(path=str(data), subscribe="orders")
    read(path=str(data), subscribe="orders", table="history")
    assert seen() == before


# -- encryption

KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def secret(data: Path, tmp_path: Path) -> Iterator[str]:
    keys = tmp_path / "keys"
    keys.write_text(f"first:{KEY}")
    with ortoo.open_sync(data, keys=f"file:{keys}") as queue:
        queue.create_topic("secret", encrypted=True)
        queue.publish_many("secret", [b"1", b"2"])
        queue.ack(queue.lease("secret"))
        checkpoint(queue)
        queue.publish("secret", b"3")
        yield f"file:{keys}"


def test_encrypted_topics_are_read_with_their_keys(data: Path, secret: str, caplog: pytest.LogCaptureFixture) -> None:
    found = read(path=str(data), subscribe="secret", encryptionKeys=secret)
    assert [row["value"] for row in found] == [b"1", b"2"]
    assert "end 1 messages before" in caplog.text
    happened = read(path=str(data), subscribe="secret", table="history", encryptionKeys=secret)
    assert [row["event"] for row in happened] == ["delivered", "acknowledged"]


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("table", ["messages", "history"])
def test_encrypted_topics_without_their_keys(data: Path, table: str) -> None:
    with pytest.raises(
        ConfigError, match=r"'secret' is encrypted: encryption key 'first' is missing.*'encryptionKeys'"
    ):
        read(path=str(data), subscribe="secret", table=table)


@pytest.mark.usefixtures("secret")
def test_encrypted_topics_with_another_key(data: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text(f"first:{base64.b64encode(bytes(32)).decode()}")
    with pytest.raises(ConfigError, match="'first' is not the one this directory was written with"):
        read(path=str(data), subscribe="secret", encryptionKeys=f"file:{tmp_path / 'other'}")


# -- directories that cannot be read


def test_a_directory_without_a_checkpoint(data: Path, queue: SyncQueue) -> None:
    queue.publish("orders", b"1")
    with pytest.raises(NotFoundError, match=r"has no checkpoint yet.*write-ahead log.*32 MiB.*'url'"):
        read(path=str(data), subscribe="orders")


@pytest.mark.parametrize("shards", [False, True])
def test_an_embedded_queue_that_was_closed_is_read_to_its_end(tmp_path: Path, shards: bool) -> None:
    paths = [tmp_path / "a", tmp_path / "b"] if shards else [tmp_path / "a"]
    for upto in (1, 2):
        with ortoo.open_sync(paths if shards else paths[0]) as queue:
            queue.publish("orders", b"x")
            queue.publish("orders", b"y", delay=3600)
        found = []
        for path in paths:
            with suppress(NotFoundError):
                found += read(path=str(path), subscribe="orders")
        assert len(found) == 2 * upto


def test_what_is_not_a_data_directory(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFoundError, match="is not a data directory of Ortoo"):
            read(path=str(path), subscribe="orders")


def test_a_directory_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_text("ortoo data directory, format 99\n")
    with pytest.raises(UnavailableError, match="reads formats 1 to 6"):
        read(path=str(tmp_path), subscribe="orders")


def test_a_segment_that_is_missing_is_an_error(data: Path, queue: SyncQueue) -> None:
    queue.publish("orders", b"1")
    checkpoint(queue)
    for segment in data.glob("logs/*/*/*"):
        segment.unlink()
    with pytest.raises(CorruptionError, match="missing"):
        read(path=str(data), subscribe="orders")


@pytest.mark.parametrize("wrong", ['{"orders": {"0": 9}}', '{"orders": {"7": 0}}'])
def test_offsets_that_are_not_there(data: Path, queue: SyncQueue, wrong: str) -> None:
    queue.publish("orders", b"1")
    checkpoint(queue)
    with pytest.raises(InvalidError, match=r"ends at offset 1|has no partition 7"):
        read(path=str(data), subscribe="orders", startingOffsets=wrong)


# -- an owner at work


@pytest.mark.usefixtures("small_segments")
def test_files_may_be_sealed_and_trimmed_while_they_are_read(data: Path, queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=1)
    fill(queue, "orders", rounds=1)
    stop = threading.Event()

    def work() -> None:
        start = 20
        while not stop.is_set():
            fill(queue, "orders", rounds=3, start=start)
            queue.ack(queue.lease("orders", max_messages=40))
            start += 60
            if start % 120 == 20:
                queue.purge("orders")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        files, rounds = Files(str(data), "default", "messages", None), 0
        topic = files.topic("orders").id
        while rounds < 60 or files.end("orders")[0] < 600:
            (first,), (end,) = files.first("orders"), files.end("orders")
            found: list[int] = []
            for part in files.messages(Range("orders", topic, 0, first, end)):
                assert part.values == [str(at).encode() for at in part.offsets]
                found += part.offsets
            assert found == sorted(found)
            (trimmed,) = files.first("orders")
            assert set(range(max(first, trimmed), end)) <= set(found) <= set(range(first, end))
            positions = [row["position"] for row in read(path=str(data), subscribe="orders", table="history")]
            assert positions == sorted(positions)
            rounds += 1
    finally:
        stop.set()
        worker.join()


def all_of(data: Path, end: int) -> tuple[Files, Range]:
    files = Files(str(data), "default", "messages", None)
    return files, Range("orders", files.topic("orders").id, 0, 0, end)


@pytest.mark.usefixtures("small_segments")
def test_what_vanishes_under_the_reader_s_hands_is_left_out(data: Path, queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=1)
    fill(queue, "orders", rounds=5)
    files, wanted = all_of(data, 100)
    parts = files.messages(wanted)
    found = list(next(parts).offsets)
    queue.purge("orders")
    fill(queue, "orders", rounds=1, start=100)
    for part in parts:
        found += part.offsets
    assert found == list(range(len(found)))
    assert len(found) < 100, "what was open was read, and the rest is gone"


def test_what_a_segment_holds_from_before_its_log_begins(data: Path, queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=1)
    fill(queue, "orders", rounds=1)
    queue.purge("orders")
    fill(queue, "orders", rounds=1, start=20)
    assert [path.name for path in data.glob("logs/*/0/*")] == [f"{0:020d}.log"]
    files, wanted = all_of(data, 40)
    assert [offset for part in files.messages(wanted) for offset in part.offsets] == list(range(20, 40))


def test_what_its_owner_is_about_to_write_is_not_looked_at(data: Path, queue: SyncQueue) -> None:
    queue.create_topic("orders", partitions=1)
    fill(queue, "orders", rounds=1)
    (segment,) = data.glob("logs/*/0/*.log")
    whole = segment.read_bytes()
    for more in (b"\0", whole[:20], whole[:-1], whole):
        segment.write_bytes(whole + more)
        assert offsets(path=str(data), subscribe="orders") == list(range(20))


def test_no_file_stays_open(data: Path, queue: SyncQueue) -> None:
    fill(queue, "orders", rounds=2)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for table in ("messages", "history"):
        read(path=str(data), subscribe="orders", table=table)
    files = Files(str(data), "default", "messages", None)
    next(files.messages(Range("orders", files.topic("orders").id, 0, 0, 40))).values.clear()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nothing_of_a_transaction_that_has_not_ended_is_in_the_files(data: Path) -> None:
    """Nor what lies behind it in its partition, as through the server."""
    asyncio.run(half_committed(data, checkpoint=True))
    files = Files(str(data), "default", "messages", None)
    assert files.end("out") == [0, 0]
    assert files.at("out", 0.0) == [0, 0]
    with ortoo.open_sync(data) as queue:
        assert queue.named("job").commit() == 0
        checkpoint(queue)
    assert sum(Files(str(data), "default", "messages", None).end("out")) == len(VALUES) + 1
