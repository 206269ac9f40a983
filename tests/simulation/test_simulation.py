"""The broker on a store that fails: nothing confirmed is lost, nothing comes from nowhere, order and attempts are kept."""

import pytest

from ortoo.testing.simulator import Simulation, simulate

ORDERS = ["none", "key", "partition", "strict"]


@pytest.mark.parametrize("ordering", ORDERS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_append_loses_nothing(ordering: str, when: str) -> None:
    """Every fifth, each order at others; `make soak` tries them all."""
    for number in range((ORDERS.index(ordering) + 2 * (when == "after")) % 5, 60, 5):
        crash_at(number, when, ordering)


def crash_at(number: int, when: str, ordering: str) -> None:
    verdict = simulate(seed=7, steps=60, crash=(number, when), ordering=ordering)
    assert verdict.delivered > 0


@pytest.mark.parametrize("block", range(4))
def test_random_faults_and_clock_jumps_lose_nothing(block: int) -> None:
    for seed in range(block * 6, block * 6 + 6):
        simulate(seed)


async def test_the_same_seed_gives_the_same_history() -> None:
    first, second = Simulation(11), Simulation(11)
    await first.run()
    await second.run()
    assert first.history == second.history


@pytest.mark.soak
@pytest.mark.parametrize("ordering", ORDERS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_every_append_loses_nothing(ordering: str, when: str) -> None:
    for number in range(60):
        crash_at(number, when, ordering)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_many_more_seeds(block: int) -> None:
    for seed in range(1_000 + block * 250, 1_000 + block * 250 + 250):
        simulate(seed, steps=250)
