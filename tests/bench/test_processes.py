"""Children of a benchmark: nothing that they start stays behind, and nobody waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.processes import Part, processor_seconds, running


def is_alive(pid: int) -> bool:
    """Not as a zombie either, which nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_a_server_has_started_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {file}.new; mv {file}.new {file}; wait"
    with running(["sh", "-c", script]) as process:
        while not file.exists():
            assert process.poll() is None
        grandchild = int(file.read_text())
        assert is_alive(grandchild)
    while is_alive(grandchild):  # killed, but the kernel may not have come to it yet
        pass


def test_a_part_that_hangs_is_not_waited_for() -> None:
    hanging = Part("timeit", "-n1", "-r1", "import time; time.sleep(600)")
    with hanging as part, pytest.raises(RuntimeError, match=r"gave no answer in 0\.05 seconds"):
        part.answer(0.05)


def test_a_part_that_ends_without_a_word_is_an_error() -> None:
    with Part("timeit", "-h", "--no-such-option") as part, pytest.raises(RuntimeError):
        while True:  # whatever it says before
            part.answer()


def test_processor_time_includes_that_of_children() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    before = processor_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert processor_seconds(os.getpid()) - before > 0.15  # in ticks of a hundredth
