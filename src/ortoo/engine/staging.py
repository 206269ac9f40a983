"""Applying the records of named transactions. What was staged lies in the store; here it is only counted."""

from __future__ import annotations

from ortoo.model import records as r
from ortoo.model.batch import size_of
from ortoo.model.names import TopicId

from .alarms import TransactionsTimeOut
from .quotas import note_freed, note_stored
from .state import State
from .transaction import Committing, Transaction


def transaction_began(state: State, record: r.TransactionBegan) -> None:
    state.transactions[record.namespace, record.transaction] = Transaction(record.until)
    state.soft.alarms.set(TransactionsTimeOut(), record.until)


def staged(state: State, record: r.Staged) -> None:
    state.transactions[record.namespace, record.transaction].stage(record.part, record.publish)
    if (namespace := record.publish.topic.namespace) in state.soft.stored:
        note_stored(state, namespace, size_of(record.publish.batch))


def commit_began(state: State, record: r.CommitBegan) -> None:
    topics = {TopicId(topic): count for topic, count in record.topics.items()}
    state.transactions[record.namespace, record.transaction].commit = Committing(record.parts, topics)
    note_freed(state)  # what other parts have staged goes


def commit_advanced(state: State, record: r.CommitAdvanced) -> None:
    commit = state.transactions[record.namespace, record.transaction].commit
    assert commit is not None
    commit.number, commit.row = record.number, record.row
    for topic, count in record.taken.items():
        commit.topics[TopicId(topic)] -= count
    firsts = {(topic, partition): first for topic, partition, first in record.firsts}
    commit.firsts |= firsts
    state.hold(firsts.items())
    note_freed(state)  # what was staged is counted where it is published now


def transaction_ended(state: State, record: r.TransactionEnded) -> None:
    transaction = state.transactions.pop((record.namespace, record.transaction), None)
    if transaction is not None and transaction.commit is not None:
        state.soft.ending[record.namespace, record.transaction] = transaction.commit.firsts
    state.note_ended((record.namespace, record.transaction), record.at, record.committed)
    note_freed(state)
