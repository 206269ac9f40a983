"""The simulator's judge on PostgreSQL: nothing is lost or doubled, order is kept; what is recovered is what was confirmed."""

from __future__ import annotations

import asyncio

import pytest

from ortoo.stores.postgres import buffering, flusher, front
from ortoo.stores.redis import buffer
from ortoo.testing.simulator import Simulation
from tests.simulation.buffered_world import BufferedWorld
from tests.simulation.postgres_world import OutageWorld, PostgresWorld


def simulate(seed: int, steps: int = 120, world: type[PostgresWorld] = PostgresWorld) -> None:
    verdict = asyncio.run(Simulation(seed, steps, make_world=world).run())
    assert verdict.is_valid, f"seed {seed}: {verdict.faults()}"
    assert verdict.published > 0


@pytest.mark.parametrize("seed", range(6))
def test_broken_connections_and_killed_processes_lose_nothing(seed: int) -> None:
    simulate(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_more_seeds_on_postgres(seed: int) -> None:
    simulate(seed, steps=250)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (front, flusher):
        monkeypatch.setattr(module, "RETRY_S", 0.002)
        monkeypatch.setattr(module, "RETRY_MAX_S", 0.01)
    monkeypatch.setattr(buffering, "BEAT_S", 0.01)
    monkeypatch.setattr(buffering, "IDLE_S", 0.05)
    monkeypatch.setattr(buffer, "ALIVE_MS", 0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", range(5))
def test_outages_of_the_database_lose_nothing(seed: int) -> None:
    simulate(seed, world=OutageWorld)


@pytest.mark.soak
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_more_seeds_with_outages(seed: int) -> None:
    simulate(seed, steps=250, world=OutageWorld)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", range(4))
def test_a_buffer_that_fails_with_the_database_and_the_process_loses_nothing(seed: int) -> None:
    simulate(seed, world=BufferedWorld)


@pytest.mark.soak
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_more_seeds_with_a_buffer(seed: int) -> None:
    simulate(seed, steps=250, world=BufferedWorld)
