"""What is due at one instant may be more than one turn of the loop may do. In slices it must come to the same."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortoo.engine import Engine
from ortoo.engine.picker import Budget
from ortoo.engine.view import offsets_in_state
from ortoo.engine.wheel import Wheel
from ortoo.model import commands as c
from ortoo.model import limits
from ortoo.model.batch import Outgoing
from ortoo.model.names import TopicName
from ortoo.model.records import CameDue, Expired, Record, Trimmed, decode_records, encode_records
from ortoo.model.replies import LeaseTaken, MessageState
from ortoo.model.runs import runs_of
from ortoo.model.topic import topic_config

BEGINNING = 1_700_000_000_000
NAME = TopicName("default", "t")
STATES: tuple[MessageState, ...] = ("ready", "delayed", "leased", "blocked", "done", "dead")


def lease(count: int) -> c.Lease:
    return c.Lease(topic="t", group="a", consumer="me", max_messages=count)


class World:
    """A live engine, and one that is replayed from the encoded records beside it."""

    def __init__(self, budget: int, **config: object) -> None:
        self.live, self.replayed = Engine(), Engine()
        self.budget = budget
        self.now = BEGINNING
        self.ticks: list[list[Record]] = []
        self.log([self.live.open(self.now)])
        self.do(c.CreateTopic(NAME, topic_config({"partitions": 1, "lease": 10.0, **config})))
        for group in ("a", "b"):
            self.do(c.CreateGroup(NAME, group, c.START))

    def log(self, records: list[Record]) -> None:
        for engine, some in ((self.live, records), (self.replayed, decode_records(encode_records(records)))):
            for record in some:
                engine.apply(record)
                engine.confirm(record)

    def do(self, command: c.Command) -> object:
        decision = self.live.decide(command, self.now)
        self.log(decision.records)
        return decision.reply

    def pass_time(self, ms: int) -> None:
        self.now += ms
        while (records := self.live.tick(self.now, Budget(self.budget))) is not None:
            self.ticks.append(records)
            self.log(records)
            assert self.states(self.live) == self.states(self.replayed)

    def tick_once(self) -> None:
        records = self.live.tick(self.now, Budget(self.budget))
        if records:
            self.log(records)

    def states(self, engine: Engine) -> list[dict[str, list[int]]]:
        topic = engine.state.names[NAME]
        return [
            {s: list(offsets_in_state(feed, s)) for s in STATES}
            for g in topic.groups.values()
            for feed in g.feeds.looks()
        ]


rows = st.lists(
    st.tuples(st.sampled_from([None, "x", "y"]), st.sampled_from([0, 1, 1, 2]), st.sampled_from([None, 1, 1, 3])),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(rows, st.integers(1, 20), st.sampled_from(["key", "none", "partition"]), st.integers(0, 12))
def test_slices_come_to_the_same_and_are_replayed_the_same(
    rows: list[tuple[str | None, int, int | None]], budget: int, ordering: str, leased: int
) -> None:
    ends = []
    for each in (budget, 1_000_000):
        world = World(each, ordering=ordering, backoff_initial=1.0, backoff_max=1.0)
        keys, delays, ttls = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
        world.do(c.Publish(NAME, Outgoing([b"v"] * len(rows), keys=keys, delays=[*delays], ttls=[*ttls])))
        if leased:
            world.do(lease(leased))
        for ms in (1_000, 1_000, 9_000, 5_000):
            world.pass_time(ms)
        ends.append(world.states(world.live))
    assert ends[0] == ends[1]


def test_one_tick_does_no_more_than_its_budget() -> None:
    world = World(30)
    world.do(c.Publish(NAME, Outgoing([b"v"] * 100, delays=[1.0] * 100, ttls=[5.0] * 100)))
    world.pass_time(1_000)
    due = [record for records in world.ticks for record in records if isinstance(record, CameDue)]
    assert len(due) >= 10  # two groups and the log: three for each message
    assert due[-1].upto is None
    assert [record.upto for record in due[:-1]] == sorted(record.upto for record in due[:-1] if record.upto)
    world.pass_time(5_000)
    expired = [record for records in world.ticks for record in records if isinstance(record, Expired)]
    assert len(expired) >= 10
    assert [state["ready"] for state in world.states(world.live)] == [[], []]


def test_a_large_lease_expires_in_slices_and_every_delivery_counts_once() -> None:
    world = World(7, backoff_initial=0.0)
    world.do(c.Publish(NAME, Outgoing([b"v"] * 50)))
    world.do(lease(50))
    world.pass_time(10_000)
    assert sum(1 for records in world.ticks if records) >= 7
    again = world.do(lease(50))
    assert isinstance(again, LeaseTaken)
    assert [run.attempts for run in again.taken] == [dict.fromkeys(range(50), 2)]


def test_a_wheel_gives_what_is_due_in_order_and_in_any_portions() -> None:
    numbers = count()
    wheel, expected = Wheel(), []
    for when in (5, 70, 70, 5_000, 5_000, 5_001, 300_000, 5):
        for _ in range(3):
            item = next(numbers) * 7 % 24
            wheel.add(when, item)
            expected.append((when, item))
    found = []
    while True:
        due, is_all = wheel.due(400_000, 2)
        assert len(due) <= 2
        if due:
            assert wheel.pop(400_000, due[-1]) == due
            found += due
        elif is_all:
            break
    assert found == sorted(expected)


@settings(max_examples=60, deadline=None)
@given(rows, st.integers(1, 30), st.sampled_from(["key", "none", "partition"]), st.integers(0, 12), st.booleans())
def test_a_log_trimmed_in_slices_ends_as_one_trimmed_at_once(
    rows: list[tuple[str | None, int, int | None]], budget: int, ordering: str, leased: int, nack: bool
) -> None:
    ends = []
    for each in (budget, 1_000_000):
        world = World(each, ordering=ordering, backoff_initial=100.0, retention_seconds=5, lease=600.0)
        keys, delays = [row[0] for row in rows], [float(row[1]) for row in rows]
        world.do(c.Publish(NAME, Outgoing([b"v"] * len(rows), keys=keys, delays=[*delays])))
        world.pass_time(2_000)
        if leased:
            taken = world.do(lease(leased))
            assert isinstance(taken, LeaseTaken)
            if nack and taken.taken:
                world.do(c.Settle("nack", runs_of(taken.taken)))
        world.now += 2_000
        world.do(c.Publish(NAME, Outgoing([b"v"] * 2, keys=["x", None])))
        world.pass_time(8_000)
        [partition] = world.live.state.names[NAME].partitions
        skipped = [
            feed.skipped for group in world.live.state.names[NAME].groups.values() for feed in group.feeds.looks()
        ]
        ends.append((world.states(world.live), partition.start, skipped))
    assert ends[0] == ends[1]


def test_a_log_that_a_group_has_sorted_is_trimmed_a_part_at_a_time() -> None:
    world = World(30, retention_seconds=5)
    world.do(c.Publish(NAME, Outgoing([b"v"] * 100, keys=[f"k{n}" for n in range(100)])))
    world.do(c.Lease(topic="t", group="a", consumer="me", key="none"))
    world.pass_time(20_000)
    trimmed = [record for records in world.ticks for record in records if isinstance(record, Trimmed)]
    assert len(trimmed) >= 4
    assert trimmed[-1].start == 100


ids = st.lists(
    st.tuples(
        st.sampled_from(["t", "u"]),  # to which topic
        st.sampled_from(["a", "b", "c", "d"]),  # which id
        st.sampled_from([0, 1, 4_000, 11_000]),  # after how long
        st.sampled_from([None, None, None, "topic", "namespace", "delete", 3.0, 20.0]),  # and then the topic changes so
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(ids, st.integers(1, 5))
def test_ids_forgotten_in_slices_are_found_as_if_forgotten_at_once(
    steps: list[tuple[str, str, int, str | float | None]], budget: int
) -> None:
    """Publishes are told the same, whatever is still lying about."""
    answers: list[list[object]] = []
    for each in (budget, 1_000_000):
        told: list[object] = []
        world = World(each, dedup_scope="namespace", dedup_window=10.0)
        for name, dedup_id, ms, change in steps:
            topic = TopicName("default", name)
            world.now += ms
            if each < 1_000_000:
                world.tick_once()
            else:
                world.pass_time(0)
            told.append(world.do(c.Publish(topic, Outgoing([b"v"], dedup_ids=[dedup_id]))))
            config = world.live.state.names[topic].config
            if change == "delete":
                world.do(c.DeleteTopic(topic))
                world.do(c.CreateTopic(topic, config))
            elif isinstance(change, str):
                world.do(c.ChangeTopic(topic, {"dedup_scope": change}))
            elif change is not None:
                world.do(c.ChangeTopic(topic, {"dedup_window": change}))
        answers.append(told)
        world.pass_time(60_000)
        state = world.live.state
        assert not state.soft.unshared
        shared = state.dedups.get("default", {})
        assert all(dedup_id in state.topics[owner].dedup.seen for dedup_id, owner in shared.items())
    assert answers[0] == answers[1]


sought = st.lists(
    st.tuples(st.sampled_from([None, "x", "y", "z"]), st.sampled_from([5, 5, 1])), min_size=3, max_size=20
)
settled = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["ack", "nack", "reject", "hold"])), max_size=6)


@settings(max_examples=150, deadline=None)
@given(sought, settled, st.integers(0, 20), st.integers(0, 20), settled, st.integers(1, 5))
def test_what_a_seek_leaves_to_be_sorted_is_delivered_as_if_it_were_sorted_at_once(
    rows: list[tuple[str | None, int]],
    before: list[tuple[int, str]],
    start: int,
    end: int,
    after: list[tuple[int, str]],
    scanned: int,
) -> None:
    """However little a lease may look at, in the same order, and live as replayed."""
    ends = []
    for at_once, looked_at in ((1_000_000, 10_000), (0, 10_000), (0, scanned)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "SORTED_AT_ONCE", at_once)
            world = World(1_000, max_attempts=5)
            keys, priorities = [row[0] for row in rows], [row[1] for row in rows]
            world.do(c.Publish(NAME, Outgoing([b"v"] * len(rows), keys=keys, priorities=priorities)))
            for count, outcome in before:
                _deliver(world, count, outcome)
            world.do(c.Seek(NAME, "a", c.Position(offset=start), c.Position(offset=end)))
            patch.setattr(limits, "SCAN_MESSAGES_MAX", looked_at)
            told = [world.states(world.live)]
            delivered = []
            for count, outcome in [*after, *[(3, "ack")] * 15]:
                delivered += _deliver(world, count, outcome)
                told.append(world.states(world.live))
                assert told[-1] == world.states(world.replayed)
            ends.append((told, delivered))
    assert ends[0] == ends[1]
    if all(outcome == "ack" for _, outcome in after):
        assert sorted(ends[2][1]) == sorted(ends[0][1])


def _deliver(world: World, count: int, outcome: str) -> list[int]:
    taken = world.do(lease(count))
    while isinstance(taken, LeaseTaken) and taken.more:
        taken = world.do(lease(count))
    assert isinstance(taken, LeaseTaken)
    if taken.taken and outcome != "hold":
        world.do(c.Settle(outcome, runs_of(taken.taken), delay_ms=3_600_000 if outcome == "nack" else None))  # type: ignore[arg-type]
    return [offset for run in taken.taken for offset in run.offsets]


@given(
    now=st.integers(0, 1 << 44),
    distances=st.lists(
        st.one_of(
            st.integers(-100, 200), st.integers(0, 1 << 18), st.integers(0, 1 << 43), st.sampled_from([64, 4096])
        ),
        max_size=60,
    ),
)
def test_pairs_that_are_added_together_are_where_each_would_be(now: int, distances: list[int]) -> None:
    pairs = [(max(0, now + distance), item) for item, distance in enumerate(distances)]
    one_by_one, together = Wheel(), Wheel()
    one_by_one.now = together.now = now
    for when, item in pairs:
        one_by_one.add(when, item)
    together.add_pairs(pairs)
    assert len(together) == len(one_by_one)
    assert together.slots.keys() == one_by_one.slots.keys()
    assert sorted(together.heap) == sorted(one_by_one.heap)
    for place in together.slots:
        assert sorted(_pairs(together, place)) == sorted(_pairs(one_by_one, place))


def _pairs(wheel: Wheel, place: tuple[int, int]) -> list[tuple[int, int]]:
    slot = wheel.slots[place]
    return list(zip(slot[::2], slot[1::2], strict=True))
