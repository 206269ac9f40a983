"""Administration that costs much more than a message: so much of it is begun in one turn of the event loop, for all connections
together. The rest waits its turn, first come first served, and those who publish and consume run in between."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from ortoo.engine.state import State
from ortoo.model import commands as c
from ortoo.model import limits

_UNITS = 2_000  # partitions, for each group that it is about: a few milliseconds
GROUP_UNITS = 40  # what one message costs that is retried or given up for a group


def _of_new(state: State, command: c.CreateTopic) -> int:
    return min(command.config.partitions, limits.PARTITIONS_MAX)


def _of_partitions(state: State, command: Any) -> int:
    topic = state.names.get(command.topic)
    return 0 if topic is None else len(topic.partitions)


def _of_groups(state: State, command: Any) -> int:
    topic = state.names.get(command.topic)
    return 0 if topic is None else len(topic.partitions) * (1 + len(topic.groups))


def _of_message(state: State, command: c.RetryNow | c.DeadLetter) -> int:
    """For all groups; the others follow in turns of their own."""
    topic = state.topics.get(command.message.topic)
    if topic is None or command.group is not None:
        return 0
    return GROUP_UNITS * min(len(topic.groups), limits.GROUPS_AT_ONCE)


_WEIGHED: dict[type, Callable[[State, Any], int]] = {
    c.CreateTopic: _of_new,
    c.ChangeTopic: _of_groups,
    c.DeleteTopic: _of_groups,
    c.PurgeTopic: _of_groups,
    c.MarkArchived: _of_partitions,
    c.CreateGroup: _of_partitions,
    c.DeleteGroup: _of_partitions,
    c.Seek: _of_partitions,
    c.RetryNow: _of_message,
    c.DeadLetter: _of_message,
}


def is_heavy(request: Any) -> bool:
    return type(request.command if type(request) is c.Once else request) in _WEIGHED


def units_of(state: State, request: Any) -> int:
    """What a heavy one costs. One about a topic that is not there is as good as any other request."""
    wanted = c.unwrap(request)
    return _WEIGHED[type(wanted)](state, wanted)


class Line:
    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._left = _UNITS
        self._is_due = False  # a new turn will come

    def enter(self, units: int, go: Callable[[], None]) -> None:
        """Calls `go` once it may, which may be now."""
        if self._waiting or self._left <= 0:
            self._waiting.append((units, go))
        else:
            self._go(units, go)

    async def turn(self, units: int) -> None:
        """The same for one who waits."""
        come = asyncio.Event()
        self.enter(units, come.set)
        await come.wait()

    def _go(self, units: int, go: Callable[[], None]) -> None:
        self._left -= units
        if units and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        go()

    def _begin_turn(self) -> None:
        self._is_due = False
        self._left = _UNITS
        while self._waiting and self._left > 0:
            self._go(*self._waiting.popleft())
