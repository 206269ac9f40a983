"""A process that is killed loses nothing it has confirmed, and leaves a directory that opens at once."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from .journal import Journal
from .load import drain

ROOT = Path(__file__).resolve().parents[2]


def work_and_die(data: Path, lines: Path, seed: int, checkpoint_bytes: int) -> None:
    """One life of a worker. Most die at work, some while they still recover."""
    random = Random(seed)
    arguments = [str(data), str(lines), str(seed), str(checkpoint_bytes)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.worker", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stderr is not None
        worker.stdout.readline()
        if random.random() < 0.7:
            worker.stdout.readline()
        time.sleep(random.uniform(0.1, 1.0))  # the moment is the point
        early = worker.poll()
        worker.kill()
        errors = worker.stderr.read().decode()
    assert early is None, f"the worker ended by itself ({early}):\n{errors}"


async def live_and_die(tmp_path: Path, seed: int, rounds: int) -> int:
    data, lines = tmp_path / "data", tmp_path / "journal"
    random = Random(seed)
    for round_number in range(rounds):
        work_and_die(data, lines, 1000 * seed + round_number, random.choice([3_000, 30_000, 300_000]))
    journal = Journal(lines)
    try:
        faults = await drain(data, journal)
        assert faults == {}, f"seed {seed}: {faults}"
        return sum(verdict.published for verdict in journal.verdicts().values())
    finally:
        journal.close()


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_killed_process_loses_nothing_it_confirmed(tmp_path: Path, seed: int) -> None:
    assert await live_and_die(tmp_path, seed, rounds=5) > 100


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 120))
async def test_two_hundred_kills_lose_nothing(tmp_path: Path, seed: int) -> None:
    assert await live_and_die(tmp_path, seed, rounds=10) > 100
