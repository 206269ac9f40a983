"""The load that `ortoo bench` makes: tasks that publish and tasks that lease and ack, in this process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, assert_never

import msgspec

if TYPE_CHECKING:
    from ortoo import Queue

Mode = Literal["publish", "consume", "live", "latency"]
Advance = Callable[[float], object]

GROUP = "bench"
_STAMP_BYTES = 8  # each value begins with the instant it was published, in nanoseconds
_IDLE_SECONDS = 1.0  # a consumer that gets nothing for so long has seen everything
_SAMPLES_MAX = 100_000  # latencies that one run remembers


class Plan(msgspec.Struct, frozen=True):
    topic: str
    messages: int
    size: int
    batch: int
    producers: int
    consumers: int
    seconds: float  # the longest that one mode may take
    start_at: float = 0.0  # so that several processes begin together


class Outcome(msgspec.Struct):
    """What one process did. Instants rather than durations, so that several processes can be added up."""

    messages: int = 0
    began: float = 0.0
    ended: float = 0.0
    confirm_ms: list[float] = []
    delivery_ms: list[float] = []


class Load:
    def __init__(self, queue: Queue, plan: Plan, advance: Advance = lambda count: None) -> None:
        self._queue = queue
        self._plan = plan
        self._advance = advance
        self._filler = os.urandom(max(plan.size - _STAMP_BYTES, 0))
        self._left = plan.messages
        self._publishing = 0
        self.outcome = Outcome(confirm_ms=[], delivery_ms=[])

    async def run(self, mode: Mode) -> Outcome:
        """Ends when all is done, or time is up: then it counts what was done."""
        await asyncio.sleep(max(self._plan.start_at - time.time(), 0.0))
        self.outcome.began = self.outcome.ended = time.time()
        try:
            async with asyncio.timeout(self._plan.seconds):
                await self._make(mode)
        except TimeoutError:
            pass
        return self.outcome

    async def _make(self, mode: Mode) -> None:
        match mode:
            case "publish":
                await self._publish()
            case "consume":
                await self._consume()
            case "live":
                await self._live()
            case "latency":
                await self._latency()
            case _:
                assert_never(mode)

    async def _publish(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._plan.producers):
                tasks.create_task(self._produce(count=True))

    async def _consume(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._plan.consumers):
                tasks.create_task(self._take())

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._plan.consumers):
                tasks.create_task(self._take(stamped=True))
            for _ in range(self._plan.producers):
                tasks.create_task(self._produce(count=False))

    async def _latency(self) -> None:
        """One message at a time, while a consumer waits for it."""
        arrived = asyncio.Event()
        taking = asyncio.create_task(self._take(stamped=True, arrived=arrived))
        try:
            for _ in range(self._plan.messages):
                arrived.clear()
                began = time.perf_counter()
                await self._queue.publish(self._plan.topic, self._value())
                self.outcome.confirm_ms.append((time.perf_counter() - began) * 1000)
                await arrived.wait()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    def _value(self) -> bytes:
        return time.time_ns().to_bytes(_STAMP_BYTES, "big") + self._filler

    async def _produce(self, count: bool) -> None:
        self._publishing += 1
        try:
            while self._left > 0:
                share = min(self._left, self._plan.batch)
                self._left -= share
                began = time.perf_counter()
                await self._queue.publish_many(self._plan.topic, [self._value()] * share)
                _remember(self.outcome.confirm_ms, (time.perf_counter() - began) * 1000)
                if count:
                    self._did(share)
        finally:
            self._publishing -= 1

    async def _take(self, stamped: bool = False, arrived: asyncio.Event | None = None) -> None:
        while self.outcome.messages < self._plan.messages:
            messages = await self._queue.lease(
                self._plan.topic, group=GROUP, max_messages=self._plan.batch, wait=_IDLE_SECONDS
            )
            if not messages and not self._publishing and arrived is None:
                return
            if stamped and messages:
                now = time.time_ns()
                for message in messages:
                    sent = int.from_bytes(message.value[:_STAMP_BYTES], "big")
                    _remember(self.outcome.delivery_ms, (now - sent) / 1e6)
            if messages:
                await self._queue.ack(messages)
                self._did(len(messages))
            if arrived is not None and messages:
                arrived.set()

    def _did(self, count: int) -> None:
        self.outcome.messages += count
        self.outcome.ended = time.time()
        self._advance(count)


def _remember(latencies: list[float], milliseconds: float) -> None:
    if len(latencies) < _SAMPLES_MAX:
        latencies.append(milliseconds)


def join(outcomes: list[Outcome]) -> Outcome:
    """Of several processes: from the first beginning to the last end."""
    return Outcome(
        sum(outcome.messages for outcome in outcomes),
        min(outcome.began for outcome in outcomes),
        max(outcome.ended for outcome in outcomes),
        [latency for outcome in outcomes for latency in outcome.confirm_ms],
        [latency for outcome in outcomes for latency in outcome.delivery_ms],
    )
