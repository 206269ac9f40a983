"""The disk store on a disk that fails: at every write, sync and rename; torn, reordered, full."""

from __future__ import annotations

import asyncio

import pytest

from ortoo.testing.simulator import Simulation, simulate
from ortoo.testing.worlds import DiskWorld

SEED, STEPS = 7, 40


def operations() -> int:
    """How many times the undisturbed run touches the disk."""
    simulation = Simulation(SEED, STEPS, crash=(-1, "before"), ordering="key", on="disk")
    asyncio.run(simulation.run())
    assert isinstance(simulation.world, DiskWorld)
    return simulation.world.operations


@pytest.mark.parametrize("when", ["before", "after", "full"])
def test_a_fault_at_any_operation_loses_nothing(when: str) -> None:
    """Every thirtieth of them, each kind at others; `make soak` has them all."""
    for number in range(10 * ["before", "after", "full"].index(when), operations(), 30):
        simulate(SEED, STEPS, crash=(number, when), ordering="key", on="disk")


@pytest.mark.parametrize("block", range(4))
def test_random_faults_of_the_disk_lose_nothing(block: int) -> None:
    for seed in range(100 + block * 3, 100 + block * 3 + 3):
        simulate(seed, on="disk")


@pytest.mark.parametrize("seed", [1015, 1016])
def test_a_disk_that_is_filled_up_by_large_batches_beside_open_transactions_heals(seed: int) -> None:
    simulate(seed, steps=250, on="disk")


@pytest.mark.soak
@pytest.mark.parametrize("ordering", ["none", "key", "partition", "strict"])
@pytest.mark.parametrize("when", ["before", "after", "full"])
def test_a_fault_at_any_operation_loses_nothing_in_any_order(ordering: str, when: str) -> None:
    for number in range(operations()):
        simulate(SEED, STEPS, crash=(number, when), ordering=ordering, on="disk")


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_many_more_seeds_on_disk(block: int) -> None:
    for seed in range(1_000 + block * 100, 1_000 + block * 100 + 100):
        simulate(seed, steps=250, on="disk")
