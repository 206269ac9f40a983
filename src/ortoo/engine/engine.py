"""The engine's face: commands in, records and replies out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ortoo.model import commands as c
from ortoo.model import limits
from ortoo.model.names import TopicId, TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Deleted, Opened, Published, Record, Superseded, TransactionEnded
from ortoo.model.topic_defaults import NO_DEFAULTS, TopicDefaults

from . import admin, lease, messages, namespaces, pausing, publish, settle, settle_by_id, transactions
from .alarms import Alarm, LatestDue
from .copies import CopyRoom
from .decision import Decision, Draft
from .due import decide_due
from .once import decide_once, is_answered
from .partition import Partition
from .picker import Budget
from .quotas import note_stored
from .replay import apply
from .snapshot import Snapshot
from .state import State
from .topic import Topic
from .transaction import Name, Slice

_AGAIN_MS = 1_000  # before what went wrong for no single topic is tried again


class Engine:
    def __init__(
        self,
        auto_create: bool = True,
        copy_room: Callable[[], CopyRoom] = CopyRoom,
        shard: int | None = None,
        topic_defaults: TopicDefaults = NO_DEFAULTS,
    ) -> None:
        """`copy_room` tells how much dead letters may take now: only the broker knows what the store has room for."""
        self.state = State(auto_create, shard, topic_defaults)
        self._copy_room = copy_room
        self.failing: dict[
            Alarm, str
        ] = {}  # due work of no single topic that went wrong when it was last tried, and why
        self._snapshot: Snapshot | None = None  # that is being made

    def open(self, now: int, above: int = 0) -> Record:
        """The record that begins a new ownership. Apply and store it like any other, before the first command. `above`: an epoch
        of which leases are known, though the store may have forgotten it."""
        return Opened(max(now, self.state.now), max(self.state.epoch, above) + 1)

    def decide(self, command: c.Command, now: int) -> Decision:
        """What the command makes happen at `now`, or an OrtooError. Nothing has happened until the records are applied."""
        if type(command) is c.Once:
            return decide_once(self.state, command, now, self._decide_plain)
        return self._decide_plain(command, now)

    def _decide_plain(self, command: c.Command, now: int) -> Decision:
        if type(command) in _COPYING and getattr(command, "outcome", None) != "ack":
            self.state.soft.copy_room = self._copy_room()
        return _DECIDE[type(command)](self.state, command, now)

    def has_answer(self, command: c.Command) -> bool:
        """Whether it was decided before, so that nothing happens now."""
        return type(command) is c.Once and is_answered(self.state, command)

    def park(self, command: c.Lease) -> Callable[[int], None]:
        """The consumer of a lease that found nothing waits, which is a sign of life until what is returned is called."""
        return lease.park(self.state, command)

    def apply(self, record: Record) -> None:
        if self._snapshot is not None:
            self._snapshot.before(record)
        apply(self.state, record)

    def confirm(self, record: Record) -> None:
        """The record is durable: what it published may be leased, unless it is a transaction's that has not ended."""
        if type(record) is Published:
            topic = self.state.topics.get(record.topic)
            if topic is not None:
                partition = topic.partitions[record.partition]
                if record.base in partition.unsized:
                    note_stored(self.state, topic.name.namespace, record.size - partition.unsized[record.base])
                partition.confirm(record)
                self._note_durable(topic, partition)
        elif type(record) is TransactionEnded:
            places = self.state.soft.ending.pop((record.namespace, record.transaction), {})
            self.state.release(places)
            for place, index in places:
                topic = self.state.topics.get(place)
                if topic is not None and index < len(topic.partitions):
                    self._note_durable(topic, topic.partitions[index])
        elif type(record) is Superseded or type(record) is Deleted:
            self.state.soft.discards.add(self.state.topics.get(record.topic), record.partition, record.offsets)

    def _note_durable(self, topic: Topic, partition: Partition) -> None:
        if topic.latest is not None and topic.latest.looked.get(partition.index, 0) < partition.durable:
            self.state.soft.alarms.set(LatestDue(topic.id, partition.index), self.state.now)

    def take_discards(self) -> list[tuple[TopicId, int, OffsetSet]]:
        """Messages that are gone for good, durably, and that nobody holds: the store need not keep them."""
        return self.state.soft.discards.take()

    def snapshot(self) -> bytes:
        """The hard state, as bytes that a Restored record brings back."""
        return Snapshot(self.state).finish()

    @contextmanager
    def snapshotting(self) -> Iterator[Snapshot]:
        """The same, made little by little, while records are applied."""
        self._snapshot = Snapshot(self.state)
        try:
            yield self._snapshot
        finally:
            self._snapshot = None

    def is_due(self, now: int) -> bool:
        """Whether `tick` may have something to do. It is asked before every command."""
        heap = self.state.soft.alarms.heap
        return bool(heap) and heap[0][0] <= now

    def tick(self, now: int, budget: Budget | None = None) -> list[Record] | None:
        """What one due alarm makes happen; None when none is due any more. Apply the records before asking again.

        It does no more than the budget allows: where one alarm has more to do, it is due at once again.

        It never raises: nobody asked, so nobody could be told. A topic whose turn goes wrong is suspended.
        """
        alarm = self.state.soft.alarms.pop(now)
        if alarm is None:
            return None
        draft = Draft(self.state, now)
        try:
            draft.copy_room = self._copy_room()
            decide_due(draft, alarm, budget or Budget(limits.DUE_PER_TURN))
        except Exception as error:  # a mistake of ours; the other topics must go on
            reason = f"what became due could not be decided: {error!r}"
            if draft.topic is not None:
                self.suspend(draft.topic.id, reason)
                self.state.rearm_leases(now)
            else:
                self.failing[alarm] = reason
            self.state.soft.alarms.set(alarm, now + _AGAIN_MS)
            return []
        self.failing.pop(alarm, None)
        return draft.records

    def suspend(self, topic: TopicId, reason: str) -> None:
        """Nothing more is done with the topic in this opening. Soft: the next one tries again."""
        found = self.state.topics.get(topic)
        if found is not None:
            found.suspended = reason
            for partition in found.partitions:
                partition.quarantine_reason = partition.quarantine_reason or reason

    def suspended(self) -> list[tuple[TopicName, str]]:
        return [(topic.name, topic.suspended) for topic in self.state.topics.values() if topic.suspended is not None]

    def problems(self) -> list[str]:
        suspended = [
            f"topic {str(name)!r} is suspended until the queue is opened again: {reason}"
            for name, reason in self.suspended()
        ]
        return suspended + [f"{type(alarm).__name__}: {reason}" for alarm, reason in self.failing.items()]

    def committing(self) -> list[Name]:
        """Transactions whose commit has begun, and can go on."""
        open_ones = self.state.transactions.items()
        return [name for name, transaction in open_ones if transaction.commit and transaction.quarantine_reason is None]

    def publish_staged(self, name: Name, piece: Slice, now: int) -> list[Record]:
        """The next slice of such a transaction; with the last one it ends. Apply the records like any other."""
        return transactions.publish_staged(self.state, name, piece, now)

    def take_copied_bytes(self) -> int:
        """About what the copies take that were drafted since this was last asked, and whose values are not filled in yet."""
        copied, self.state.soft.copied_bytes = self.state.soft.copied_bytes, 0
        return copied

    def next_deadline(self) -> int | None:
        return self.state.soft.alarms.next()


_COPYING = (c.Settle, c.SettleById, c.DeadLetter, c.Redrive)  # commands that may make copies


_DECIDE: dict[type, Callable[[State, Any, int], Decision]] = {
    c.CreateTopic: admin.decide_create_topic,
    c.ChangeTopic: admin.decide_change_topic,
    c.DeleteTopic: admin.decide_delete_topic,
    c.PurgeTopic: admin.decide_purge_topic,
    c.MarkArchived: admin.decide_mark_archived,
    c.CreateGroup: admin.decide_create_group,
    c.DeleteGroup: admin.decide_delete_group,
    c.Seek: admin.decide_seek,
    c.PauseGroup: pausing.decide_pause,
    c.ResumeGroup: pausing.decide_resume,
    c.Publish: publish.decide_publish,
    c.Lease: lease.decide_lease,
    c.Settle: settle.decide_settle,
    c.Extend: settle.decide_extend,
    c.SettleById: settle_by_id.decide_settle_by_id,
    c.ExtendById: settle_by_id.decide_extend_by_id,
    c.Transact: transactions.decide_transact,
    c.Begin: transactions.decide_begin,
    c.Stage: transactions.decide_stage,
    c.Commit: transactions.decide_commit,
    c.Abort: transactions.decide_abort,
    c.Heartbeat: admin.decide_heartbeat,
    c.Leave: admin.decide_leave,
    c.DeleteMessage: messages.decide_delete_message,
    c.RetryNow: messages.decide_retry_now,
    c.DeadLetter: messages.decide_dead_letter,
    c.Redrive: messages.decide_redrive,
    c.SetNamespace: namespaces.decide_set_namespace,
    c.DeleteNamespace: namespaces.decide_delete_namespace,
}
