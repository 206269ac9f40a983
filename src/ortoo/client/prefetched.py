"""What a stream has leased and not handed out yet."""

from __future__ import annotations

from typing import Protocol, TypeVar

from ortoo.model.message import LateAcks, Received, Settler
from ortoo.model.names import LeaseId
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import LeasedRun, filter_columns

from .lazy import Messages

T_co = TypeVar("T_co", covariant=True)

Deliveries = set[tuple[LeaseId, int, int]]  # lease, partition, offset


class Prefetched(Protocol[T_co]):
    def add(self, runs: list[LeasedRun]) -> None: ...

    def take(self) -> tuple[T_co, int]:
        """The next to hand out, and how many messages that is. There must be some."""

    def forget(self, gone: Deliveries) -> None:
        """Revoked: to hand them out would break the order of their key."""

    def rest(self) -> list[Received] | Messages: ...

    def __bool__(self) -> bool: ...


class OneByOne:
    def __init__(self, settler: Settler, late: LateAcks) -> None:
        self._settler = settler
        self._late = late
        self._messages: list[Received] = []  # the last is the next

    def add(self, runs: list[LeasedRun]) -> None:
        self._messages[:0] = reversed(Messages(runs, self._settler, self._late))

    def take(self) -> tuple[Received, int]:
        return self._messages.pop(), 1

    def forget(self, gone: Deliveries) -> None:
        forget(self._messages, gone)

    def rest(self) -> list[Received]:
        return self._messages

    def __bool__(self) -> bool:
        return bool(self._messages)


class InBatches:
    """Of up to so many messages each."""

    def __init__(self, settler: Settler, late: LateAcks, most: int) -> None:
        self._settler = settler
        self._late = late
        self._most = most
        self._runs: list[LeasedRun] = []  # the last is the next

    def add(self, runs: list[LeasedRun]) -> None:
        self._runs[:0] = [run for run in reversed(runs) if len(run.columns)]  # of some all may be gone by now

    def take(self) -> tuple[Messages, int]:
        taken: list[LeasedRun] = []
        room = self._most
        while self._runs and room > 0:
            run = self._runs.pop()
            if len(run.columns) > room:
                self._runs.append(LeasedRun(run.taken, run.columns.part(room, len(run.columns))))
                run = LeasedRun(run.taken, run.columns.part(0, room))
            room -= len(run.columns)
            taken.append(run)
        return self._messages(taken), self._most - room

    def forget(self, gone: Deliveries) -> None:
        kept = (LeasedRun(run.taken, filter_columns(run.columns, _of(run, gone))) for run in self._runs)
        self._runs = [run for run in kept if len(run.columns)]

    def rest(self) -> Messages:
        return self._messages(self._runs[::-1])

    def _messages(self, runs: list[LeasedRun]) -> Messages:
        return Messages(runs, self._settler, self._late)

    def __bool__(self) -> bool:
        return bool(self._runs)


def _of(run: LeasedRun, gone: Deliveries) -> OffsetSet:
    place = (run.taken.lease, run.taken.partition)
    return OffsetSet([offset for *where, offset in gone if tuple(where) == place])


def forget(messages: list[Received], gone: Deliveries) -> None:
    messages[:] = [m for m in messages if (m.delivery.lease, m.delivery.partition, m.offset) not in gone]
