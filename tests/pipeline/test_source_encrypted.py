"""With includeEncrypted=false a stream reads nothing that was published to an encrypted topic, whenever it became one."""

from __future__ import annotations

from base64 import b64encode

import pytest

from ortoo import SyncQueue
from ortoo.model.errors import ConfigError

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from ortoo.pipeline.source import served

from .directories import reader

PLAIN_ONLY = {"includeEncrypted": "false", "startingOffsets": "earliest"}
ALL = ReadAllAvailable()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTOO_ENCRYPTION_KEYS", f"k:{b64encode(bytes(32)).decode()}")


def test_a_pattern_reads_the_others_and_by_default_all(queue: SyncQueue) -> None:
    queue.create_topic("secret", encrypted=True)
    queue.create_topic("orders")
    source = reader(subscribePattern=".*", **PLAIN_ONLY)
    assert set(source.latestOffset(source.initialOffset(), ALL)) == {"orders"}
    source = reader(subscribePattern=".*")
    assert set(source.latestOffset(source.initialOffset(), ALL)) == {"orders", "secret"}


def test_one_that_is_named_is_an_error(queue: SyncQueue) -> None:
    queue.create_topic("secret", encrypted=True)
    with pytest.raises(ConfigError, match="'secret' is encrypted"):
        reader(subscribe="secret", **PLAIN_ONLY).initialOffset()


def test_what_comes_while_a_batch_is_planned_is_left_out(queue: SyncQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not encrypted when the topics were looked up, and was when it was asked where it ends."""
    queue.create_topic("orders", partitions=1)
    source = reader(subscribePattern=".*", **PLAIN_ONLY)
    first = source.initialOffset()
    end = served.Served.end

    def encrypt_first(self: served.Served, topic: str) -> list[int]:
        queue.update_topic("orders", encrypted=True)
        queue.publish("orders", b"secret")
        return end(self, topic)

    monkeypatch.setattr(served.Served, "end", encrypt_first)
    assert set(source.latestOffset(first, ALL)) == set()
