"""The broker on a store that fails: nothing confirmed is lost, nothing comes from nowhere, order and attempts are kept."""

import pytest

from ortoo.testing.simulator import Simulation, simulate

ORDERS = ["none", "key", "partition", "strict"]


@pytest.mark.parametrize("ordering", ORDERS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_append_loses_nothing(ordering: str, when: str) -> None:
    """Before the even ones, after the odd ones; `make soak` tries many more moments."""
    for number in range(when == "after", 60, 2):
        verdict = simulate(seed=7, steps=60, crash=(number, when), ordering=ordering)
        assert verdict.delivered > 0


@pytest.mark.parametrize("block", range(4))
def test_random_faults_and_clock_jumps_lose_nothing(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        simulate(seed)


async def test_the_same_seed_gives_the_same_history() -> None:
    first, second = Simulation(11), Simulation(11)
    await first.run()
    await second.run()
    assert first.history == second.history


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_many_more_seeds(block: int) -> None:
    for seed in range(1_000 + block * 250, 1_000 + block * 250 + 250):
        simulate(seed, steps=250)
