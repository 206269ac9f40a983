"""Servers and other children of a benchmark: started, waited for, and always ended, also after Ctrl-C."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import IO

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0


def free_port() -> int:
    """One that was free a moment ago: rivals cannot all choose for themselves and say what they chose."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], *, user: str | None = None, log: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A child in a session of its own, so that Ctrl-C reaches the benchmark alone, which then ends the child."""
    with _opened(log) as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, text=True, user=user, start_new_session=True
        )
        try:
            yield process
        finally:
            end(process)


@contextmanager
def _opened(log: Path | None) -> Iterator[int | IO[str]]:
    if log is None:
        yield subprocess.DEVNULL
    else:
        with log.open("w") as file:
            yield file


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def wait_for_port(port: int, process: subprocess.Popen[str], log: Path | None = None) -> None:
    deadline = monotonic() + _START_SECONDS
    while monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            sleep(0.02)
        else:
            return
    said = "" if log is None else log.read_text()[-2000:]
    raise RuntimeError(f"{process.args!r} does not listen on port {port}: {said}")


def processor_seconds(pid: int) -> float:
    """Of a process and its children, those that have ended included."""
    # The name of the process stands before the numbers; it may hold anything, but ends with the last bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(processor_seconds(int(child)) for child in children)


class Part:
    """A child that says when it is ready, begins when told, and answers with one line."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def wait_ready(self) -> None:
        if self.answer() != "ready":
            raise RuntimeError(f"{self._process.args!r} did not get ready")

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended without an answer")
        return line
