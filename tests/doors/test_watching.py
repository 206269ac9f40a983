"""The watch sees what it is there to see."""

import asyncio
import threading
from time import thread_time

import pytest

from tests.doors.watching import Watch

MB = 1 << 20


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


async def test_memory_is_seen_at_its_peak() -> None:
    grown = 0
    for _ in range(5):  # the kernel counts pages in batches of its own
        async with Watch() as watch:
            taken = bytearray(64 * MB)
            taken[::4096] = bytes(len(taken) // 4096)
            del taken
        grown = max(grown, watch.grown)
    assert grown > 50 * MB


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
