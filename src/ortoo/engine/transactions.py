"""Deciding transactions: acks and publishes together, and named transactions that several connections fill."""

from __future__ import annotations

from ortoo.model import limits
from ortoo.model.batch import Outgoing, join, size_of
from ortoo.model.commands import Abort, Begin, Commit, Publish, Stage, Transact
from ortoo.model.errors import ExistsError, InvalidError, LeaseLostError, NotFoundError, TooManyError, UnavailableError
from ortoo.model.names import MessageRef, ReceiptRef, TopicName, check_name
from ortoo.model.publishers import Publishers, join_publishers
from ortoo.model.records import (
    CommitAdvanced,
    CommitBegan,
    Published,
    Record,
    Staged,
    TransactionBegan,
    TransactionEnded,
)
from ortoo.model.replies import Placed

from .decision import Decision, Draft
from .publish import check_dues, check_fits, check_lanes, check_share, place
from .quotas import check_stored
from .settle import ack, check_runs, find_held
from .state import State
from .transaction import Name, Slice, Transaction, share_bytes


def decide_transact(state: State, command: Transact, now: int) -> Decision:
    draft = Draft(state, now)
    check_runs(command.acks)
    for run in command.acks:
        held, lost = find_held(state, run)
        if lost:
            names = [str(ReceiptRef(run.topic, run.group, run.lease, run.partition, offset)) for offset in lost]
            raise LeaseLostError("a lease was lost, so nothing of the transaction happened", names)
        if held is not None:
            draft.records.append(ack(held, now))
            acked = draft.acked.setdefault(held.topic.id, {})
            acked[held.group.id] = acked.get(held.group.id, 0) + len(held.offsets)
    return Decision(draft.records, _publish_together(draft, command.publishes))


def _publish_together(draft: Draft, publishes: list[Publish]) -> list[Placed]:
    """One answer per publish, though publishes to one topic are placed as one batch."""
    by_topic: dict[TopicName, list[int]] = {}
    for index, publish in enumerate(publishes):
        by_topic.setdefault(publish.topic, []).append(index)
    replies: dict[int, Placed] = {}
    for name, indexes in by_topic.items():
        batches = [publishes[index].batch for index in indexes]
        publishers = _publishers([publishes[index] for index in indexes])
        topic, known = draft.topic_for_publishing(name), _known([publishes[index] for index in indexes])
        whole = place(draft, topic, join(batches), publishers, known=known)
        at = 0
        for index, batch in zip(indexes, batches, strict=True):
            upto = at + len(batch)
            duplicates = whole.duplicates[at:upto] if whole.duplicates else None
            topics = whole.topics[at:upto] if whole.topics else None
            replies[index] = Placed(whole.topic, whole.partitions[at:upto], whole.offsets[at:upto], duplicates, topics)
            at = upto
    return [replies[index] for index in range(len(publishes))]


def _known(publishes: list[Publish]) -> dict[int, MessageRef]:
    """By their rows in the batch that they make together."""
    known, at = {}, 0
    for publish in publishes:
        for row, ref in (publish.known or {}).items():
            known[at + row] = ref
        at += len(publish.batch)
    return known


def _publishers(publishes: list[Publish]) -> Publishers | None:
    return join_publishers([(publish.publisher, len(publish.batch)) for publish in publishes])


def decide_begin(state: State, command: Begin, now: int) -> Decision:
    name = (command.namespace, command.transaction)
    check_name("a transaction's name", command.transaction)
    check_name("a namespace", command.namespace)
    committed = _outcome(state, *name, now)
    if committed is not None:
        outcome = "committed" if committed else "aborted"
        raise ExistsError(f"transaction {command.transaction!r} was {outcome} already; begin one with another name")
    if not 1 <= command.timeout_ms <= limits.TRANSACTION_TIMEOUT_MS_MAX:
        raise InvalidError(f"a transaction may stay open for 1 to {limits.TRANSACTION_TIMEOUT_MS_MAX} ms")
    if name in state.transactions:
        return Decision([])
    if len(state.transactions) >= limits.TRANSACTIONS_OPEN_MAX:
        raise TooManyError(f"{limits.TRANSACTIONS_OPEN_MAX} transactions are open already; commit or abort some")
    if state.transactions.count(command.namespace) >= limits.NAMESPACE_TRANSACTIONS_OPEN_MAX:
        raise TooManyError(
            f"{limits.NAMESPACE_TRANSACTIONS_OPEN_MAX} transactions are open in namespace {command.namespace!r} already; "
            "commit or abort some"
        )
    until = now + command.timeout_ms
    return Decision([TransactionBegan(now, command.namespace, command.transaction, until)])


def _outcome(state: State, namespace: str, name: str, now: int) -> bool | None:
    """Whether a transaction was committed, or is certain to be; None when it is open, or ended too long ago."""
    transaction = state.transactions.get((namespace, name))
    if transaction is not None and transaction.commit is not None:
        return True
    at, committed = state.ended.get((namespace, name), (None, False))
    return None if at is None or now - at >= limits.TRANSACTION_REMEMBERED_MS else committed


def _open(state: State, namespace: str, name: str, now: int) -> Transaction:
    transaction = state.transactions.get((namespace, name))
    if transaction is None or transaction.commit is not None:
        committed = _outcome(state, namespace, name, now)
        fate = (
            "is not open; begin it first"
            if committed is None
            else "was committed"
            if committed
            else "was aborted or timed out"
        )
        raise NotFoundError(f"transaction {name!r} {fate}")
    return transaction


def decide_stage(state: State, command: Stage, now: int) -> Decision:
    transaction = _open(state, command.namespace, command.transaction, now)
    check_name("the part of a transaction", command.part)
    batch: Outgoing = command.publish.batch
    if transaction.count + len(batch) > limits.TRANSACTION_MESSAGES_MAX:
        raise TooManyError(f"a transaction holds at most {limits.TRANSACTION_MESSAGES_MAX} messages; use several")
    if transaction.size + size_of(batch) > limits.TRANSACTION_BYTES_MAX:
        raise TooManyError(f"a transaction holds at most {limits.TRANSACTION_BYTES_MAX} bytes; use several")
    share = transaction.shares.get((command.part, command.publish.topic))
    if share is None and len(transaction.shares) >= limits.TRANSACTION_SHARES_MAX:
        raise TooManyError(f"{limits.TRANSACTION_SHARES_MAX} parts and topics are in this transaction; use several")
    # A topic that is not there yet is made at the commit, or refused now if topics are not made by first use.
    topic = Draft(state, now).topic_for_publishing(command.publish.topic)
    check_fits(topic, batch, sum(map(len, batch.values)))
    check_dues(batch, now)
    if share is not None and batch.priorities is not None:
        check_lanes(topic, share.priorities.union(batch.priorities))
    kept = share_bytes(command.part) if share is None else 0
    check_stored(state, command.publish.topic.namespace, size_of(batch) + kept)
    record = Staged(now, command.namespace, command.transaction, command.part, command.publish)
    return Decision([record], transaction.count + len(batch))


def decide_commit(state: State, command: Commit, now: int) -> Decision:
    """Whatever could be refused is refused here. What was staged lies in the store, so it is published later, in slices."""
    if _outcome(state, command.namespace, command.transaction, now):
        return Decision([], 0)  # committing again changes nothing
    transaction = _open(state, command.namespace, command.transaction, now)
    if transaction.quarantine_reason is not None:
        raise UnavailableError(
            f"transaction {command.transaction!r} may hold messages that cannot be read now: {transaction.quarantine_reason}"
        )
    draft = Draft(state, now)
    topics: dict[int, int] = {}
    for name, share in transaction.chosen(command.parts).items():
        topic = draft.topic_for_publishing(name)
        check_share(state, topic, share)
        topics[topic.id] = share.count
    if topics:
        draft.records.append(CommitBegan(now, command.namespace, command.transaction, command.parts, topics))
    else:
        draft.records.append(TransactionEnded(now, command.namespace, command.transaction, committed=True))
    return Decision(draft.records, sum(topics.values()))


def publish_staged(state: State, name: Name, piece: Slice, now: int) -> list[Record]:
    """A slice of a transaction whose commit has begun; with the last one it ends, and all of it can be seen.

    What goes to a topic that was deleted or purged since the commit began is left out: that came after it.
    """
    transaction = state.transactions[name]
    commit = transaction.commit
    assert commit is not None
    draft = Draft(state, now)
    by_topic: dict[TopicName, list[Publish]] = {}
    for publish in piece.publishes:
        by_topic.setdefault(publish.topic, []).append(publish)
    taken: dict[int, int] = {}
    for topic_name, parts in by_topic.items():
        topic = state.names.get(topic_name)
        if topic is not None and topic.id in commit.topics:
            whole = join([part.batch for part in parts])
            taken[topic.id] = len(whole)
            place(draft, topic, whole, _publishers(parts), is_checked=True)
    firsts = {(one.topic, one.partition): one.base for one in draft.records if isinstance(one, Published)}
    new = [(*where, first) for where, first in firsts.items() if where not in commit.firsts]
    records: list[Record] = [CommitAdvanced(now, *name, piece.number, piece.row, taken, new), *draft.records]
    if piece.number >= transaction.batches:
        records.append(TransactionEnded(now, *name, committed=True))
    return records


def decide_abort(state: State, command: Abort, now: int) -> Decision:
    if _outcome(state, command.namespace, command.transaction, now) is False:
        return Decision([])
    _open(state, command.namespace, command.transaction, now)
    return Decision([TransactionEnded(now, command.namespace, command.transaction, committed=False)])
