"""What is encrypted on disk gets into plain files only when that was asked for, in so many words."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import ortoo
from ortoo.model.errors import ConfigError
from ortoo.pipeline.connection import Address
from ortoo.pipeline.lake.archive import Wanted, archive_wanted
from ortoo.pipeline.lake.layout import HISTORY, MESSAGES, Lake
from tests.cli.program import call

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARKER = "xyzzy-plugh"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with an encryption key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTOO_ENCRYPTION_KEYS", f"k:{base64.b64encode(bytes(32)).decode()}")
        server = Server(tmp_path_factory.mktemp("keyed"))
    yield server
    server.stop()


class Run:
    def __init__(self, spark: SparkSession, url: str, lake: Path) -> None:
        self._spark, self._url = spark, url
        self.lake = Lake(lake)
        self.told: list[str] = []

    def __call__(self, **wanted: Any) -> None:
        self.told.clear()
        archive_wanted(self._spark, self.lake, Wanted(Address(self._url), **wanted), report=self._hear)

    def _hear(self, what: object) -> None:
        if isinstance(what, str):
            self.told.append(what)

    def values(self) -> set[bytes]:
        found = [pq.ParquetFile(path).read(["value"])["value"].to_pylist() for path in self.lake.files(MESSAGES)]
        return {value for values in found for value in values}

    def errors(self) -> set[str | None]:
        found = [pq.ParquetFile(path).read(["error"])["error"].to_pylist() for path in self.lake.files(HISTORY)]
        return {error for errors in found for error in errors}


@pytest.fixture
def run(spark: SparkSession, keyed: Server, tmp_path: Path) -> Run:
    return Run(spark, keyed.url, tmp_path / "lake")


@pytest.fixture
def queue(keyed: Server) -> Iterator[ortoo.SyncQueue]:
    with ortoo.connect_sync(keyed.url) as queue:
        for topic in queue.topics():
            queue.delete_topic(topic.name)
        queue.create_topic("secret", encrypted=True, partitions=1)
        queue.publish("secret", MARKER, key=MARKER, headers={MARKER: MARKER})
        queue.nack(queue.lease("secret"), error=f"error {MARKER}", delay=0)
        queue.reject(queue.lease("secret"), error=f"rejected {MARKER}")
        queue.create_topic("plain", partitions=1)
        queue.publish("plain", b"open")
        yield queue


def test_a_topic_that_is_named_is_an_error(run: Run, queue: ortoo.SyncQueue) -> None:
    with pytest.raises(ConfigError, match="'secret' is encrypted, and the archive is not; --include-encrypted with"):
        run(topics=("plain", "secret"))
    assert not list(run.lake.files(MESSAGES))


def test_a_pattern_leaves_it_out_and_says_so(run: Run, queue: ortoo.SyncQueue) -> None:
    run()
    assert run.values() == {b"open"}
    assert run.errors() <= {None}
    assert [told for told in run.told if "'secret' is encrypted, and is not archived" in told]
    assert [told for told in run.told if "'secret.dlq' is encrypted, and is not archived" in told]


def test_what_is_published_after_a_topic_was_encrypted_is_left_out_too(run: Run, queue: ortoo.SyncQueue) -> None:
    run()
    queue.update_topic("plain", encrypted=True)
    queue.publish("plain", MARKER)
    run()
    assert run.values() == {b"open"}
    with pytest.raises(ConfigError, match="'plain' is encrypted"):
        run(topics=("plain",))


def test_with_both_words_it_is_archived_as_it_is(run: Run, queue: ortoo.SyncQueue) -> None:
    run(include_encrypted=True, plaintext=True)
    assert run.values() == {b"open", MARKER.encode()}
    assert {f"error {MARKER}", f"rejected {MARKER}"} <= run.errors()
    assert run.told == []


@pytest.mark.parametrize("words", [["--include-encrypted"], ["--plaintext"]])
def test_one_word_is_not_enough(keyed: Server, tmp_path: Path, words: list[str]) -> None:
    done = call("pipeline", "archive", "--to", tmp_path / "lake", "--once", "--url", keyed.url, *words)
    assert (done.code, "go together" in done.err) == (1, True)
    assert not (tmp_path / "lake" / "messages").exists()
