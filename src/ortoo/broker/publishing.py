"""Publishing that can wait for room in a full topic, in the order of those who came."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ortoo.engine import Engine
from ortoo.engine.topic import Topic
from ortoo.model.commands import Command, Once, Publish, unwrap
from ortoo.model.errors import FullError, OrtooError
from ortoo.model.names import TopicName
from ortoo.model.replies import Placed
from ortoo.ports import Clock

from .claiming import Claiming
from .waiters import CapacityWaiters

Check = Callable[[], None]


class Shell(Protocol):
    """What it needs of the broker."""

    clock: Clock

    def submit(self, command: Command) -> Any: ...

    async def flush(self) -> None: ...

    def find_topic(self, name: TopicName) -> Topic | None: ...


class Publishing:
    def __init__(self, shell: Shell, waiters: CapacityWaiters) -> None:
        self._shell = shell
        self._waiters = waiters
        self.claiming: Claiming | None = None  # where dedup ids are shared with other servers or shards

    def recovered(self, before: Engine, after: Engine) -> Engine:
        """Returns the second one."""
        if self.claiming is not None:
            self.claiming.recovered(before, after)
        return after

    async def publish(self, command: Publish | Once, wait_ms: int = 0, check: Check | None = None) -> Placed:
        """`check` raises when whoever has waited may not publish any more."""
        placed: Placed = await self.claimed(command, lambda claimed: self._publish(claimed, wait_ms, check))
        return placed

    async def claimed(self, command: Any, go: Callable[[Any], Awaitable[Any]]) -> Any:
        """Does `go` with the command, around which its dedup ids are claimed where they are shared."""
        return await (go(command) if self.claiming is None else self.claiming.run(command, go))

    async def _publish(self, command: Publish | Once, wait_ms: int, check: Check | None) -> Placed:
        wanted = unwrap(command)
        assert isinstance(wanted, Publish)
        place: tuple[int, int] | None = None  # in the line of those who wait for room, and until when
        while True:
            try:
                if place is not None and check is not None:
                    check()
                reply: Placed = self._shell.submit(command)
            except FullError:
                now = self._shell.clock.monotonic_ms()
                if place is not None and now >= place[1]:
                    self._waiters.notify(wanted.topic, 1)  # the next in line may want less
                place = place or (self._waiters.ticket(), now + wait_ms)
                if now >= place[1]:
                    raise
                await self._waiters.wait(wanted.topic, *place)
            except OrtooError:
                if place is not None:  # it does not take the room that it was woken for
                    self._waiters.notify(wanted.topic, 1)
                raise
            else:
                if reply.duplicates and (topic := self._shell.find_topic(wanted.topic)) is not None:
                    topic.counters.duplicates += sum(reply.duplicates)
                await self._shell.flush()
                return reply
