"""Servers and other children of a benchmark: started, waited for, and always ended, also after Ctrl-C."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import IO

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_ANSWER_SECONDS = 120.0  # a part that takes longer hangs


def free_port() -> int:
    """One that was free a moment ago: rivals cannot all choose for themselves and say what they chose."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str],
    *,
    user: str | None = None,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """A child in a session of its own, so that Ctrl-C reaches the benchmark alone, which then ends the child."""
    with _opened(log) as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            text=True,
            user=user,
            env=None if environment is None else {**os.environ, **environment},
            start_new_session=True,
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
    """Together with whatever it has started: a server may be a script that waits for the one that serves."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # nobody is left
        process.wait()
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
    return own + sum(_seconds_if_there(int(child)) for child in children)


def _seconds_if_there(pid: int) -> float:
    """A child may end while it is looked at; its time is then its parent's."""
    try:
        return processor_seconds(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


class Part:
    """A child that is told what to do in lines, and answers each with one."""

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

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def wait_ready(self) -> None:
        if self.answer() != "ready":
            raise RuntimeError(f"{self._process.args!r} did not get ready")

    def answer(self, seconds: float = _ANSWER_SECONDS) -> str:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            is_there = selector.select(seconds)
        if not is_there:
            raise RuntimeError(f"{self._process.args!r} gave no answer in {seconds:g} seconds")
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended without an answer")
        return line
