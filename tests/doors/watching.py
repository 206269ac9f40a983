"""What serving costs everybody else: the longest turn of the event loop, and the memory that was taken meanwhile.

Time is CPU time, so that a busy machine changes nothing. A callback that comes back every millisecond reads two clocks. What
the loop's thread spent between two calls is the longest turn, give or take that millisecond. What the process spent is the
longest stall: a thread that computes without letting go of the interpreter stops the loop as well, and only that clock sees it.
A client in the same process is measured along with the server, so what it sends is best made beforehand. Whatever else is
given, by name, is read at the same time, and the most that was seen is kept.

    async with Watch(held=lambda: budget.bytes) as watch:
        ...
    assert watch.longest_turn < 0.05
    assert watch.peaks["held"] < 10 * MB
    assert watch.grown < 100 * MB

Even CPU time is longer on a machine that has a bad moment. What can be done again is therefore measured by `calmest`: such a
moment passes, and a turn that is truly long comes back.
"""

from __future__ import annotations

import asyncio
import gc
import math
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time, thread_time
from types import TracebackType

_TICK_SECONDS = 0.001


class Memory:
    """How much more memory a process had at its peak than when this began, in bytes. `pid` is this process when None."""

    def __init__(self, pid: int | None = None) -> None:
        self._process = Path("/proc") / ("self" if pid is None else str(pid))
        (self._process / "clear_refs").write_text("5")  # the peak begins anew
        self._before = self._read("VmRSS")

    def _read(self, name: str) -> int:
        """Kept by the kernel, in kB."""
        lines = (self._process / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024

    @property
    def grown(self) -> int:
        return self._read("VmHWM") - self._before

    @property
    def kept(self) -> int:
        """What is still taken."""
        return self._read("VmRSS") - self._before


class Turns:
    """Watches a loop, that of the caller or one that runs in another thread, from `begin` until `end`; in seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, **gauges: Callable[[], int]) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._gauges = gauges
        self.peaks = dict.fromkeys(gauges, 0)
        self._timer: asyncio.TimerHandle | None = None
        self._turned = self._spent = 0.0
        self.longest_turn = 0.0  # CPU time of the loop's thread
        self.longest_stall = 0.0  # CPU time of all threads of the process

    def begin(self) -> None:
        self._in_loop(self._begin)

    def end(self) -> None:
        self._in_loop(self._end)

    def _begin(self) -> None:
        self.longest_turn = self.longest_stall = 0.0
        self._turned, self._spent = thread_time(), process_time()
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)

    def _end(self) -> None:
        self._measure()
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._measure()
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)

    def _measure(self) -> None:
        turned, spent = thread_time(), process_time()
        self.longest_turn = max(self.longest_turn, turned - self._turned)
        self.longest_stall = max(self.longest_stall, spent - self._spent)
        for name, gauge in self._gauges.items():
            self.peaks[name] = max(self.peaks[name], gauge())
        self._turned, self._spent = turned, spent

    def _in_loop(self, work: Callable[[], None]) -> None:
        try:
            is_ours = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_ours = False
        if is_ours:
            work()
            return
        done = threading.Event()

        def work_then_tell() -> None:
            work()
            done.set()

        self._loop.call_soon_threadsafe(work_then_tell)
        assert done.wait(300), "the loop does not run, or has stood still for minutes"


class Watch:
    """Both, as a context, async or not. With `loop`, of a loop that runs in another thread of this process."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, **gauges: Callable[[], int]) -> None:
        self._given = loop
        self._gauges = gauges
        self.peaks: dict[str, int] = {}
        self._memory: Memory
        self._turns: Turns
        self.grown = 0  # bytes at the peak
        self.longest_turn = 0.0
        self.longest_stall = 0.0

    def __enter__(self) -> Watch:
        gc.collect()
        self._turns = Turns(self._given, **self._gauges)
        self._memory = Memory()
        self._turns.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns.end()
        self.longest_turn, self.longest_stall = self._turns.longest_turn, self._turns.longest_stall
        self.grown = self._memory.grown
        self.peaks = self._turns.peaks

    async def __aenter__(self) -> Watch:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        turn, stall = self.longest_turn * 1000, self.longest_stall * 1000
        return f"<longest turn {turn:.1f} ms, longest stall {stall:.1f} ms, {self.grown / (1 << 20):.1f} MiB more, {self.peaks}>"


async def calmest(measure: Callable[[], Awaitable[Watch]], *, turn: float = math.inf, stall: float = math.inf) -> Watch:
    """The first of three tries without a longer turn or stall, in seconds; the last, when all have one."""
    for _ in range(2):
        watch = await measure()
        if watch.longest_turn < turn and watch.longest_stall < stall:
            return watch
    return await measure()
