"""The watch sees what it is there to see."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from time import thread_time

import pytest

from tests.doors.watching import Watch

MB = 1 << 20
ROOT = Path(__file__).parents[2]


def compute(seconds: float) -> None:
    until = thread_time() + seconds
    while thread_time() < until:
        pass


async def test_a_long_turn_is_seen() -> None:
    async with Watch() as watch:
        await asyncio.sleep(0)
        compute(0.1)
    assert watch.longest_turn >= 0.1


async def test_many_short_turns_are_not_a_long_one() -> None:
    async with Watch() as watch:
        for _ in range(50):
            compute(0.01)
            await asyncio.sleep(0.002)
    assert watch.longest_turn < 0.1


async def test_waiting_is_not_a_turn() -> None:
    async with Watch() as watch:
        await asyncio.sleep(0.2)
    assert watch.longest_turn < 0.1
    assert watch.longest_stall < 0.1


async def test_a_thread_that_keeps_the_interpreter_is_a_stall() -> None:
    numbers = list(range(4_000_000, 0, -1))
    numbers[::2] = range(2_000_000)
    async with Watch() as watch:
        await asyncio.to_thread(numbers.sort)  # one call into C, which does not let go of the interpreter
    assert watch.longest_stall > 0.05


def test_memory_is_seen_at_its_peak() -> None:
    """In a process of its own: one that was large before has room that it need not ask for."""
    program = (
        "from tests.doors.watching import Memory\n"
        "memory = Memory()\n"
        "taken = bytearray(64 << 20); taken[::4096] = bytes(len(taken) // 4096); del taken\n"
        "print(memory.grown)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 50 * MB


def test_a_loop_in_another_thread_can_be_watched() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        with Watch(loop) as watch:
            loop.call_soon_threadsafe(compute, 0.1)
        assert watch.longest_turn >= 0.1
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_watch_needs_a_loop() -> None:
    with pytest.raises(RuntimeError), Watch():
        pass
