"""A link to all shards: what is asked goes to the broker of the shard that it is about.

With one store there is one broker, and `link` is that one: nothing stands between it and who asks. A shard whose store is away
refuses what is asked of it, and the others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ortoo.broker.broker import Broker
from ortoo.broker.heavy import units_of
from ortoo.broker.leasing import Accepted
from ortoo.broker.publishing import Check
from ortoo.broker.subscription import Subscription
from ortoo.broker.view import View
from ortoo.engine import Engine
from ortoo.model.commands import AnyCommand, Lease, Once, Publish, Transact
from ortoo.model.errors import ConfigError, OrtooError, UnavailableError
from ortoo.model.histogram import Histogram
from ortoo.model.names import TopicName
from ortoo.model.queries import Query
from ortoo.model.replies import LeasedRun, Placed

from . import asking, calling, labelled
from .brokers import ShardBrokers
from .identity import Identity, check_alone, check_place, check_set, write_set
from .sampled import Sampled, SampledShards

_PAUSE_S, _PAUSE_MAX_S = 0.5, 10.0  # between two tries to open a store that is away
_log = logging.getLogger("ortoo.shards")

A = TypeVar("A")
Opened = Callable[[Broker], Awaitable[None]]


async def _nothing(broker: Broker) -> None:
    pass


class Shards(ShardBrokers):
    def __init__(self, brokers: Sequence[Broker], stores: Sequence[str] = (), opened: Opened = _nothing) -> None:
        """`stores`: how each is called, for people. `opened` is awaited with each broker once it is open."""
        super().__init__(brokers, stores)
        self.link: Broker | Shards = self.first if len(self.brokers) == 1 else self
        self.meters, self.clock, self.line, self.now = (
            self.first.meters,
            self.first.clock,
            self.first.line,
            self.first.now,
        )
        self._sampled = SampledShards(self.brokers)
        self._opened = opened
        self._opening: list[asyncio.Task[None]] = []

    # -- opening and closing

    async def open(self) -> None:
        """All of them. One whose store is away is tried again and again, if the queue is not new and another one is there."""
        if len(self.brokers) == 1:
            await self._open_alone()
            return
        tried = await asyncio.gather(*(broker.open() for broker in self.brokers), return_exceptions=True)
        try:
            self._check_tried(tried)
            found = [
                None if shard in self.away else check_place(broker.state, shard, len(self.brokers), self.stores[shard])
                for shard, broker in enumerate(self.brokers)
            ]
            first = found[0]
            if self.away:
                self._check_present(found)
            else:
                check_set(found, self.stores)
                await write_set(self.brokers, found)
            for shard, broker in enumerate(self.brokers):
                if shard not in self.away:
                    await self._opened(broker)
        except BaseException:
            await self.close()
            raise
        queue = None if first is None else first.queue
        for shard in self.away:
            self._opening.append(asyncio.create_task(self._open_later(shard, queue), name=f"ortoo-shard-{shard}"))

    async def _open_alone(self) -> None:
        await self.first.open()
        try:
            check_alone(self.first.state)
            await self._opened(self.first)
        except BaseException:
            await self.first.close()
            raise

    def _check_tried(self, tried: list[BaseException | None]) -> None:
        errors = [error for error in tried if error is not None]
        for error in errors:
            if not isinstance(error, UnavailableError) or len(errors) == len(tried):
                raise error
        for shard, found in enumerate(tried):
            if isinstance(found, UnavailableError):
                self.away[shard] = found
                _log.error("a shard could not be opened", extra={"store": self.stores[shard], "error": str(found)})

    def _check_present(self, found: list[Identity | None]) -> None:
        """While some are away. The first knows whether all of them were there once, and has what the server keeps for itself."""
        if 0 in self.away or found[0] is None or not found[0].is_complete:
            raise next(iter(self.away.values()))  # a new queue needs all of its stores, and any queue the first
        check_set([found[0] if shard in self.away else one for shard, one in enumerate(found)], self.stores)

    async def _open_later(self, shard: int, queue: str | None) -> None:
        pause, broker = _PAUSE_S, self.brokers[shard]
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX_S)
            try:
                await broker.open()
                found = check_place(broker.state, shard, len(self.brokers), self.stores[shard])
                if found is None or found.queue != queue:
                    raise ConfigError(f"{self.stores[shard]} is not the store that this queue had as shard {shard}")
                await self._opened(broker)
            except Exception as error:  # it runs by itself
                if not isinstance(error, UnavailableError):
                    await broker.close()
                    _log.error("a shard is not opened", extra={"store": self.stores[shard], "error": str(error)})
                self.away[shard] = error if isinstance(error, OrtooError) else UnavailableError(repr(error))
            else:
                del self.away[shard]
                _log.info("a shard was opened", extra={"store": self.stores[shard]})
                return

    async def close(self, *, checkpoint: bool = True) -> None:
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        self._opening.clear()
        closed = await asyncio.gather(
            *(broker.close(checkpoint=checkpoint) for broker in self.brokers), return_exceptions=True
        )
        for error in closed:
            if error is not None:
                raise error

    def engine_for(self, command: AnyCommand) -> Engine:
        """Of the shard that decides it; of the first, where several do."""
        return self.brokers[calling.shard_for(self, command)].engine

    def weigh(self, request: Any) -> int:
        """What a heavy one costs, in units of the line."""
        return units_of(self.engine_for(request).state, request)

    # -- what is asked

    async def call(self, command: AnyCommand) -> Any:
        return await calling.call(self, command)

    async def transact_in_parts(self, command: Transact) -> list[Placed]:
        """All of it, shard by shard, each all or nothing: for who would rather have it done twice than not at all."""
        return await calling.transact_in_parts(self, command)

    async def publish(self, command: Publish | Once, wait_ms: int = 0, check: Check | None = None) -> Placed:
        plain = command.command if type(command) is Once else command
        assert isinstance(plain, Publish)
        calling.refuse_own(plain.topic)
        return await self.of(plain.topic).publish(command, wait_ms, check)

    async def lease(
        self,
        command: Lease,
        seconds: Histogram | None = None,
        check: Callable[[], None] | None = None,
        accepted: Accepted | None = None,
    ) -> list[LeasedRun]:
        if command.topic is not None:
            broker = self.of(TopicName(command.namespace, command.topic))
            return await broker.lease(command, seconds, check, accepted)
        return await labelled.lease(self.taking(), command, seconds, check, accepted)

    def subscribe(self, command: Lease, credit: int) -> Subscription:
        return Subscription(self, command, credit)

    async def ask(self, query: Query[A], view: View | None = None) -> A:
        found: A = await asking.ask(self, query, view)
        return found

    # -- how they do

    @property
    def sampled(self) -> Sampled | None:
        """None where nothing is sampled."""
        series = self.meters.series
        if series is None or len(self.brokers) > 1:
            return None if series is None else self._sampled
        return series.sampler
