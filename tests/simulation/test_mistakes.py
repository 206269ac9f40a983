"""Mistakes of ours in what nobody asked for: the topic concerned may be unavailable until the queue is opened again, nobody
else is told, and nothing is lost.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest

from ortoo.engine import due, replay
from ortoo.engine import engine as face
from ortoo.engine.decision import Draft
from ortoo.model.records import Record
from ortoo.testing.simulator import simulate
from ortoo.testing.worlds import DiskWorld, FaultyWorld, On


class Mistakes:
    """In any call that deciding or applying due work makes, now and then, until all is calm."""

    def __init__(self, seed: int) -> None:
        self.made = 0
        self._random = Random(seed)
        self._is_calm = False
        self._decided: Record | None = None  # what is applied next, if nobody asked for it

    def calm(self) -> None:
        self._is_calm = True

    def decide_due(self, draft: Draft, *rest: Any) -> None:
        self._perhaps(due.decide_due, draft, *rest)
        self._decided = next(iter(draft.records), None)

    def apply(self, state: Any, record: Record) -> None:
        if record is self._decided:
            self._perhaps(replay.apply, state, record)
        else:
            replay.apply(state, record)

    def _perhaps(self, work: Callable[..., None], *arguments: Any) -> None:
        if self._is_calm or self._random.random() > 0.05:
            work(*arguments)
            return
        left, traced = self._random.randrange(15), sys.gettrace()

        def count(frame: FrameType, _event: str, _argument: object) -> None:
            nonlocal left
            if (
                frame.f_code.co_flags & inspect.CO_GENERATOR
            ):  # perhaps it is thrown away: then nobody would hear of the mistake
                return
            left -= 1
            if left < 0:
                self.made += 1
                raise KeyError("a mistake")

        sys.settrace(count)
        try:
            work(*arguments)
        finally:
            sys.settrace(traced)


def run(seed: int, on: On) -> int:
    """How many mistakes were made."""
    mistakes = Mistakes(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(face, "decide_due", mistakes.decide_due)
        patch.setattr(face, "apply", mistakes.apply)
        for world in (FaultyWorld, DiskWorld):
            patch.setattr(world, "calm", calming(mistakes, world.calm))
        simulate(seed, on=on)
    return mistakes.made


def calming(mistakes: Mistakes, calm: Callable[[Any], None]) -> Callable[[Any], None]:
    def both(world: Any) -> None:
        mistakes.calm()
        calm(world)

    return both


@pytest.mark.parametrize("on", ["store", "disk"])
def test_a_mistake_in_what_is_due_loses_nothing(on: On, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="ortoo")
    assert sum(run(seed, on) for seed in range(10)) > 10


@pytest.mark.soak
@pytest.mark.parametrize("on", ["store", "disk"])
def test_nor_do_many_more(on: On, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="ortoo")
    for seed in range(1_000, 1_300):
        run(seed, on)
