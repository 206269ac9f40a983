"""The named transactions of a damaged directory: which are open and whole, which are lost, and how they are written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ortoo.engine.shares import Shares
from ortoo.engine.state import State
from ortoo.engine.transaction import Name, Transaction, namespace_of
from ortoo.model import records as r
from ortoo.stores.disk.checkpoint import Manifest
from ortoo.stores.disk.salvage import Salvage, SavedCommit
from ortoo.stores.disk.wal import Run

NEVER = 1 << 62

OfTransaction = r.TransactionBegan | r.Staged | r.CommitBegan | r.CommitAdvanced | r.TransactionEnded
OF_TRANSACTIONS = (r.TransactionBegan, r.Staged, r.CommitBegan, r.CommitAdvanced, r.TransactionEnded)


class Retold:
    def __init__(self, state: State, apply: Callable[[r.Record], None]) -> None:
        self._state = state
        self._apply = apply
        self._begun: dict[Name, int] = {}  # and the commit that began each
        self._logged: set[Name] = set()  # of them, those of which the write-ahead log has every commit
        self._told: set[Name] = set()  # those that no snapshot knows, but the write-ahead log
        self.lost: set[Name] = set()

    def start(self, manifest: Manifest, number: int, kept: list[Run]) -> None:
        """Of a checkpoint with commits up to that number, for which the write-ahead log still has those `kept`."""
        self._begun = {(namespace, name): begun for namespace, name, begun in manifest.transactions}
        self._logged = {
            name
            for name, begun in self._begun.items()
            if any(first <= begun and number <= last for first, last in kept)
        }

    def retell(self, record: OfTransaction, number: int) -> None:
        """Of a commit that the checkpoint contains: what was staged, and if there is no snapshot, the rest, too."""
        name = (record.namespace, record.transaction)
        if self._begun.get(name, NEVER) > number:
            return
        is_known = name in self._state.transactions
        if isinstance(record, r.TransactionBegan) and not is_known and name in self._logged:
            self._told.add(name)
            self._apply(record)
        elif is_known and (isinstance(record, r.Staged) or name in self._told):
            self._apply(record)

    def is_whole(self, record: OfTransaction, number: int) -> bool:
        """Whether the transaction is open, with all that was staged in it, or is no more."""
        name = (record.namespace, record.transaction)
        if isinstance(record, r.TransactionBegan):
            self._begun[name] = number
        elif isinstance(record, r.TransactionEnded):
            self._begun.pop(name, None)
        elif name not in self._state.transactions:
            self.lost.add(name)
            return False
        else:
            return True
        self.lost.discard(name)
        return True

    def lose(self, upto: int) -> None:
        """Of those that had begun by then something may be missing, so all of it goes; what is published stays."""
        for name in list(self._state.transactions):
            if self._begun.get(name, 0) <= upto:
                lost = self._state.transactions.pop(name)
                self.lost.add(name)
                if lost.commit is not None:
                    self._state.release(lost.commit.firsts)

    def note_missing(self) -> None:
        self.lost.update(self._begun.keys() - self._state.transactions.keys())

    def take(self, salvage: Salvage, after: int, kept: list[Run]) -> Iterator[list[r.Record]]:
        """Those that are open, as commits; the state has none then. What was staged may be too much to be held in memory, so
        it is read once more."""
        left, self._state.transactions = self._state.transactions, Shares(namespace_of)
        return self._commits(left, salvage, after, kept)

    def _commits(
        self, left: dict[Name, Transaction], salvage: Salvage, after: int, kept: list[Run]
    ) -> Iterator[list[r.Record]]:
        now = self._state.now
        yield from began(left, now)
        for told in salvage.commits(after, kept) if left else ():
            if isinstance(told, SavedCommit):
                yield [record for record in told.records if self._is_open(record, left, told.number)]
        yield from commits_began(left, now)

    def _is_open(self, record: r.Record, left: dict[Name, Transaction], number: int) -> bool:
        """Whether it was staged in one of those."""
        if not isinstance(record, r.Staged):
            return False
        name = (record.namespace, record.transaction)
        return name in left and self._begun[name] <= number


def began(open_ones: Mapping[Name, Transaction], now: int) -> Iterator[list[r.Record]]:
    """As commits: what was staged in them follows."""
    for name, transaction in open_ones.items():
        yield [r.TransactionBegan(now, *name, transaction.until)]


def commits_began(open_ones: Mapping[Name, Transaction], now: int) -> Iterator[list[r.Record]]:
    """As commits, behind what was staged: of those whose own commit has begun, how far it is."""
    for name, transaction in open_ones.items():
        if (commit := transaction.commit) is not None:
            parts = None if commit.parts is None else sorted(commit.parts)
            firsts = [(*place, first) for place, first in commit.firsts.items()]
            topics = {int(topic): left for topic, left in commit.topics.items()}
            advanced = r.CommitAdvanced(now, *name, commit.number, commit.row, {}, firsts)
            yield [r.CommitBegan(now, *name, parts, topics), advanced]
