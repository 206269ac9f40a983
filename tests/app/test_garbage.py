"""In a server full collections visit only what was made since the last one, and what died meanwhile is found all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from ortoo.app import garbage
from ortoo.app.garbage import Collector


class Thing:
    itself: Thing


class Process:
    """One in which a collector runs, whose time and requests the test decides on."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.requests = 0
        self.collector = Collector(lambda: self.requests, lambda: self.seconds)

    def look(self, after: float, requests: int = 0) -> None:
        self.seconds += after
        self.requests += requests
        self.collector.look()

    def finds(self, gone: weakref.ref[Thing], after: float, requests: int = 0) -> bool:
        assert gone() is not None
        self.look(after, requests)
        return gone() is None


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    process = Process()
    process.collector.start()
    yield process
    await process.collector.stop()
    gc.collect()
    gc.freeze()  # as it was before: see ../conftest.py


def frozen_garbage() -> weakref.ref[Thing]:
    """A cycle that is frozen while it lives, and dead now."""
    thing = Thing()
    thing.itself = thing
    gc.collect()
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is not None
    return gone


async def test_what_survives_a_full_collection_is_not_visited_again(process: Process) -> None:
    things = [[Thing()] for _ in range(10_000)]
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() >= before + len(things)
    assert len(gc.get_objects(generation=2)) < 1_000


async def test_what_died_after_that_is_found_soon_where_it_is_quick(process: Process) -> None:
    gone = frozen_garbage()
    process.collector.pause = 0.0
    assert not process.finds(gone, after=599, requests=1)
    assert process.finds(gone, after=1, requests=1)


async def test_where_it_takes_long_it_waits_until_nobody_asks_for_anything(process: Process) -> None:
    gone = frozen_garbage()
    process.collector.pause = 1.0
    assert not process.finds(gone, after=600, requests=1)
    assert process.finds(gone, after=1)


async def test_but_not_for_ever(process: Process) -> None:
    gone = frozen_garbage()
    for _ in range(86_400 // 600 - 1):
        process.collector.pause = 1.0
        assert not process.finds(gone, after=600, requests=1)
    assert process.finds(gone, after=600, requests=1)


async def test_a_program_that_goes_on_without_a_server_has_the_usual_collector(process: Process) -> None:
    await process.collector.stop()
    assert garbage.freeze_survivors not in gc.callbacks
    assert gc.get_freeze_count() == 0
