"""An engine that comes back from a checkpoint is the engine that made it.

The machine of the engine's own test drives the engine with random commands. Here every record also goes to a disk store, a
checkpoint comes now and then, and what is compared with the model after every step is an engine recovered from the disk. A
restart goes on with the recovered one, so its decisions are compared, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from ortoo.engine import Engine
from ortoo.engine.snapshot import Snapshot
from ortoo.model import records as r
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Publish
from ortoo.model.names import TopicName
from ortoo.stores.disk import DiskStore
from ortoo.stores.disk.crypto import KeyRing
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format.directory import small_files
from tests.format.meaning import meaning
from tests.property.machines import run_machine
from tests.property.test_engine_model import EngineMachine, counters_of

T = TypeVar("T")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Runs what never waits: a store without threads on a disk in memory."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for something")


async def gather(commits: AsyncIterator[list[r.Record]]) -> list[r.Record]:
    return [record async for commit in commits for record in commit]


def make_store(disk: SimulatedDisk) -> DiskStore:
    keys = KeyRing({"k": bytes(32)})
    return DiskStore(disk, keys, checkpoint_bytes=1 << 40, reserve_bytes=0, in_threads=False)


def copy_of(disk: SimulatedDisk) -> SimulatedDisk:
    copy = SimulatedDisk(Random(1))
    for path, content in disk.names.items():
        copy.open(path).append(bytes(content.now))
    return copy


class DiskMachine(EngineMachine):
    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.store = make_store(self.disk)
        at_once(gather(self.store.recover()))
        self.snapshot: Snapshot | None = None  # that is being made
        self.then: dict[str, Any] = {}  # what it has to say
        self.making = ExitStack()
        self.random = Random(1)
        self.behind: list[list[r.Record]] = []  # commits that wait until it is made
        super().__init__()

    def log(self, records: list[r.Record]) -> None:
        super().log(records)
        if records:
            self.behind.append(records)
        self.commit()

    def commit(self) -> None:
        while self.snapshot is None and self.behind:
            at_once(self.store.append(self.behind.pop(0)))

    def begin_checkpoint(self) -> None:
        """Some topics are dumped now, some as they are about to change, the others when the next command has been done."""
        self.then = meaning(self.engine.snapshot())
        self.snapshot = self.making.enter_context(self.engine.snapshotting())
        self.snapshot.go_on(self.random.choice([0, 0, 1, 3, 6]))

    def end_checkpoint(self) -> None:
        if self.snapshot is not None:
            dumped = self.snapshot.finish()
            assert meaning(dumped) == self.then  # whatever happened since
            at_once(self.store.checkpoint(dumped, self.snapshot.at))
            self.making.close()
            self.snapshot = None
            assert self.store.problems == []
            self.commit()

    @rule(times=st.sampled_from([1, 1, 2]))
    def checkpoint(self, times: int) -> None:
        self.end_checkpoint()
        for _ in range(times):
            at_once(self.store.checkpoint(self.engine.snapshot(), self.engine.state.now))
            assert self.store.problems == []
        self.check()

    def replayed(self) -> Engine:
        self.end_checkpoint()
        engine = Engine()
        store = make_store(copy_of(self.disk))
        for record in at_once(gather(store.recover())):
            engine.apply(record)
            engine.confirm(record)
        assert store.problems == []
        # What a restart begins anew, and the model does not know of.
        engine.state.reset_counters()
        engine.state.soft.past = counters_of(self.engine)
        engine.state.lease_number = self.engine.state.lease_number
        self.compare_dedup(engine)
        self.compare_times(engine)
        if self.random.random() < 0.3:
            self.begin_checkpoint()
        return engine

    def compare_dedup(self, engine: Engine) -> None:
        """A duplicate stays one. Ids that the live engine has forgotten before their time may still be known."""
        state = self.engine.state
        for topic in state.topics.values():
            again = engine.state.topics[topic.id]
            for dedup_id in topic.dedup.seen:
                known = state.find_dedup_id(topic, dedup_id, self.now)
                is_secret = known is not None and topic.config.encrypted
                assert known is None or is_secret or engine.state.find_dedup_id(again, dedup_id, self.now) == known
        for topic in state.topics.values():
            engine.state.topics[topic.id].dedup = topic.dedup
        engine.state.dedups = state.dedups

    def compare_times(self, engine: Engine) -> None:
        for topic in self.engine.state.topics.values():
            for partition, again in zip(topic.partitions, engine.state.topics[topic.id].partitions, strict=True):
                assert again.bytes_held <= partition.bytes_held  # which counts whole instants, the log just what it has
                assert list(again.expired) == list(partition.expired)
                assert list(again.evicted) == list(partition.evicted)
                assert again.private == partition.private
                assert again.delays.entries() == partition.delays.entries()
                for offset in range(partition.start, partition.end):
                    assert again.timeline.time_of(offset) == partition.timeline.time_of(offset)
                    assert again.keys.at(offset) == partition.keys.at(offset)
                    assert again.lane_of(offset) == partition.lane_of(offset)


def run(examples: int, steps: int, derandomize: bool) -> None:
    with small_files():
        run_machine(DiskMachine, examples, steps, derandomize)


def test_an_engine_comes_back_from_the_disk_as_it_was() -> None:
    run(examples=25, steps=30, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_an_engine_comes_back_from_the_disk_as_it_was_for_long() -> None:
    run(examples=2_000, steps=80, derandomize=False)


def test_what_an_earlier_transaction_of_the_same_name_staged_stays_gone() -> None:
    """The write-ahead log is read again from the first open transaction on; others came and went since."""
    store = make_store(disk := SimulatedDisk(Random(1)))
    at_once(gather(store.recover()))

    def staged(text: bytes) -> r.Staged:
        return r.Staged(1, "default", "again", "p", Publish(TopicName("default", "t"), Outgoing([text])))

    commits: list[r.Record] = [
        r.TransactionBegan(1, "default", "long", 99),
        r.TransactionBegan(1, "default", "again", 99),
        staged(b"of the first"),
        r.TransactionEnded(1, "default", "again", committed=False),
        r.TransactionBegan(1, "default", "again", 99),
        staged(b"of the second"),
    ]
    for record in commits:
        at_once(store.append([record]))
    at_once(store.checkpoint(b"", 1))
    found = at_once(gather(make_store(disk).recover()))
    assert [record for record in found if isinstance(record, r.Staged)] == [staged(b"of the second")]
