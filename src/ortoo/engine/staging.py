"""Applying the records of named transactions. What was staged lies in the store; here it is only counted."""

from __future__ import annotations

from ortoo.model import records as r
from ortoo.model.names import TopicId

from .alarms import TransactionsTimeOut
from .state import State
from .transaction import Committing, Transaction


def transaction_began(state: State, record: r.TransactionBegan) -> None:
    state.transactions[record.namespace, record.transaction] = Transaction(record.until)
    state.soft.alarms.set(TransactionsTimeOut(), record.until)


def staged(state: State, record: r.Staged) -> None:
    transaction = state.transactions[record.namespace, record.transaction]
    transaction.stage(record.part, record.publish)
    state.count_staged(transaction, [record.publish.topic])


def commit_began(state: State, record: r.CommitBegan) -> None:
    topics = {TopicId(topic): count for topic, count in record.topics.items()}
    transaction = state.transactions[record.namespace, record.transaction]
    transaction.begin_commit(Committing(record.parts, topics))
    if record.parts is not None:  # what other parts have staged goes
        state.count_staged(transaction, transaction.whole)


def commit_advanced(state: State, record: r.CommitAdvanced) -> None:
    transaction = state.transactions[record.namespace, record.transaction]
    commit = transaction.commit
    assert commit is not None
    commit.number, commit.row = record.number, record.row
    for topic, count in record.taken.items():
        commit.topics[TopicId(topic)] -= count
    firsts = {(topic, partition): first for topic, partition, first in record.firsts}
    commit.firsts |= firsts
    state.hold(firsts.items())
    taken = [found.name for taken in record.taken if (found := state.topics.get(TopicId(taken))) is not None]
    state.count_staged(transaction, taken)  # it is counted where it is published now


def transaction_ended(state: State, record: r.TransactionEnded) -> None:
    transaction = state.transactions.pop((record.namespace, record.transaction), None)
    if transaction is not None:
        for name, size in transaction.bytes.items():
            state.staged.change(name, -size)
    if transaction is not None and transaction.commit is not None:
        state.soft.ending[record.namespace, record.transaction] = transaction.commit.firsts
    state.note_ended((record.namespace, record.transaction), record.at, record.committed)
