"""Is each message read once, whatever comes, goes and crashes between the calls that Spark makes? A small Spark, by the seed.

It keeps what Spark keeps: where each batch ends, written before the batch runs, and which batch is done. A crash forgets
everything else, the reader too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import ortoo
from ortoo import SyncQueue

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from ortoo.pipeline.source import served, stream
from ortoo.pipeline.source.origin import DataLostError
from ortoo.pipeline.source.stream import StreamReader

from .directories import reader

SEEDS = 30
STEPS = 60


class Spark:
    def __init__(self, **options: str) -> None:
        self._options = options
        self._ends: list[str] = []  # of batches, the last of which may not be done
        self._done = 0  # batches
        self._reader: StreamReader | None = None
        self.read: Counter[bytes] = Counter()

    @property
    def reader(self) -> StreamReader:
        if self._reader is None:
            self._reader = reader(**self._options)
        return self._reader

    @property
    def topics(self) -> set[str]:
        return set(json.loads(self._ends[-1])) if self._ends else set()

    def crash(self) -> None:
        self._reader = None

    def plan(self, limit: ReadLimit) -> None:
        """Where the next batch ends, unless one is planned or there is none."""
        if self._done < len(self._ends):
            return
        end = json.dumps(self.reader.latestOffset(self._start(), limit))
        if not self._ends or end != self._ends[-1]:
            self._ends.append(end)

    def run(self) -> None:
        """The batch that is planned. It is done when all of it is read."""
        if self._done == len(self._ends):
            return
        tasks = self.reader.partitions(self._start(), json.loads(self._ends[self._done]))
        rows = [row for task in tasks for batch in self.reader.read(task) for row in batch.to_pylist()]
        self.read.update(row["value"] for row in rows)
        self._done += 1

    def _start(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ends[self._done - 1]) if self._done else self.reader.initialOffset()
        return found


class World:
    """Topics and what is done to them; `wanted` is what a stream must read that began with it."""

    def __init__(self, queue: SyncQueue, random: Random) -> None:
        self._queue = queue
        self._random = random
        self._topics: list[str] = []
        self._made = 0
        self.wanted: Counter[bytes] = Counter()

    def publish(self) -> None:
        if not self._topics or self._random.random() < 0.2:
            self._made += 1
            self._topics.append(f"topic-{self._made}")
            self._queue.create_topic(self._topics[-1], partitions=self._random.randint(1, 3), ordering="none")
        topic = self._random.choice(self._topics)
        values = [str(sum(self.wanted.values()) + number).encode() for number in range(self._random.randint(1, 4))]
        self._queue.publish_many(topic, values)
        self.wanted.update(values)

    def widen(self) -> None:
        if self._topics:
            topic = self._random.choice(self._topics)
            count = self._queue.topic(topic).config.partitions
            self._queue.update_topic(topic, partitions=count + 1)

    def remove(self, known: set[str]) -> None:
        """A topic that came and went before a stream heard of it is nobody's loss."""
        if not self._topics:
            return
        topic = self._random.choice(self._topics)
        if topic in known and self._random.random() < 0.3:
            self._queue.delete_topic(topic)
            self._topics.remove(topic)
        else:
            self._queue.purge(topic)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncQueue]:
    """In memory: these tests are about what a stream asks for, not where it is kept."""
    with ortoo.open_sync() as opened:
        monkeypatch.setattr(served, "queue_at", lambda address: opened)
        monkeypatch.setattr(stream, "_TOPICS_SECONDS", 0.0)
        monkeypatch.setattr(stream, "_PAUSE_SECONDS", 0.0)
        yield opened


def _limit(random: Random) -> ReadLimit:
    return random.choice([ReadAllAvailable(), ReadMaxRows(random.randint(1, 6))])


def _drain(spark: Spark) -> None:
    for _ in range(3):
        spark.plan(ReadAllAvailable())
        spark.run()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_message_is_read_once_and_nothing_is_missed_that_is_there(queue: SyncQueue, seed: int) -> None:
    random = Random(seed)
    world = World(queue, random)
    spark = Spark(subscribePattern="topic-.*", startingOffsets="earliest")
    for _ in range(STEPS):
        match random.randrange(10):
            case 0 | 1 | 2:
                world.publish()
            case 3:
                world.widen()
            case 4 | 5:
                spark.crash()
            case 6 | 7:
                spark.plan(_limit(random))
            case _:
                spark.run()
    _drain(spark)
    assert spark.read == world.wanted


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_removed_unread_is_told_and_what_is_not_is_read_once(queue: SyncQueue, seed: int) -> None:
    """The strict stream ends with an error, or has read all. One that may lose some is never stuck, and doubles nothing."""
    random = Random(seed)
    world = World(queue, random)
    options = {"subscribePattern": "topic-.*", "startingOffsets": "earliest"}
    strict, lax = Spark(**options), Spark(**options, failOnDataLoss="false")
    world.publish()
    for spark in (strict, lax):
        spark.plan(ReadAllAvailable())
    lost = False
    for _ in range(STEPS):
        match random.randrange(9):
            case 0 | 1 | 2:
                world.publish()
            case 3:
                world.remove(strict.topics)
            case 4:
                strict.crash()
                lax.crash()
            case _:
                limit = _limit(random)
                lost = lost or not _goes_on(strict, limit)
                assert _goes_on(lax, limit)
    lost = lost or not _goes_on(strict, ReadAllAvailable())
    _drain(lax)
    assert max(lax.read.values(), default=0) <= 1
    if not lost:
        assert _goes_on(strict, ReadAllAvailable())
        assert strict.read == world.wanted


def _goes_on(spark: Spark, limit: ReadLimit) -> bool:
    try:
        spark.plan(limit)
        spark.run()
    except DataLostError:
        return False
    return True
