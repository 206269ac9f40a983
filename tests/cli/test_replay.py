"""`ortoo consume --from-snapshot --include-deleted`: the archive and the log as one."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import ortoo
from ortoo.pipeline.lake.layout import Lake
from ortoo.pipeline.spark import needed
from tests.pipeline.batches import archive_topic

from .program import Place, start


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def archived(at_directory: Place, directory: Path, lake: Path) -> Place:
    """Twenty messages, the first ten only in the archive."""
    with ortoo.open_sync(directory) as queue:
        queue.create_topic("orders", partitions=2)
        queue.publish_many("orders", [ortoo.Message(b"%d" % number, partition=number % 2) for number in range(10)])
        archive_topic(Lake(lake), queue, "orders")
        queue.purge("orders")
        queue.publish_many("orders", [ortoo.Message(b"%d" % number, partition=number % 2) for number in range(10, 20)])
    return at_directory


def replay(place: Place, lake: Path, *more: str) -> list[str]:
    return place.ok("consume", "orders", "--from-snapshot", "-1h", "--include-deleted", "--lake", lake, *more).lines


def test_what_was_removed_comes_back(archived: Place, lake: Path) -> None:
    assert sorted(map(int, replay(archived, lake, "--raw"))) == list(range(20))
    assert (
        archived.ok("consume", "orders", "--from-snapshot", "-1h", "--raw").lines
        == replay(archived, lake, "--raw")[10:]
    )


def test_only_some(archived: Place, lake: Path) -> None:
    assert len(replay(archived, lake, "--raw", "--max", "13")) == 13
    assert sorted(map(int, replay(archived, lake, "--raw", "--partition", "1"))) == list(range(1, 20, 2))
    assert replay(archived, lake, "--raw", "--to-time", "2020-01-01") == []


def test_as_json(archived: Place, lake: Path) -> None:
    found = [json.loads(line) for line in replay(archived, lake, "--json")]
    assert sorted(int(one["value"]) for one in found) == list(range(20))
    assert {one["topic"] for one in found} == {"orders"}


def test_a_deleted_topic(archived: Place, lake: Path) -> None:
    archived.ok("topics", "delete", "orders", "--yes")
    assert sorted(map(int, replay(archived, lake, "--raw"))) == list(range(10))


def test_what_is_nowhere_is_told(archived: Place, lake: Path) -> None:
    archived.ok("topics", "purge", "orders", "--yes")
    done = archived.ok("consume", "orders", "--from-snapshot", "-1h", "--include-deleted", "--lake", lake, "--raw")
    assert len(done.lines) == 10
    assert "messages 5 to 9 of partition 1 are neither archived nor in the log" in " ".join(done.err.split())


def test_following(archived: Place, lake: Path, directory: Path) -> None:
    program = start(
        "consume", "orders", "--from-snapshot", "-1h", "--include-deleted", "--lake", lake, "--raw", "--follow",
        "--max", "21", "--data", directory,
    )  # fmt: skip
    assert program.stdout is not None
    lines = [program.stdout.readline() for _ in range(20)]
    assert sorted(map(int, lines)) == list(range(20))
    time.sleep(0.6)
    assert program.poll() is None
    program.terminate()
    program.communicate()


def test_mistakes_are_explained(archived: Place, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["consume", "orders", "--include-deleted"]
    done = archived(*wanted)
    assert (done.code, "needs --from-snapshot" in done.err) == (2, True)
    done = archived(*wanted, "--from-snapshot", "-1h", "--lake", tmp_path / "none")
    assert (done.code, "is not a lake" in done.err) == (3, True)
    done = archived(*wanted, "--from-snapshot", "-1h", "--lake", lake, "--partition", "9")
    assert (done.code, "has partitions 0 to 1, not 9" in done.err) == (1, True)
    monkeypatch.setattr(needed, "find_spec", lambda name: None)
    done = archived(*wanted, "--from-snapshot", "-1h", "--lake", lake)
    assert (done.code, "pip install 'ortoo[spark]' (missing: pyarrow)" in done.err) == (1, True)


def test_compacting_waits_for_nobody(archived: Place, lake: Path) -> None:
    from .program import call

    with Lake(lake).alone("archiving"):
        done = call("pipeline", "compact", "--lake", lake)
    assert (done.code, "another job is at work on the lake" in done.err) == (4, True)
    assert call("pipeline", "compact", "--lake", lake).code == 0
    assert sorted(map(int, replay(archived, lake, "--raw"))) == list(range(20))


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--topic", "ordrs"), 3, "there is no topic 'ordrs'; did you mean 'orders'?"),
        (("--pattern", "("), 1, "'subscribePattern' is not a regular expression"),
        (("--topic", "a", "--pattern", "b"), 2, "give --topic or --pattern, not both"),
    ],
)
def test_archiving_what_is_not_there(
    at_server: Place, tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    """Known before Spark has started, and before anything is made."""
    at_server.ok("topics", "create", "orders")
    done = at_server("pipeline", "archive", "--to", tmp_path / "lake", "--once", *options)
    assert (done.code, words in done.err) == (code, True), done.err
    assert not (tmp_path / "lake").exists()


def test_a_lake_is_a_directory(at_server: Place, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = at_server("pipeline", "archive", "--to", tmp_path / "file", "--once")
    assert (done.code, "a lake is a directory" in done.err) == (1, True)
