"""The child processes of the live work: `python -m bench.live.part produce|consume CONTENDER ADDRESS`.

Each line "SIZE COUNT" that a child reads is a round: it connects, says that it is ready, begins when it reads another line,
and answers with its report. One process for all rounds, because starting Python takes longer than a short round.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from time import monotonic, process_time

import msgspec
import uvloop

from bench.loads import VALUE_BYTES, values

from .contender import Contender, Publish, Take
from .contenders import CONTENDERS


class Report(msgspec.Struct, frozen=True):
    began: float
    ended: float
    processor: float  # seconds


async def produce(contender: Contender, address: str, size: int, count: int) -> Report:
    values(0, size)  # made before the watch runs
    async with contender.publishing(address) as publish:
        await _ready()
        began, used = monotonic(), process_time()
        starts = iter(range(0, count, size))
        await asyncio.gather(*(_publish(publish, which, starts, size) for which in range(contender.producers)))
        return Report(began, monotonic(), process_time() - used)


async def _publish(publish: Publish, which: int, starts: Iterator[int], size: int) -> None:
    for start in starts:
        await publish(which, values(start, size))


async def consume(contender: Contender, address: str, size: int, count: int) -> Report:
    """It ends when the last message is acknowledged."""
    async with contender.taking(address) as take:
        await _ready()
        began, used = monotonic(), process_time()
        counter = _Counter(count)
        workers = [asyncio.create_task(_take(take, which, counter, size)) for which in range(contender.consumers)]
        await asyncio.wait([*workers, done := asyncio.create_task(counter.done.wait())], return_when="FIRST_COMPLETED")
        if not done.done():
            raise RuntimeError("a consumer failed") from next(w.exception() for w in workers if w.done())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        return Report(began, counter.ended, process_time() - used)


class _Counter:
    def __init__(self, left: int) -> None:
        self.left = left
        self.done = asyncio.Event()
        self.ended = 0.0

    def add(self, taken: list[bytes]) -> None:
        if sum(map(len, taken)) != len(taken) * VALUE_BYTES:
            raise RuntimeError("values came out that never went in")
        self.left -= len(taken)
        if self.left <= 0:
            self.ended = monotonic()
            self.done.set()


async def _take(take: Take, which: int, counter: _Counter, size: int) -> None:
    while counter.left > 0:
        taken = await take(which, size)
        if taken:
            counter.add(taken)
        else:
            await asyncio.sleep(0.001)


async def _ready() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def _rounds(doing: str, contender: Contender, address: str) -> None:
    work = produce if doing == "produce" else consume
    while line := await asyncio.to_thread(sys.stdin.readline):
        size, count = map(int, line.split())
        report = await work(contender, address, size, count)
        print(msgspec.json.encode(report).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(_rounds(sys.argv[1], CONTENDERS[sys.argv[2]], sys.argv[3]))
