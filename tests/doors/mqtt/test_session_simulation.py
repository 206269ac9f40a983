"""Cuts, take-overs and restarts at any moment: QoS 1 loses nothing, QoS 2 doubles nothing, the order is kept.

A failure names its seed: `Simulation(seed).run()`. `pytest -m soak tests/doors/mqtt/test_session_simulation.py` tries many.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.doors.mqtt.simulator import Simulation


def check(seed: int) -> Simulation:
    simulation = Simulation(seed)
    simulation.run()
    assert simulation.judge() == [], f"seed {seed}"
    return simulation


@pytest.mark.parametrize("start", range(0, 240, 40))
def test_nothing_is_lost_or_doubled(start: int) -> None:
    runs = [check(seed) for seed in range(start, start + 40)]
    assert sum(run.restarts for run in runs) > 40  # there was something to survive
    assert sum(run.cuts for run in runs) > 100


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_in_many_runs() -> None:
    random = Random()
    for _ in range(5_000):
        check(random.randrange(10**9))
