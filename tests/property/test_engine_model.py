"""The engine against the reference model: random commands and clocks, compared after every step.

Three parties run side by side. The live engine decides, and is looked at as little as possible, so that its laziness is
real. A second engine is replayed from the encoded records alone, afresh after every step. The model says what both should
answer and hold.
"""

from __future__ import annotations

import pickle
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ortoo.broker.coordinator import take_slice
from ortoo.engine import Engine
from ortoo.engine import alarms as a
from ortoo.engine.decision import Decision, Draft
from ortoo.engine.feed import Feed
from ortoo.engine.group import Group as EngineGroup
from ortoo.engine.keys import key_hash
from ortoo.engine.quotas import count_stored
from ortoo.engine.state import State
from ortoo.engine.strip import strip_feed
from ortoo.engine.topic import Topic as EngineTopic
from ortoo.engine.transaction import Name, share_bytes
from ortoo.engine.view import group_info, offsets_in_state, state_of
from ortoo.model import commands as c
from ortoo.model import limits
from ortoo.model import records as r
from ortoo.model.batch import Outgoing, size_of
from ortoo.model.errors import OrtooError
from ortoo.model.names import DEFAULT_NAMESPACE, GroupId, LeaseRef, MessageRef, TopicId, TopicName
from ortoo.model.namespaces import Quota
from ortoo.model.replies import Counters, IdState, LeaseTaken, MessageState, Placed, Settled
from ortoo.model.topic import Ordering, TopicConfig, topic_config
from tests.format.meaning import meaning
from tests.property.machines import run_machine
from tests.property.model import DEAD, Appended, Group, Model, Topic

T = TypeVar("T")

STATES: tuple[MessageState, ...] = ("ready", "delayed", "leased", "blocked", "done", "dead")
BEGINNING = 1_700_000_000_000
DAY = 86_400_000

# -- small worlds, so that things collide

ORDERS: dict[str, Ordering] = {"n": "none", "k": "key", "p": "partition", "s": "strict"}
MAIN = "main"  # stands for the topic that an example dwells on
NAMES = [*[MAIN] * 20, *ORDERS, "other", "main.dlq", "main.dlq", "graves", "auto"]
FEATURES: list[dict[str, Any]] = [
    {"max_attempts": 1},
    {"max_attempts": 2},
    {"max_attempts": 1000},
    {"backoff_initial": 0.0},
    {"total_timeout": 2.0},
    {"ttl": 5.0},
    {"ttl": 5.0, "on_expire": "dlq"},
    {"max_wait": 8.0},
    {"max_wait": 8.0, "on_expire": "dlq"},
    {"max_depth": 6},
    {"dlq": False},
    {"dlq_topic": "graves"},
    {"dlq_topic": "graves", "max_attempts": 1},
    {"dlq_topic": "graves", "encrypted": True},
    {"encrypted": True},
    {"delay": 1.0},
    {"window_seconds": 3.0, "window_count": 0},
    {"window_seconds": 20.0, "window_count": 4},
    {"dedup_window": 5.0},
    {"dedup_count": 2},
    {"dedup_scope": "namespace"},
    {"dedup_scope": "key"},
    {"dedup_scope": "key", "dedup_window": 5.0},
    {"retention_seconds": 30.0},
    {"retention_seconds": None},
    {"retention_bytes": 40},
    {"retention_done_seconds": 0.0},
    {"retention_done_seconds": 15.0},
    {"retention_waits_for_archive": True},
    {"retention_waits_for_archive": True, "retention_seconds": 5.0, "retention_bytes": 40},
    {"labels": {"task": "t"}},
    {"labels": {"task": "t"}, "priority": 1},
    {"partitions": 1},
    {"partitions": 3, "allow_reorder": True},
    {"max_message_bytes": 3},
    {"lease": 2.0},
    {"keep": "latest"},
    {"keep": "all"},
]

LIMITS = [
    Quota(),
    Quota(topics=3),
    Quota(groups=2),
    Quota(stored_bytes=60),
    Quota(stored_bytes=120),
    Quota(topics=5, groups=3, stored_bytes=200),
    Quota(stored_bytes=1_000),
]

features = st.lists(st.sampled_from(FEATURES), min_size=1, max_size=3)
topics = st.sampled_from(NAMES)
groups = st.sampled_from(["a", "a", "a", "a", "b"])
consumers = st.sampled_from(["x", "x", "y"])
indexes = st.integers(0, 12)
positions = st.one_of(
    st.sampled_from([c.START, c.END]),
    st.integers(0, 6).map(lambda offset: c.Position(offset=offset)),
    st.integers(0, 20_000).map(lambda ms: c.Position(time=ms)),  # laid over the clock by `position`
)
EXTRAS: list[dict[str, Any]] = [
    {"priority": 0},
    {"priority": 9},
    {"delay": 0.5},
    {"delay": 5.0},
    {"delay": 40.0},
    {"deliver_in": 0},
    {"deliver_in": 2_001},
    {"ttl": 1.0},
    {"ttl": 6.0},
    {"dedup_id": "d1"},
    {"dedup_id": "d2"},
    {"dedup_id": "d3"},
    {"partition": 0},
    {"partition": 1},
    {"partition": 2},
    {"size": 0},
    {"size": 4},
]
messages = st.builds(
    lambda key, extras: {"size": 1} | key | dict(ChainMap(*extras)),
    st.sampled_from([{}, {"key": "k1"}, {"key": "k1"}, {"key": "k2"}]),
    st.lists(st.sampled_from(EXTRAS), max_size=2),
)
batches = st.lists(messages, min_size=1, max_size=4)
picks = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 15), st.booleans()), min_size=1, max_size=2)


def merged(ordering: Ordering, chosen: list[dict[str, Any]], onto: TopicConfig | None = None) -> TopicConfig:
    laid: dict[str, Any] = {} if onto else {"ordering": ordering, "partitions": 2, "lease": 10.0}
    for feature in chosen:
        laid |= feature
    if ordering == "strict":
        laid["partitions"] = 1
    if ordering != "key" and laid.get("dedup_scope") == "key":
        laid["dedup_scope"] = "topic"
    return topic_config(laid, onto)


def outgoing(rows: list[dict[str, Any]], now: int, numbers: Iterator[int]) -> Outgoing:
    def column(name: str) -> list[Any] | None:
        return [row.get(name) for row in rows] if any(name in row for row in rows) else None

    ats = [(now + row["deliver_in"]) / 1000 if "deliver_in" in row and "delay" not in row else None for row in rows]
    return Outgoing(
        [b"v" * row["size"] for row in rows],
        keys=column("key"),
        headers=[{"number": str(next(numbers))} for _ in rows],
        priorities=[row.get("priority", 5) for row in rows] if any("priority" in row for row in rows) else None,
        delays=column("delay"),
        deliver_ats=ats if any(ats) else None,
        ttls=column("ttl"),
        dedup_ids=column("dedup_id"),
        partitions=column("partition"),
    )


# -- what the engine holds, and what the model says it should


def feed_state(feed: Feed) -> dict[str, Any]:
    states = {state: list(offsets_in_state(feed, state)) for state in STATES}
    check_feed(feed, states)
    check_strip(feed)
    for offset in range(feed.partition.start, feed.partition.end):
        listed = [state for state, offsets in states.items() if offset in offsets]
        assert [state for state in [state_of(feed, offset)] if state] == listed, f"of {offset}: {states}"
    return {
        **{state: offsets for state, offsets in states.items() if offsets},
        "failures": {offset: (failure.attempts, failure.first) for offset, failure in sorted(feed.failures.items())},
        "skipped": feed.skipped,
        "backlog": feed.backlog(),
    }


def check_strip(feed: Feed) -> None:
    """Each message by itself has the state in the strip that it has; and wider buckets have the sums of those."""
    start, end = feed.partition.start, feed.partition.settled_end
    alone, wide = strip_feed(feed, max(1, end - start)), strip_feed(feed, 3)
    gone = feed.partition.gone_for(feed.group)
    for offset in range(start, end):
        state = state_of(feed, offset) or ("gone" if offset in gone else "delayed")
        found = {name: getattr(alone, name)[offset - start] for name in (*STATES, "gone")}
        assert found == {name: int(name == state) for name in found}, f"of {offset}"
    for name in (*STATES, "gone"):
        each = getattr(alone, name)
        sums = [sum(each[at : at + wide.width]) for at in range(0, len(each), wide.width)]
        assert getattr(wide, name) == sums
    assert len(wide.ready) <= 3


def check_feed(feed: Feed, states: dict[MessageState, list[int]]) -> None:
    """Each message is in exactly one state, and the open ones are all accounted for."""
    listed = [offset for offsets in states.values() for offset in offsets]
    assert len(listed) == len(set(listed)), f"in two states at once: {states}"
    pending = {offset for state in ("ready", "delayed", "leased", "blocked") for offset in states[state]}
    assert set(feed.open) <= pending
    assert all(offset >= feed.cursor for offset in pending - set(feed.open))


def group_state(group: EngineGroup) -> dict[str, Any]:
    leases = {
        lease.id: {
            "consumer": lease.consumer,
            "until": lease.until if lease.held else None,
            "held": sorted((partition, offset) for partition, held in lease.held.items() for offset in held),
            "acked": sorted((partition, offset) for partition, acked in lease.acked.items() for offset in acked),
        }
        for lease in [*group.leases.values(), *group.settled]
    }
    info = group_info(group)
    return {
        "id": group.id,
        "ephemeral": group.ephemeral,
        "paused": group.paused,
        "leases": leases,
        "feeds": [feed_state(feed) for feed in group.feeds.looks()],
        "info": (info.backlog, info.leased, info.dead),
    }


def counters_of(engine: Engine) -> Counters:
    counters = engine.state.past_counters()
    for topic in engine.state.topics.values():
        counters.add(topic.counters)
    return counters


def staged_in(state: State) -> set[str]:
    """Where something is staged; and all of it together is what its topics have."""
    found = {topic.namespace for transaction in state.transactions.values() for topic in transaction.whole}
    for name in found:
        assert state.staged.of(name) == sum(state.staged.topics(name).values())
    for transaction in state.transactions.values():
        for topic, size in transaction.bytes.items():
            known = state.names.get(topic)
            assert size == transaction.bytes_left(topic, None if known is None else known.id)
    return found


def engine_state(engine: Engine, now: int) -> dict[str, Any]:
    state = engine.state
    return {
        "epoch": state.epoch,
        "number": state.number,
        "leases": state.lease_number,
        "counters": msgspec.structs.asdict(counters_of(engine)),
        "transactions": {
            name: (transaction.until, transaction.count, transaction.batches, {part for part, _ in transaction.shares})
            for name, transaction in state.transactions.items()
        },
        "staged": {topic: size for name in staged_in(state) for topic, size in state.staged.topics(name).items()},
        "ended": state.ended,
        "namespaces": state.namespaces,
        "topics": {
            str(topic.name): {
                "id": topic.id,
                "config": topic.config,
                "depth": topic.depth(),
                "messages": topic.messages(),
                "window": (topic.window_since, topic.window_count),
                "dedup": {
                    dedup_name(topic, dedup_id): (known[0], found)
                    for dedup_id, known in topic.dedup.seen.items()
                    if (found := topic.dedup.find(dedup_id, now, topic.dedup_window_ms))
                },
                "partitions": [
                    {
                        "start": partition.start,
                        "archived": partition.archived,
                        "end": partition.end,
                        "delayed": list(partition.delayed),
                        "windowed": partition.windowed,
                        "empty": partition.bytes_held == 0 or partition.start < partition.end,
                    }
                    for partition in topic.partitions
                ],
                "groups": {group.name: group_state(group) for group in topic.groups.values()},
            }
            for topic in state.topics.values()
        },
    }


def staged_in_model(model: Model) -> dict[TopicName, int]:
    found: dict[TopicName, int] = {}
    for transaction in model.transactions.values():
        shares = {(part, publish.topic) for part, publish in transaction.staged}
        for topic, size in [
            *((publish.topic, size_of(publish.batch)) for _, publish in transaction.staged),
            *((topic, share_bytes(part)) for part, topic in shares),
        ]:
            found[topic] = found.get(topic, 0) + size
    return found


def model_state(model: Model, now: int) -> dict[str, Any]:
    return {
        "epoch": model.epoch,
        "number": model.number,
        "leases": model.lease_number,
        "counters": msgspec.structs.asdict(model.counters),
        "transactions": {
            name: (transaction.until, transaction.count(), len(transaction.staged), set(transaction.parts))
            for name, transaction in model.transactions.items()
        },
        "staged": staged_in_model(model),
        "ended": model.ended,
        "namespaces": {} if model.quota is None else {DEFAULT_NAMESPACE: model.quota},
        "topics": {str(topic.name): topic_model_state(topic, now) for topic in model.topics.values()},
    }


def dedup_name(topic: EngineTopic, name: str) -> tuple[str, int]:
    """The id, and the hash of the key that it is of."""
    if topic.config.dedup_scope != "key":
        return name, 0
    dedup_id, _, digits = name.rpartition("\x1f")
    return dedup_id, int(digits, 16)


def topic_model_state(topic: Topic, now: int) -> dict[str, Any]:
    return {
        "id": topic.id,
        "config": topic.config,
        "depth": topic.depth(),
        "messages": topic.kept(),
        "window": (topic.window_since, topic.window_count),
        "dedup": {
            (dedup_id, key_hash(key) if key is not None else 0): known
            for (dedup_id, key), known in topic.live_dedup(now).items()
        },
        "partitions": [
            {
                "start": partition.start,
                "archived": partition.archived,
                "end": partition.end,
                "delayed": [offset for offset, message in sorted(partition.messages.items()) if message.delayed],
                "windowed": partition.windowed,
                "empty": True,
            }
            for partition in topic.partitions
        ],
        "groups": {group.name: group_model_state(topic, group) for group in topic.groups.values()},
    }


def group_model_state(topic: Topic, group: Group) -> dict[str, Any]:
    deliveries = group.deliveries.values()
    return {
        "id": group.id,
        "ephemeral": group.ephemeral,
        "paused": group.paused,
        "leases": {
            lease.id: {
                "consumer": lease.consumer,
                "until": lease.until if lease.held else None,
                "held": sorted(lease.held),
                "acked": sorted(lease.acked),
            }
            for lease in group.leases.values()
            if lease.held or lease.acked
        },
        "feeds": [feed_model_state(topic, group, partition.index) for partition in topic.partitions],
        "info": (
            group.backlog(),
            sum(delivery.state == "leased" for delivery in deliveries),
            sum(delivery.state == DEAD for delivery in deliveries),
        ),
    }


def feed_model_state(topic: Topic, group: Group, partition: int) -> dict[str, Any]:
    deliveries = group.in_partition(partition)
    found: dict[str, Any] = {}
    for delivery in deliveries:
        state = topic.state_of(group, delivery)
        if state is not None:
            found.setdefault(state, []).append(delivery.message.offset)
    return {
        **found,
        "failures": {d.message.offset: (d.failures, d.first) for d in deliveries if d.failures},
        "skipped": group.skipped_in.get(partition, 0),
        "backlog": sum(delivery.state in ("pending", "leased", "retrying") for delivery in deliveries),
    }


def differences(found: Any, wanted: Any, path: str = "") -> list[str]:
    if found == wanted:
        return []
    if isinstance(found, dict) and isinstance(wanted, dict):
        return [
            line
            for key in sorted({*found, *wanted}, key=str)
            for line in differences(found.get(key), wanted.get(key), f"{path}/{key}")
        ]
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted) and "feeds" in path[-6:]:
        return [
            line
            for index, (one, other) in enumerate(zip(found, wanted, strict=True))
            for line in differences(one, other, f"{path}/{index}")
        ]
    return [f"{path}: {found} instead of {wanted}"]


def check_ownership(engine: Engine, now: int) -> None:
    """In FIFO order each partition has one owner, shares are fair, and what moves does so within a second."""
    for topic, group in engine.state.groups():
        members = group.look_at_members()
        if not topic.config.is_fifo:
            continue
        for partition in range(len(group.feeds)):
            holders = {lease.id for lease in group.leases.values() if partition in lease.held}
            assert len(holders) <= 1, f"partition {partition} is leased to several"
        assert set(members.owners.values()) <= set(members.alive_until) | {
            members.owners[partition] for partition in members.moving
        }
        assert all(now < deadline <= now + limits.REVOKE_GRACE_MS for deadline in members.moving.values())
        if members.target:
            shares = [list(members.target.values()).count(member) for member in set(members.target.values())]
            assert max(shares) - min(shares) <= 1
            assert set(members.target.values()) <= set(members.alive_until)
        if len(members.target) == len(group.feeds):  # else it grew, and is shared out at the next lease
            assert len(set(members.target.values())) == min(len(members.alive_until), len(group.feeds))


def check_keys(model: Model) -> None:
    """A key never has messages under two leases."""
    for topic, group in model.groups():
        owners: dict[tuple[int, str], int] = {}
        for lease in group.live_leases():
            for place in lease.held:
                key = group.deliveries[place].message.key
                if topic.config.ordering == "key" and key is not None:
                    assert owners.setdefault((place[0], key), lease.id) == lease.id


class EngineMachine(RuleBasedStateMachine):
    main = "k"  # the name of the main topic, which tells its order
    always: Sequence[dict[str, Any]] = ()  # features that the main topic begins with, whatever is drawn

    def __init__(self) -> None:
        super().__init__()
        self.now = BEGINNING
        self.engine = Engine()
        self.model = Model(self.now)
        self.records: list[r.Record] = []  # as a store gives them back
        self.copies: dict[MessageRef, r.Origin] = {}
        self.staged: dict[Name, list[r.Staged]] = {}
        self.slices: list[tuple[list[c.Publish], Appended]] = []  # of the last commit
        self.receipts: list[c.Run] = []
        self.lazy = False
        self.numbers = count()
        self.sequence = 0
        self.answered: list[tuple[c.Once, Any]] = []  # the last that were numbered, and what was answered
        self.turn = 0
        self.broken = False
        self.log([self.engine.open(self.now)])

    @initialize(
        chosen=features,
        first=batches,
        second=batches,
        lazy=st.booleans(),
        secret=st.booleans(),
        shared=st.booleans(),
    )
    def begin_with_topics(
        self,
        chosen: list[dict[str, Any]],
        first: list[dict[str, Any]],
        second: list[dict[str, Any]],
        lazy: bool,
        secret: bool,
        shared: bool,
    ) -> None:
        """Two topics, which may share their dead letters; those of one may be secret."""
        self.lazy = lazy
        for name, laid in (
            (MAIN, [*chosen, *self.always, *([{"dlq_topic": "graves"}] if shared else [])]),
            ("other", [{"labels": {"task": "t"}, "dlq_topic": "graves", "encrypted": secret}]),
        ):
            config = merged(ORDERS.get(self.topic(name).name, "key"), laid)
            self.do(c.CreateTopic(self.topic(name), config), lambda m, cmd, _: m.create_topic(cmd))
        self.publish(MAIN, first)
        self.publish(MAIN, second)

    # -- running a step

    def log(self, records: list[r.Record]) -> None:
        data = r.encode_records(records)
        decoded = r.decode_records(data)
        assert r.encode_records(decoded) == data
        for record in records:
            self.engine.apply(record)
        for record in records:
            self.engine.confirm(record)
            if isinstance(record, r.Published) and record.origins:
                for offset, origin in enumerate(record.origins, record.base):
                    self.copies[MessageRef(record.topic, record.partition, offset)] = origin
            if isinstance(record, r.TransactionBegan):
                self.staged[record.namespace, record.transaction] = []
            elif isinstance(record, r.Staged):
                self.staged[record.namespace, record.transaction].append(record)
        self.records.extend(decoded)

    def replayed(self) -> Engine:
        engine = Engine()
        for record in self.records:
            engine.apply(record)
            engine.confirm(record)
        return engine

    def do(self, command: Any, expected: Callable[[Model, Any, Any], Any], compare: bool = True) -> Any:
        """Lets due work happen, then runs the command on both sides."""
        self.broken = True  # until the end of the step
        self.do_due()
        decision: Decision | None = None
        refused: type[OrtooError] | None = None
        sent = self.numbered(command)
        if self.model.quota is not None:
            state = self.replayed().state
            self.model.stored = count_stored(state, DEFAULT_NAMESPACE) + state.staged.of(DEFAULT_NAMESPACE)
        try:
            decision = self.decide(sent)
        except OrtooError as error:
            refused = type(error)
        if decision is not None:
            self.log(decision.records)
            self.publish_staged()
            self.send_again(sent, decision)
        reply: Any = None
        wrong: type[OrtooError] | None = None
        try:
            reply = expected(self.model, command, decision)
        except OrtooError as error:
            wrong = type(error)
        assert refused is wrong, f"{command}: {refused} instead of {wrong}"
        if decision is not None and wrong is None and compare:
            assert decision.reply == reply, f"{command}: {decision.reply} instead of {reply}"
        self.check()
        return decision.reply if decision is not None else None

    def decide(self, command: Any) -> Decision:
        """Deciding changes nothing that a record would have to tell, and nothing that it would decide by itself. Every other
        time: else little would be lazy any more."""
        if self.turn % 2:
            return self.engine.decide(command, self.now)
        before = meaning(self.engine.snapshot())
        try:
            decision = self.engine.decide(command, self.now)
            again = self.engine.decide(command, self.now)
            assert (again.records, again.reply) == (decision.records, decision.reply), command
        finally:
            assert meaning(self.engine.snapshot()) == before, command
        return decision

    def numbered(self, command: Any) -> Any:
        """Every other command that may be sent again."""
        self.sequence += 1
        if isinstance(command, c.Lease) or self.sequence % 2:
            return command
        done_below = self.answered[-1][0].sequence if self.answered else self.sequence
        return c.Once("producer", self.sequence, done_below, command)

    def send_again(self, sent: Any, decision: Decision) -> None:
        """What happened does not happen again, and is answered the same, live and after a restart."""
        if not isinstance(sent, c.Once) or not decision.records:
            return
        self.answered = [*self.answered[-1:], (sent, decision.reply)]
        for engine in (self.engine, self.replayed()):
            for earlier, reply in self.answered:
                again = engine.decide(earlier, self.now)
                assert (again.records, again.reply) == ([], reply), earlier

    def do_due(self) -> None:
        alarms = self.engine.state.soft.alarms
        while (when := alarms.next()) is not None and when <= self.now:
            alarm = alarms.heap[0][3]
            records = self.engine.tick(self.now)
            assert records is not None
            assert self.engine.suspended() == []
            self.log(records)
            self.model_due(alarm, records)
        assert self.engine.tick(self.now) is None
        assert (overdue := self.model.overdue(self.now)) == [], overdue

    def model_due(self, alarm: a.Alarm, records: list[r.Record]) -> None:
        model, now = self.model, self.now
        match alarm:
            case a.LeasesRunOut():
                buried = dict.fromkeys(record.topic for record in records if isinstance(record, r.DeadLettered))
                return model.leases_due(now, list(buried))
            case a.TransactionsTimeOut():
                return model.transactions_due(now)
            case a.SharedIdsOutdated():  # ids that nobody finds any more are forgotten, a few at a time
                assert records == []
                return None
        assert isinstance(alarm, a.TopicAlarm)
        topic = model.by_id(alarm.topic)
        if topic is None:
            return None
        match alarm:
            case a.RetentionDue():
                return self.model_retention(topic, records)
            case a.DelaysDue() | a.ExpiriesDue() if not records:
                return None  # after what has to happen before; that it did not at all would be found out
            case a.DelaysDue():
                return model.delays_due(topic, alarm.partition, now)
            case a.ExpiriesDue():
                return model.expiries_due(topic, alarm.partition, now)
            case a.WindowCloses():
                return model.window_due(topic, now)
            case a.LatestDue():
                return model.latest_due(topic, alarm.partition)
        group = next((group for group in topic.groups.values() if group.id == alarm.group), None)
        if group is None:
            return None
        if isinstance(alarm, a.PauseEnds):
            return model.pause_due(group, now)
        if isinstance(alarm, a.RetriesDue):
            return model.retries_due(group, alarm.partition, now)
        given_up = (r.Released, r.Dropped, r.DeadLettered)
        revoked = [record.partition for record in records if isinstance(record, given_up)]
        return model.members_due(topic, group, revoked, now)

    def model_retention(self, topic: Topic, records: list[r.Record]) -> None:
        """Age must trim exactly; bytes and being done may trim more, if they are set and may."""
        trims = {(record.topic, record.partition): record.start for record in records if isinstance(record, r.Trimmed)}
        removals = {(one.topic, one.partition): list(one.offsets) for one in records if isinstance(one, r.Deleted)}
        told: dict[tuple[int, int, int], list[int]] = {}
        for record in records:
            if isinstance(record, r.Skipped):
                told.setdefault((record.topic, record.group, record.partition), []).extend(record.offsets)
        skips: dict[tuple[int, int, int], list[int]] = {}
        cut = [
            message for partition in topic.partitions for message in partition.cut
        ]  # how much of an instant is left is unknown
        held = sum(message.size for message in [*topic.messages(), *cut])
        crowded = held > (topic.config.retention_bytes or 1 << 60)
        for partition in topic.partitions:
            start = trims.get((topic.id, partition.index), partition.start)
            by_age = self.model.too_old(topic, partition.index, self.now)
            # What lay behind a message that came due later counts as due with it, also when that one is trimmed early.
            assert start >= by_age or topic.is_trimmed_early, f"{topic.name} {partition.index} keeps what is too old"
            topic.is_trimmed_early |= start > by_age
            if topic.config.retention_waits_for_archive and start > partition.start:
                assert start <= partition.archived, "trimmed what the archive does not have"
            if start > by_age:
                superseded = all(one.deleted for offset, one in partition.messages.items() if offset < start)
                may = crowded or superseded or self.may_be_done(topic, partition.index, start)
                assert may, "trimmed without a reason"
            lost = self.model.trim(topic, partition.index, start)
            removed = removals.get((topic.id, partition.index), [])
            allowed = self.model.old_empties(topic, partition.index, self.now)
            assert set(removed) <= set(allowed), "removed without a reason"
            assert removed == allowed or topic.is_trimmed_early or start < partition.end, "keeps what deleted its key"
            for group, offsets in self.model.remove_empties(topic, partition.index, removed).items():
                lost.setdefault(group, []).extend(offsets)
            for group, offsets in lost.items():
                skips[topic.id, group, partition.index] = offsets
        assert told == skips

    def may_be_done(self, topic: Topic, partition: int, start: int) -> bool:
        seconds = topic.config.retention_done_seconds
        durable = [group for group in topic.groups.values() if not group.ephemeral]
        if seconds is None or not durable:
            return False
        gone = [message for offset, message in topic.partitions[partition].messages.items() if offset < start]
        return all(
            not message.delayed
            and message.time <= self.now - seconds * 1000
            and all(group.deliveries[message.place].state in ("done", "dead", "gone") for group in durable)
            for message in gone
        )

    def check(self) -> None:
        self.turn += 1
        self.broken = True
        wrong = differences(engine_state(self.replayed(), self.now), model_state(self.model, self.now))
        assert not wrong, "replayed: " + "; ".join(wrong)
        assert self.copies == self.model.copies
        if not self.lazy:
            self.check_live()
        for topic, group in self.engine.state.groups():
            members = self.model.topics[topic.name].groups[group.name].alive
            assert group.look_at_members().alive_until == members, f"members of {group.name} in {topic.name}"
        check_keys(self.model)
        check_ownership(self.engine, self.now)
        self.broken = False

    def check_live(self) -> None:
        self.engine.next_deadline()  # now and then it clears away what is out of date
        for _, group in self.engine.state.groups():
            group.look_at_members().owned("x")  # remembered until it changes
        self.engine.snapshot()  # packs what it dumps
        self.look_at_all()  # unpacks what it looks at
        before = pickle.dumps(self.engine.state)
        self.look_at_all()
        assert pickle.dumps(self.engine.state) == before, "looking has changed something"

    def look_at_all(self) -> None:
        self.engine.next_deadline()
        self.engine.problems()
        self.engine.snapshot()
        wrong = differences(engine_state(self.engine, self.now), model_state(self.model, self.now))
        assert not wrong, "live: " + "; ".join(wrong)

    def teardown(self) -> None:
        if not self.broken:
            self.check_live()

    # -- picking from what there is

    def topic(self, name: str) -> TopicName:
        return TopicName(DEFAULT_NAMESPACE, name.replace(MAIN, self.main))

    def outgoing(self, rows: list[dict[str, Any]]) -> Outgoing:
        if {"keep": "latest"} in self.always:
            rows = [{"key": "k3"} | row for row in rows]
        return outgoing(rows, self.now, self.numbers)

    def position(self, position: c.Position) -> c.Position:
        if position.time is None:
            return position
        return c.Position(time=(self.now - int(position.time)) / 1000)

    def ref(self, index: int) -> MessageRef:
        """Mostly of the main topic, the leased ones first."""
        found = [
            (
                topic.name.name != self.main,
                (partition.index, offset) not in held,
                MessageRef(topic.id, partition.index, offset),
            )
            for topic in self.model.topics.values()
            for held in [
                {place for group in topic.groups.values() for lease in group.live_leases() for place in lease.held}
            ]
            for partition in topic.partitions
            for offset in range(partition.end)
        ]
        return sorted(found)[index % len(found)][2] if found else MessageRef(TopicId(999), 0, index)

    def runs(self, picked: list[tuple[int, int, bool]]) -> list[c.Run]:
        """Parts of earlier deliveries: mostly of those that are still held."""
        live = {lease.id for _, group in self.model.groups() for lease in group.live_leases()}
        found: list[c.Run] = []
        for index, mask, through in picked:
            held = [run for run in self.receipts if run.lease in live]
            choice = held if held and index < 4 else self.receipts
            run = choice[-1 - index % len(choice)]
            if index < 4 and any((other.lease, other.partition) == (run.lease, run.partition) for other in found):
                continue  # refused; seldom is often enough
            offsets = [offset for bit, offset in enumerate(run.offsets) if mask >> bit % 4 & 1] or run.offsets[:1]
            found.append(msgspec.structs.replace(run, offsets=offsets, through=through and mask > 7))
        return found

    # -- time

    @rule(ms=st.sampled_from([1, 400, 1_000, 2_500, 6_000]))
    def wait_a_little(self, ms: int) -> None:
        """As a broker does: each deadline is met on time."""
        until = self.now + ms
        while (deadline := self.engine.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.do_due()
        self.now = until
        self.do_due()
        self.check()

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(ms=st.sampled_from([1_000, 10_000, 30_000, 3_600_000, 8 * DAY]))
    def sleep(self, ms: int) -> None:
        """Everything is due at once."""
        self.now += ms
        self.do_due()
        self.check()

    @precondition(lambda self: self.turn % 3 == 0)
    @rule()
    def restart(self) -> None:
        self.engine = self.replayed()
        self.model.restart(self.now)
        self.log([self.engine.open(self.now)])
        self.do_due()
        self.check()

    @precondition(lambda self: self.turn % 3 == 0)
    @rule()
    def look(self) -> None:
        self.check_live()

    # -- topics and groups

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics, chosen=features, exist_ok=st.booleans())
    def create_topic(self, topic: str, chosen: list[dict[str, Any]], exist_ok: bool) -> None:
        config = merged(ORDERS.get(self.topic(topic).name, "key"), chosen)
        self.do(c.CreateTopic(self.topic(topic), config, exist_ok), lambda m, cmd, _: m.create_topic(cmd))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics, chosen=features)
    def change_topic(self, topic: str, chosen: list[dict[str, Any]]) -> None:
        found = self.model.topics.get(self.topic(topic))
        config = merged(found.config.ordering, chosen, found.config) if found else TopicConfig()
        changes = msgspec.structs.asdict(config)
        self.do(c.ChangeTopic(self.topic(topic), changes), lambda m, cmd, _: m.change_topic(cmd, self.now))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics, sure=st.integers(0, 3))
    def delete_topic(self, topic: str, sure: int) -> None:
        if not sure:
            self.do(c.DeleteTopic(self.topic(topic)), lambda m, cmd, _: m.delete_topic(cmd))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics)
    def purge_topic(self, topic: str) -> None:
        self.do(c.PurgeTopic(self.topic(topic)), lambda m, cmd, _: m.purge_topic(cmd))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics, ends=st.dictionaries(st.integers(0, 3), st.integers(-1, 9), max_size=3))
    def mark_archived(self, topic: str, ends: dict[int, int]) -> None:
        self.do(c.MarkArchived(self.topic(topic), ends), lambda m, cmd, _: m.mark_archived(cmd))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics, group=groups, start=positions, ephemeral=st.booleans())
    def create_group(self, topic: str, group: str, start: c.Position, ephemeral: bool) -> None:
        command = c.CreateGroup(self.topic(topic), group, self.position(start), ephemeral)
        self.do(command, lambda m, cmd, _: m.create_group(cmd, self.now))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics, group=groups)
    def delete_group(self, topic: str, group: str) -> None:
        self.do(c.DeleteGroup(self.topic(topic), group), lambda m, cmd, _: m.delete_group(cmd))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics, group=groups, start=positions, until=st.none() | positions)
    def seek(self, topic: str, group: str, start: c.Position, until: c.Position | None) -> None:
        self.go_to(topic, group, start, until)

    def go_to(self, topic: str, group: str, start: c.Position, until: c.Position | None) -> None:
        bound = self.position(until) if until else None
        self.do(c.Seek(self.topic(topic), group, self.position(start), bound), lambda m, cmd, _: m.seek(cmd))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics, group=groups, for_ms=st.none() | st.integers(1, 20_000), reason=st.none() | st.just("why"))
    def pause_group(self, topic: str, group: str, for_ms: int | None, reason: str | None) -> None:
        command = c.PauseGroup(self.topic(topic), group, for_ms, reason)
        self.do(command, lambda m, cmd, _: m.pause(cmd, self.now))

    @rule(topic=topics, group=groups)
    def resume_group(self, topic: str, group: str) -> None:
        self.do(c.ResumeGroup(self.topic(topic), group), lambda m, cmd, _: m.resume(cmd))

    # -- publishing

    def publish(self, topic: str, rows: list[dict[str, Any]]) -> None:
        def expected(model: Model, command: c.Publish, decision: Decision | None) -> Placed:
            return model.publish(command, self.now, decision.reply if decision else None)

        self.do(c.Publish(self.topic(topic), self.outgoing(rows)), expected)

    @rule(topic=topics, rows=batches)
    def publish_some(self, topic: str, rows: list[dict[str, Any]]) -> None:
        self.publish(topic, rows)

    # -- leasing

    def take(self, command: c.Lease) -> None:
        def owned(topic: TopicId, group: GroupId, consumer: str) -> list[int]:
            return self.engine.state.topics[topic].groups[group].members.owned(consumer)

        def expected(model: Model, command: c.Lease, decision: Decision | None) -> None:
            model.lease(command, self.now, decision.reply if decision else None, owned)

        reply: LeaseTaken | None = self.do(command, expected, compare=False)
        for run in reply.taken if reply else []:
            self.receipts.append(c.Run(run.topic_id, run.group_id, run.lease, run.partition, run.offsets))

    @rule(
        topic=topics,
        group=groups,
        consumer=consumers,
        count=st.sampled_from([1, 2, 3, 10]),
    )
    def lease(self, topic: str, group: str, consumer: str, count: int) -> None:
        self.take(c.Lease(topic=self.topic(topic).name, group=group, consumer=consumer, max_messages=count))

    @rule(count=st.sampled_from([1, 2, 10]))
    def lease_main(self, count: int) -> None:
        self.take(c.Lease(topic=self.main, group="a", consumer="x", max_messages=count))

    @rule(count=st.sampled_from([2, 4]), lease_ms=st.sampled_from([300, 20_000]))
    def lease_main_for_long(self, count: int, lease_ms: int) -> None:
        self.take(c.Lease(topic=self.main, group="a", consumer="y", max_messages=count, lease_ms=lease_ms))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(
        topic=topics,
        group=groups,
        consumer=consumers,
        count=st.integers(1, 4),
        lease_ms=st.sampled_from([None, 300, 20_000]),
        wait_ms=st.sampled_from([0, 4_000]),
        partition=st.none() | st.integers(0, 2),
        key=st.sampled_from([None, "k1", "k2"]),
        start=positions,
    )
    def lease_oddly(
        self,
        topic: str,
        group: str,
        consumer: str,
        count: int,
        lease_ms: int | None,
        wait_ms: int,
        partition: int | None,
        key: str | None,
        start: c.Position,
    ) -> None:
        command = c.Lease(
            topic=self.topic(topic).name,
            group=group,
            consumer=consumer,
            max_messages=count,
            lease_ms=lease_ms,
            wait_ms=wait_ms,
            partition=partition,
            key=key,
            start=self.position(start),
        )
        self.take(command)

    @rule(topic=topics, group=groups, count=st.sampled_from([1, 3, 10]), keys_max=st.integers(1, 3))
    def lease_few_keys(self, topic: str, group: str, count: int, keys_max: int) -> None:
        name = self.topic(topic).name
        self.take(c.Lease(topic=name, group=group, consumer="x", max_messages=count, keys_max=keys_max))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(
        group=groups,
        consumer=consumers,
        count=st.integers(1, 6),
        keys_max=st.sampled_from([None, None, 1, 2]),
    )
    def lease_by_labels(self, group: str, consumer: str, count: int, keys_max: int | None) -> None:
        labels = {"task": "t"}
        self.take(c.Lease(labels=labels, group=group, consumer=consumer, max_messages=count, keys_max=keys_max))

    # -- settling

    def settle(self, command: c.Settle) -> None:
        def expected(model: Model, command: c.Settle, _: Decision | None) -> Settled:
            return model.settle(command, self.now)

        self.do(command, expected)

    @precondition(lambda self: self.receipts)
    @rule(picked=picks)
    def ack(self, picked: list[tuple[int, int, bool]]) -> None:
        self.settle(c.Settle("ack", self.runs(picked)))

    @precondition(lambda self: self.receipts)
    @rule(
        picked=picks,
        outcome=st.sampled_from(["ack", "nack", "nack", "reject", "release"]),
        error=st.sampled_from([None, "boom"]),
        delay_ms=st.sampled_from([None, None, 0, 1_500]),
    )
    def settle_somehow(
        self, picked: list[tuple[int, int, bool]], outcome: c.Outcome, error: str | None, delay_ms: int | None
    ) -> None:
        self.settle(c.Settle(outcome, self.runs(picked), error, delay_ms))

    @precondition(lambda self: self.receipts)
    @rule(picked=picks, outcome=st.sampled_from(["nack", "release"]))
    def give_back(self, picked: list[tuple[int, int, bool]], outcome: c.Outcome) -> None:
        self.settle(c.Settle(outcome, self.runs(picked)))

    @precondition(lambda self: self.receipts and self.turn % 3 == 0)
    @rule(picked=picks, lease_ms=st.sampled_from([None, 500, 15_000]))
    def extend(self, picked: list[tuple[int, int, bool]], lease_ms: int | None) -> None:
        def expected(model: Model, command: c.Extend, _: Decision | None) -> Settled:
            return model.extend(command, self.now)

        self.do(c.Extend(self.runs(picked), lease_ms), expected)

    @precondition(lambda self: self.receipts)
    @rule(
        picked=picks,
        dedup_ids=st.lists(st.sampled_from(["d1", "d2", "d3"]), max_size=2),
        group=groups,
        outcome=st.sampled_from(["ack", "nack", "reject", "release", "extend"]),
        is_named=st.booleans(),
        is_held=st.booleans(),
    )
    def settle_by_id(
        self,
        picked: list[tuple[int, int, bool]],
        dedup_ids: list[str],
        group: str,
        outcome: Any,
        is_named: bool,
        is_held: bool,
    ) -> None:
        def expected(model: Model, command: c.ById, _: Decision | None) -> list[IdState]:
            return model.settle_by_id(command, self.now)

        runs = self.runs(picked)
        ids: list[c.MessageId] = [
            MessageRef(run.topic, run.partition, offset) for run in runs for offset in run.offsets
        ]
        lease = LeaseRef(runs[0].topic, runs[0].group, runs[0].lease) if runs and is_held else None
        topic = self.main if is_named else None
        if topic is not None:
            ids += dedup_ids
        if outcome == "extend":
            self.do(c.ExtendById(ids, group, topic=topic, lease_ms=3_000), expected)
        else:
            self.do(c.SettleById(outcome, ids, group, topic=topic, lease=lease), expected)

    # -- transactions

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(picked=st.none() | picks, publishes=st.lists(st.tuples(topics, batches), max_size=2))
    def transact(
        self, picked: list[tuple[int, int, bool]] | None, publishes: list[tuple[str, list[dict[str, Any]]]]
    ) -> None:
        acks = self.runs(picked) if picked and self.receipts else []
        sent = [c.Publish(self.topic(topic), self.outgoing(rows)) for topic, rows in publishes]

        def expected(model: Model, command: c.Transact, decision: Decision | None) -> list[Placed]:
            return model.transact(command, self.now, decision.reply if decision else None)

        self.do(c.Transact(acks, sent), expected)

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(name=st.sampled_from(["t1", "t2"]), timeout_ms=st.sampled_from([5_000, 3_600_000]))
    def begin(self, name: str, timeout_ms: int) -> None:
        self.do(c.Begin(name, timeout_ms=timeout_ms), lambda m, cmd, _: m.begin(cmd, self.now))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(name=st.sampled_from(["t1", "t2"]), part=st.sampled_from(["p1", "p2"]), topic=topics, rows=batches)
    def stage(self, name: str, part: str, topic: str, rows: list[dict[str, Any]]) -> None:
        command = c.Stage(name, part, c.Publish(self.topic(topic), self.outgoing(rows)))
        self.do(command, lambda m, cmd, _: m.stage(cmd))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(name=st.sampled_from(["t1", "t2"]), parts=st.sampled_from([None, None, ["p1"], ["p2", "p1"], []]))
    def commit(self, name: str, parts: list[str] | None) -> None:
        def expected(model: Model, command: c.Commit, decision: Decision | None) -> int:
            return model.commit(command, self.now, self.slices if decision else None)

        self.do(c.Commit(name, parts), expected)

    def publish_staged(self) -> None:
        """Finishes commits that have begun, in slices of three messages. Nothing of them can be seen before the end."""
        self.slices = []
        for name in self.engine.committing():
            while (transaction := self.engine.state.transactions.get(name)) is not None:
                assert transaction.commit is not None
                self.check_held(transaction.commit.firsts)
                ahead = self.staged[name][transaction.commit.number :]
                piece = take_slice(ahead, transaction.commit, 3, 1 << 30)
                records = self.engine.publish_staged(name, piece, self.now)
                self.log(records)
                self.slices.append((piece.publishes, self.appended(records)))
        assert self.engine.state.soft.ending == {}
        assert all(p.held is None for topic in self.engine.state.topics.values() for p in topic.partitions)

    def check_held(self, firsts: dict[tuple[TopicId, int], int]) -> None:
        for engine in (self.engine, self.replayed()):
            for (topic, partition), first in firsts.items():
                log = engine.state.topics[topic].partitions[partition]
                assert log.visible <= log.durable == log.settled_end == first < log.end

    def appended(self, records: list[r.Record]) -> Appended:
        """The partitions and rows that a slice appended, by topic: no reply tells."""
        names = {topic.id: topic.name for topic in self.engine.state.topics.values()}
        found: Appended = {}
        for record in records:
            if isinstance(record, r.Published):
                found.setdefault(names[record.topic], []).append((record.partition, record.batch))
        return found

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(name=st.sampled_from(["t1", "t2"]))
    def abort(self, name: str) -> None:
        self.do(c.Abort(name), lambda m, cmd, _: m.abort(cmd, self.now))

    # -- consumers

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(topic=topics, group=groups, consumer=consumers, session_ms=st.sampled_from([None, 3_000, 60_000]))
    def heartbeat(self, topic: str, group: str, consumer: str, session_ms: int | None) -> None:
        command = c.Heartbeat(self.topic(topic), group, consumer, session_ms)
        self.do(command, lambda m, cmd, _: m.heartbeat(cmd, self.now), compare=False)

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(consumer=consumers, topic=st.none() | topics, group=st.none() | groups)
    def leave(self, consumer: str, topic: str | None, group: str | None) -> None:
        self.do(
            c.Leave(consumer, self.topic(topic) if topic else None, group), lambda m, cmd, _: m.leave(cmd, self.now)
        )

    # -- single messages

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(index=indexes)
    def delete_message(self, index: int) -> None:
        self.do(c.DeleteMessage(self.ref(index)), lambda m, cmd, _: m.delete_message(cmd))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(index=indexes, group=st.none() | groups)
    def retry_now(self, index: int, group: str | None) -> None:
        self.do(c.RetryNow(self.ref(index), group), lambda m, cmd, _: m.retry_now(cmd, self.now))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(index=indexes, group=st.none() | groups)
    def dead_letter(self, index: int, group: str | None) -> None:
        command = c.DeadLetter(self.ref(index), group, "moved by hand")
        self.do(command, lambda m, cmd, _: m.dead_letter(cmd, self.now))

    @precondition(lambda self: self.copies)
    @rule(index=indexes, key=st.sampled_from([None, "k1", "k2"]))
    def redrive(self, index: int, key: str | None) -> None:
        copy = list(self.copies)[index % len(self.copies)]
        origin = self.copies[copy]
        self.do(c.Redrive(copy, origin.message, origin.group, key), lambda m, cmd, _: m.redrive(cmd, self.now))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule(copy=indexes, origin=indexes, beyond=st.integers(0, 3), group=groups)
    def redrive_what_was_forged(self, copy: int, origin: int, beyond: int, group: str) -> None:
        """A dead letter's headers may say anything."""
        ref = self.ref(origin)
        ref = ref._replace(offset=ref.offset + beyond)
        if ref != self.ref(copy):
            self.do(c.Redrive(self.ref(copy), ref, group), lambda m, cmd, _: m.redrive(cmd, self.now))


class NoOrder(EngineMachine):
    main = "n"


class KeyOrder(EngineMachine):
    main = "k"


class PartitionOrder(EngineMachine):
    main = "p"


class StrictOrder(EngineMachine):
    main = "s"


class Latest(EngineMachine):
    """The main topic keeps the latest message of each key, mostly."""

    always = ({"keep": "latest"},)


class LatestInPartitions(Latest):
    main = "p"


class LatestWithoutOrder(Latest):
    main = "n"


class Limited(EngineMachine):
    """What the namespace may hold is bounded, now and then."""

    main = "k"

    @precondition(lambda self: self.turn % 2 == 0)
    @rule(quota=st.sampled_from(LIMITS))
    def set_quota(self, quota: Quota) -> None:
        self.do(c.SetNamespace(DEFAULT_NAMESPACE, quota), lambda m, cmd, _: m.set_namespace(cmd))

    @precondition(lambda self: self.turn % 3 == 0)
    @rule()
    def delete_namespace(self) -> None:
        self.do(c.DeleteNamespace(DEFAULT_NAMESPACE), lambda m, cmd, _: m.delete_namespace())


class Windowed(EngineMachine):
    """What waits in a window is asked for by name, and gone past and come back to, again and again."""

    main = "k"
    always = ({"window_seconds": 20.0, "window_count": 6, "partitions": 1},)

    @rule(group=groups, start=positions, until=st.none() | positions)
    def seek_main(self, group: str, start: c.Position, until: c.Position | None) -> None:
        self.go_to(MAIN, group, start, until)

    @rule(index=indexes)
    def ask_for_one(self, index: int) -> None:
        self.do(c.RetryNow(self.ref(index), "a"), lambda m, cmd, _: m.retry_now(cmd, self.now))


every_order = pytest.mark.parametrize(
    "machine", [NoOrder, KeyOrder, PartitionOrder, StrictOrder, Latest, LatestInPartitions, LatestWithoutOrder]
)
soak = pytest.mark.soak
endless = pytest.mark.timeout(0)  # a soak is long, and a failure takes long to shrink
shrinks = pytest.mark.timeout(1800)


def run_briefly(machine: type[EngineMachine]) -> None:
    """The same examples every time; the soaks below look for others."""
    run_machine(machine, examples=25, steps=50, derandomize=True)


def run_for_long(machine: type[EngineMachine]) -> None:
    run_machine(machine, examples=3_000, steps=80, derandomize=False)


@pytest.fixture
def dead_letters_find_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sizes are estimated, so they are let through: how they wait for room is in test_dead_letter_quotas.py."""
    monkeypatch.setattr(Draft, "room_for_copies", lambda *_: None)
    monkeypatch.setattr(Draft, "may_create_dlq", lambda *_: True)
    for check in ("check_copies", "check_dlq"):
        monkeypatch.setattr(Draft, check, lambda *_: None)


@pytest.fixture
def leases_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seek leaves the sorting to them."""
    monkeypatch.setattr(limits, "SORTED_AT_ONCE", 0)


@every_order
@shrinks
def test_the_engine_does_what_the_model_says(machine: type[EngineMachine]) -> None:
    run_briefly(machine)


@shrinks
@pytest.mark.usefixtures("dead_letters_find_room")
def test_it_does_so_where_the_namespace_has_a_quota() -> None:
    run_briefly(Limited)


@shrinks
def test_it_does_so_where_messages_wait_in_a_window() -> None:
    run_briefly(Windowed)


@shrinks
@pytest.mark.usefixtures("leases_sort")
def test_it_does_so_where_a_seek_leaves_the_sorting_to_leases() -> None:
    run_briefly(KeyOrder)


@every_order
@soak
@endless
def test_the_engine_does_what_the_model_says_for_long(machine: type[EngineMachine]) -> None:
    run_for_long(machine)


@soak
@endless
@pytest.mark.usefixtures("dead_letters_find_room")
def test_it_does_so_for_long_where_the_namespace_has_a_quota() -> None:
    run_for_long(Limited)


@soak
@endless
def test_it_does_so_for_long_where_messages_wait_in_a_window() -> None:
    run_for_long(Windowed)


@soak
@endless
@pytest.mark.usefixtures("leases_sort")
def test_it_does_so_for_long_where_a_seek_leaves_the_sorting_to_leases() -> None:
    run_for_long(KeyOrder)
