"""What is done leaves next to nothing behind: a queue that has been busy for long costs no more than one that has not.

Random messages are published, fail, expire and are acked, until nobody has any left. What the engine's state takes then, in
memory and in a snapshot, is a few bytes a message, while the log keeps them, and nothing once they are trimmed.
"""

from __future__ import annotations

import gc
import sys
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import pytest

from ortoo.engine import Engine, due_dates, feed, keys, partition, state
from ortoo.model import commands as c
from ortoo.model import limits
from ortoo.model import records as r
from ortoo.model.batch import Outgoing
from ortoo.model.names import DEFAULT_NAMESPACE, TopicName
from ortoo.model.replies import LeaseTaken
from ortoo.model.runs import merge_runs
from ortoo.model.topic import Ordering, topic_config

JOBS, DEAD = TopicName(DEFAULT_NAMESPACE, "jobs"), TopicName(DEFAULT_NAMESPACE, "jobs.dlq")
GROUPS = ("a", "b")
OUTCOMES: list[c.Outcome | None] = ["ack", "ack", "nack", "reject", "release", None]
LONG_MS = 10 * 3_600_000
BATCH, BATCHES = 100, 20  # messages, and publishes of one round
ROUNDS = 6  # that are measured
KEPT_BYTES = 16  # that a message may take while the log keeps it, though it is done: half of them for its key
SLACK_BYTES = 100_000  # tables grow by leaps, and some leases are remembered


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has a bound reaches it early."""
    monkeypatch.setattr(limits, "SETTLED_LEASES_REMEMBERED", 20)
    monkeypatch.setattr(due_dates, "SPANS_MAX", 64)
    for module in (feed, partition, state):
        monkeypatch.setattr(module, "_FEW", 32)
    monkeypatch.setattr(keys, "_CHUNK_BITS", 8)
    monkeypatch.setattr(keys, "_CHUNK", 1 << 8)


class Busy:
    """An engine without a store."""

    def __init__(self, seed: int, ordering: Ordering, retention: float | None) -> None:
        self.random = Random(seed)
        self.engine = Engine()
        self.now = 1_700_000_000_000
        self.published = 0
        self.log([self.engine.open(self.now)])
        for topic in (JOBS, DEAD):
            config = topic_config(
                {
                    "ordering": ordering if topic is JOBS else "none",
                    "partitions": 2 if topic is JOBS else 1,
                    "max_attempts": 3,
                    "dedup_window": 60.0,
                    "retention_seconds": retention,
                }
            )
            self.do(c.CreateTopic(topic, config))
            for group in GROUPS:
                self.do(c.CreateGroup(topic, group))

    def log(self, records: list[r.Record]) -> None:
        for record in records:
            self.engine.apply(record)
        for record in records:
            self.engine.confirm(record)

    def do(self, command: c.Command) -> Any:
        decision = self.engine.decide(command, self.now)
        self.log(decision.records)
        return decision.reply

    def wait(self, ms: int) -> None:
        until = self.now + ms
        while (deadline := self.engine.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.log(self.engine.tick(self.now) or [])
        self.now = until

    def publish(self) -> None:
        """A batch whose messages have something or other in common, each to its own degree."""
        random, rows = self.random, range(BATCH)
        columns: dict[str, list[Any]] = {
            "keys": [f"k{random.randrange(30)}" for _ in rows],
            "priorities": [random.choice([1, 5, 9]) for _ in rows],
            "delays": [random.uniform(0, 100) for _ in rows],
            "ttls": [random.choice([random.uniform(1, 100), 864_000.0]) for _ in rows],
            "dedup_ids": [f"d{self.published + row}" for row in rows],
        }
        chosen = random.sample(list(columns), random.choice([0, 1, 1, 2]))
        self.do(c.Publish(JOBS, Outgoing([b"v"] * BATCH, **{name: columns[name] for name in chosen})))
        self.published += BATCH

    def work(self, topic: TopicName, group: str, willing: bool) -> int:
        """Leases some and settles them, or lets the lease run out; who is willing acks. How many there were."""
        outcome = "ack" if willing else self.random.choice(OUTCOMES)
        lease_ms = LONG_MS if outcome == "ack" and self.random.random() < 0.5 else 500
        count = self.random.randint(1, 80)
        lease = c.Lease(topic=topic.name, group=group, consumer="x", max_messages=count, lease_ms=lease_ms)
        taken: LeaseTaken = self.do(lease)
        runs = [c.Run(run.topic_id, run.group_id, run.lease, run.partition, run.offsets) for run in taken.taken]
        runs = merge_runs(runs)
        if runs and outcome is not None:
            if self.random.random() < 0.3:
                self.do(c.Extend(runs, self.random.choice([600, LONG_MS])))
            self.do(c.Settle(outcome, runs, delay_ms=self.random.choice([None, 0, 700])))
        return len(runs)

    def round(self) -> None:
        """Everything that is published is done when it ends."""
        for _ in range(BATCHES):
            self.publish()
            for group in GROUPS:
                self.work(JOBS, group, willing=False)
            self.wait(self.random.choice([0, 1, 300, 2_000]))
        for _ in range(4):
            self.wait(60_000)
            for topic in (JOBS, DEAD):
                for group in GROUPS:
                    while self.work(topic, group, willing=True):
                        pass
        self.wait(200_000)  # whatever is remembered for a while is forgotten


def size(engine: Engine) -> int:
    """Bytes of all that the state refers to; bitmaps count in the snapshot."""
    seen: dict[int, object] = {}
    ahead: list[object] = [engine.state]
    while ahead:
        one = ahead.pop()
        if id(one) not in seen and not isinstance(one, type | ModuleType | FunctionType):
            seen[id(one)] = one
            ahead.extend(gc.get_referents(one))
    return sum(map(sys.getsizeof, seen.values())) + len(engine.snapshot())


def check_leftovers(seed: int, ordering: Ordering, retention: float | None) -> None:
    busy = Busy(seed, ordering, retention)
    for _ in range(2):
        busy.round()
    before, published = size(busy.engine), busy.published
    for _ in range(ROUNDS):
        busy.round()
    assert not any(one.backlog() for _, group in busy.engine.state.groups() for one in group.feeds.looks())
    logs = [log for topic in busy.engine.state.topics.values() for log in topic.partitions]
    assert all((log.start == log.end) is (retention is not None) for log in logs)
    kept = busy.published - published if retention is None else 0
    assert size(busy.engine) - before <= KEPT_BYTES * kept + SLACK_BYTES


@pytest.mark.parametrize("retention", [None, 30.0], ids=["kept", "trimmed"])
@pytest.mark.parametrize("ordering", ["none", "key", "partition"])
def test_what_is_done_leaves_next_to_nothing_behind(ordering: Ordering, retention: float | None) -> None:
    check_leftovers(1, ordering, retention)


@pytest.mark.soak
@pytest.mark.parametrize("retention", [None, 30.0], ids=["kept", "trimmed"])
@pytest.mark.parametrize("ordering", ["none", "key", "partition"])
def test_nor_does_it_in_many_more(ordering: Ordering, retention: float | None) -> None:
    for seed in range(100, 120):
        check_leftovers(seed, ordering, retention)
