"""Parked long polls: first come, first served, cancellable, and free while nothing happens.

Waiters stand in line per topic and group (or per namespace, when they lease by labels). When a topic stirs, the head of
each of its lines tries again, then the next, until one gets nothing; so one new message costs two tries, however many wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from ortoo.model import limits
from ortoo.model.commands import Lease
from ortoo.model.errors import OrtooError, TooManyError
from ortoo.model.names import TopicName
from ortoo.model.replies import LeaseTaken
from ortoo.ports import Clock

Line = tuple[str, str | None, str]  # namespace, topic or None for labels, group


class Waiter:
    __slots__ = ("command", "deadline", "future")

    def __init__(self, command: Lease, deadline: int, future: asyncio.Future[LeaseTaken]) -> None:
        self.command = command
        self.deadline = deadline
        self.future = future


class Waiters:
    def __init__(self) -> None:
        self._lines: dict[Line, dict[int, Waiter]] = {}  # in order of arrival
        self._deadlines: list[tuple[int, int, Line]] = []
        self._number = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, command: Lease, deadline: int, future: asyncio.Future[LeaseTaken]) -> Callable[[], None]:
        """Returns what takes the waiter out of its line again."""
        if self._count >= limits.WAITERS_MAX:
            raise TooManyError(
                f"{limits.WAITERS_MAX} consumers wait already; poll without wait, or use fewer consumers"
            )
        line = (command.namespace, command.topic, command.group)
        self._number += 1
        number = self._number
        self._lines.setdefault(line, {})[number] = Waiter(command, deadline, future)
        self._count += 1
        heappush(self._deadlines, (deadline, number, line))
        return lambda: self._remove(line, number)

    def _remove(self, line: Line, number: int) -> None:
        waiters = self._lines.get(line)
        if waiters is not None and waiters.pop(number, None) is not None:
            self._count -= 1
            if not waiters:
                del self._lines[line]
        if len(self._deadlines) > 64 and len(self._deadlines) > 4 * self._count:  # mostly of those that are gone
            live = {number for waiters in self._lines.values() for number in waiters}
            self._deadlines = sorted(entry for entry in self._deadlines if entry[1] in live)

    def next_deadline(self) -> int | None:
        while self._deadlines and self._deadlines[0][1] not in self._lines.get(self._deadlines[0][2], ()):
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def time_out(self, now: int) -> None:
        """Those whose wait is over get nothing."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, number, line = heappop(self._deadlines)
            waiter = self._lines[line][number]
            self._remove(line, number)
            if not waiter.future.done():
                waiter.future.set_result(LeaseTaken([]))

    def stir(self, topic: TopicName, attempt: Callable[[Lease], LeaseTaken], everyone: bool) -> None:
        """Messages of the topic may be deliverable. `attempt` leases; an error of its goes to the waiter.

        With `everyone`, one that gets nothing does not stop the line: in FIFO order each consumer owns other partitions.
        """
        for line in [line for line in self._lines if line[0] == topic.namespace and line[1] in (topic.name, None)]:
            for number, waiter in list(self._lines.get(line, {}).items()):
                if waiter.future.done():
                    self._remove(line, number)
                    continue
                try:
                    taken = attempt(waiter.command)
                except OrtooError as error:
                    waiter.future.set_exception(error)
                    self._remove(line, number)
                    continue
                if taken.taken:
                    waiter.future.set_result(taken)
                    self._remove(line, number)
                elif not everyone and not self._is_choosy(waiter.command):
                    break

    @staticmethod
    def _is_choosy(command: Lease) -> bool:
        """Whether the next in line may get something where this one got nothing."""
        return command.partition is not None or command.key is not None or command.labels is not None

    def all(self) -> Iterator[Waiter]:
        for waiters in list(self._lines.values()):
            yield from list(waiters.values())


class Rooms:
    """Producers that wait for room in a topic that is full."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[TopicName, list[asyncio.Future[None]]] = {}

    async def wait(self, topic: TopicName, deadline: int) -> None:
        """Until the topic stirs, or the deadline."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(topic, []).append(future)
        alarm = self._clock.call_at(deadline, lambda: let_go(future))
        try:
            await future
        finally:
            alarm.cancel()

    def look(self, topic: TopicName) -> None:
        for future in self._waiting.pop(topic, []):
            let_go(future)

    def look_all(self) -> None:
        for topic in list(self._waiting):
            self.look(topic)


def let_go(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
