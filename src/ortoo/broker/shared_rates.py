"""Keeps the rates of namespaces in step with those of other servers.

No publish waits for it. What was let through here is told together, every tenth of a second, and at once when it is a fiftieth
of a minute's quota; the answer is what all servers have left. So between two reports a server lets through what was left at the
last one: together, N servers can exceed a quota by (N - 1) times that. What is exceeded is owed, and the next minute has less.
"""

from __future__ import annotations

import asyncio

from ortoo.ports.rates import Rates, RateUse

from .throttle import Bucket, Throttle

REPORT_S, PAUSE_S = 0.1, 0.01
EARLY = 50  # a report comes early when this part of a quota was used
IDLE_PER_REPORT = 100  # namespaces that are looked at though nothing was published here, in turns


class SharedRates:
    def __init__(self, throttle: Throttle, rates: Rates) -> None:
        self._throttle = throttle
        self._rates = rates
        self._used: dict[Bucket, None] = {}
        self._idle: list[str] = []
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_alone = False  # each server counts for itself now

    def start(self) -> None:
        self._throttle.on_take = self._taken
        self._task = asyncio.create_task(self._run(), name="ortoo-shared-rates")

    async def stop(self) -> None:
        self._throttle.on_take = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _taken(self, bucket: Bucket) -> None:
        self._used[bucket] = None
        if bucket.unreported * EARLY >= bucket.limit:
            self._soon.set()

    async def _run(self) -> None:
        while True:
            await self.report()
            await asyncio.sleep(PAUSE_S)
            try:
                async with asyncio.timeout(REPORT_S):
                    await self._soon.wait()
            except TimeoutError:
                pass

    async def report(self) -> None:
        self._soon.clear()
        now = self._throttle.now()
        buckets = dict.fromkeys([*self._used, *self._next_idle(now)])
        self._used = {}
        if not buckets:
            return
        uses = [RateUse(*bucket.what, bucket.limit, bucket.unreported, bucket.left(now)) for bucket in buckets]
        left = await self._rates.report(uses)
        now = self._throttle.now()
        self.is_alone = left is None
        if left is None:
            for bucket in buckets:
                bucket.unheard(now)
                self._used[bucket] = None
            self._soon.clear()
            return
        for bucket, use, tokens in zip(buckets, uses, left, strict=True):
            bucket.reported(use.used, tokens, now)

    def _next_idle(self, now: int) -> list[Bucket]:
        if not self._idle:
            self._idle = self._throttle.namespaces()
        some, self._idle = self._idle[:IDLE_PER_REPORT], self._idle[IDLE_PER_REPORT:]
        return [bucket for namespace in some for bucket in self._throttle.buckets_of(namespace, now)]
