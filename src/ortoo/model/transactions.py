"""The records of named transactions: what happened to them, in the past tense. See records.py, which has the others."""

from __future__ import annotations

import msgspec

from .commands import Publish
from .names import TopicId


class TransactionBegan(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    namespace: str
    transaction: str
    until: int


class Staged(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    namespace: str
    transaction: str
    part: str
    publish: Publish  # a store keeps it until the transaction ends


class CommitBegan(msgspec.Struct, frozen=True, tag=True, gc=False):
    """From here on the transaction is certain to be committed; what was staged is published slice by slice."""

    at: int
    namespace: str
    transaction: str
    parts: list[str] | None  # what others staged is left out; None: nothing is
    topics: dict[int, int]  # where to, and how many messages


class CommitAdvanced(msgspec.Struct, frozen=True, tag=True, gc=False):
    """What follows it in its commit is the next slice of a transaction. It can be seen once the transaction has ended."""

    at: int
    namespace: str
    transaction: str
    number: int  # of the staged batch that comes next, in the order of staging
    row: int  # the first of its messages that is not published yet
    taken: dict[int, int]  # by topic, how many messages the slice stands for, duplicates included
    firsts: list[tuple[TopicId, int, int]]  # topic, partition and offset, where it is the first slice there


class TransactionEnded(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    namespace: str
    transaction: str
    committed: bool
