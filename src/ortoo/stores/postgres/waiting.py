"""What the database does not have yet, and where it is: rows of messages, history, and what was staged. It is in the log in front
of the database, or held in memory for the buffer.

A place's newest rows wait, the older ones are in the database; nothing is ever in neither. Numbers, not objects: there may be
millions of commits.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from ortoo.model.names import TopicId

from .catalog import Place
from .commit_log import CommitLog, GoneError, unpack
from .rows import Row
from .writing import Commit, HistoryRow

READ_BYTES = 4 << 20
HISTORY_TOGETHER = 64
FORGOTTEN_TOGETHER = 2_000  # parts of commits that are forgotten in one turn


class _Run:
    """Of one place, ascending: where a commit's part of it begins, and which commit that is."""

    __slots__ = ("firsts", "highs", "lows", "numbers")

    def __init__(self) -> None:
        self.firsts: array[int] = array("Q")
        self.numbers: array[int] = array("Q")
        self.lows: array[int] = array("Q")  # of history: the offsets it speaks of
        self.highs: array[int] = array("Q")

    def drop(self, upto: int) -> None:
        gone = bisect_right(self.numbers, upto)
        for column in (self.firsts, self.numbers, self.lows, self.highs):
            del column[:gone]


class WaitingHistory(NamedTuple):
    """History that waits."""

    number: int  # of its first record
    commit: int


Runs = dict[Place, _Run]


class Waiting:
    def __init__(self, log: CommitLog | None) -> None:
        self._log = log
        self.held: dict[int, Commit] = {}  # in memory, by number, ascending
        self._logs: Runs = {}
        self._histories: Runs = {}
        self._noted: array[int] = array("Q")  # for each part of a commit, which one it is of
        self._places: list[tuple[bool, Place]] = []  # and where: whether it is history, and of what
        self._upto = 0  # commits up to this number are in the database
        self._last = 0

    def clear(self) -> None:
        self._logs, self._histories = {}, {}
        self._noted, self._places = array("Q"), []
        self._upto = self._last = 0

    def note(self, commit: Commit) -> None:
        """It is in the log, or held; perhaps it was before."""
        if commit.number <= self._last:
            return
        for row in commit.rows:
            run = self._at(self._logs, (TopicId(row.topic), row.partition))
            if not run.numbers or run.numbers[-1] != commit.number:
                run.firsts.append(row.base)
                run.numbers.append(commit.number)
                self._note(commit.number, False, (TopicId(row.topic), row.partition))
        for one in commit.histories:
            run = self._at(self._histories, (TopicId(one.topic), one.partition))
            run.firsts.append(one.number)
            run.numbers.append(commit.number)
            run.lows.append(one.first)
            run.highs.append(one.last)
            self._note(commit.number, True, (TopicId(one.topic), one.partition))
        if self._upto >= self._last:  # nothing else waits
            self._upto = commit.number - 1
        self._last = commit.number

    def _at(self, runs: Runs, place: Place) -> _Run:
        run = runs.get(place)
        if run is None:
            run = runs[place] = _Run()
        return run

    def _note(self, number: int, is_history: bool, place: Place) -> None:
        self._noted.append(number)
        self._places.append((is_history, place))

    def moved(self, upto: int) -> None:
        """The database has them now, so nobody is told of them any more."""
        self._upto = max(self._upto, upto)

    def forget(self) -> bool:
        """Some of what has moved, as much as one turn may do. Whether there is more."""
        gone = bisect_right(self._noted, self._upto)
        until = min(gone, FORGOTTEN_TOGETHER)
        for is_history, place in dict.fromkeys(self._places[:until]):
            self._run(self._histories if is_history else self._logs, place)
        del self._noted[:until], self._places[:until]
        return until < gone

    def _run(self, runs: Runs, place: Place) -> _Run | None:
        """What of it still waits."""
        run = runs.get(place)
        if run is None or not run.numbers:
            return None
        if run.numbers[0] <= self._upto:
            run.drop(self._upto)
            if not run.numbers:
                del runs[place]
                return None
        return run

    def has(self, number: int) -> bool:
        return self._upto < number <= self._last

    # -- messages

    def begin_of(self, place: Place) -> int | None:
        """The first offset of which the row waits."""
        run = self._run(self._logs, place)
        return None if run is None else run.firsts[0]

    async def rows(self, place: Place, offsets: Sequence[int]) -> list[Row]:
        """With the first of these offsets, which wait, and some that follow. GoneError when they do not wait any more."""
        run = self._run(self._logs, place)
        if run is None:
            raise GoneError
        first, last = (bisect_right(run.firsts, offset) - 1 for offset in (offsets[0], offsets[-1]))
        found = await self.commits(run.numbers[max(0, first) : last + 1].tolist())
        return [row for commit in found for row in commit.rows if (row.topic, row.partition) == place]

    async def commits(self, numbers: Sequence[int]) -> list[Commit]:
        """Some of the first of these. GoneError when the first one does not wait any more."""
        if found := [self.held[number] for number in takewhile(self.held.__contains__, numbers)]:
            return found
        if self._log is None:
            raise GoneError
        logged = list(takewhile(lambda number: number not in self.held, numbers))
        return [unpack(data) for data in await self._log.read(logged, READ_BYTES)]

    # -- history

    def happened(self, place: Place, start: int, offset: int | None = None) -> list[WaitingHistory]:
        """The first from the one with the record of that number on; or those from there on that speak of an offset."""
        run = self._run(self._histories, place)
        if run is None:
            return []
        begin = max(0, bisect_right(run.firsts, start) - 1) if offset is None else bisect_left(run.firsts, start)
        which = range(begin, len(run.firsts))
        chosen = (at for at in which if offset is None or run.lows[at] <= offset <= run.highs[at])
        return [WaitingHistory(run.firsts[at], run.numbers[at]) for at in islice(chosen, HISTORY_TOGETHER)]

    async def histories(self, place: Place, happened: Sequence[WaitingHistory]) -> list[HistoryRow]:
        """Some of the first of these. GoneError when they do not wait any more."""
        found = await self.commits([one.commit for one in happened])
        return [row for commit in found for row in commit.histories if (row.topic, row.partition) == place]
