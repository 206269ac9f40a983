"""A server of one's own as a process: it is started, stopped and killed.

It ends with the process that started it, even if that is killed. The kernel watches a thread, not a process, so all are started
by one thread that lives as long as the process does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic, sleep

from ortoo.model.errors import ConfigError

_START_S, _STOP_S = 60.0, 20.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

_Start = tuple[Callable[[], "subprocess.Popen[bytes]"], "Future[subprocess.Popen[bytes]]"]


class _Starter:
    """The thread that starts them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._wanted: SimpleQueue[_Start] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock, self._wanted = Lock(), None

    def start(self, make: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._wanted is None:
                self._wanted = SimpleQueue()
                Thread(target=_start, args=(self._wanted,), name="ortoo-starter", daemon=True).start()
        started: Future[subprocess.Popen[bytes]] = Future()
        self._wanted.put((make, started))
        return started.result()


def _start(wanted: SimpleQueue[_Start]) -> None:
    while True:
        start, started = wanted.get()
        try:
            started.set_result(start())
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            started.set_exception(error)


_starter = _Starter()


class PrivateProcess:
    def __init__(self, name: str, log: Path, ending: signal.Signals) -> None:
        """`ending`: what makes it end in good order."""
        self._name = name
        self._log = log
        self._ending = ending
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def run(self, command: Sequence[str], answers: Callable[[], bool], user: str | None, folder: Path | None) -> None:
        """Returns once it answers."""
        starter, ending = os.getpid(), self._ending

        def end_with_starter() -> None:
            if _libc is not None:
                _libc.prctl(_PR_SET_PDEATHSIG, ending)
            if os.getppid() != starter:  # it ended meanwhile
                os._exit(1)

        def start() -> subprocess.Popen[bytes]:
            with self._log.open("ab") as log:
                return subprocess.Popen(  # noqa: S603  # our own words
                    command,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    cwd=folder,
                    user=user,
                    start_new_session=True,
                    preexec_fn=end_with_starter,  # noqa: PLW1509  # it takes no lock
                )

        self._process = _starter.start(start)
        deadline = monotonic() + _START_S
        while not answers():
            if self._process.poll() is not None or monotonic() > deadline:
                self.end(signal.SIGKILL)
                raise ConfigError(f"{self._name} did not start; its log: {self._log.read_text()[-500:]}")
            sleep(0.02)

    def end(self, how: signal.Signals | None = None) -> None:
        """In good order; or all of it at once, as `kill -9`."""
        process, self._process = self._process, None
        if process is None:
            return
        if how == signal.SIGKILL:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, how)
        else:
            process.send_signal(how or self._ending)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
