"""A real server in a process of its own, for tests that read and write it through Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


class Server:
    """Starts at once. `kill` and `start` again to have it away for a while: it keeps its directory and its port."""

    def __init__(self, home: Path, *options: str) -> None:
        self.data = home / "data"
        self._options = options
        self.port = 0
        self._log = home / "log"
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"ortoo://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "ortoo", "serve", "--data", str(self.data)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._options, "--http-port", "0", "--tcp-port", str(self.port)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"\bortoo://\S+:(\d+)", line):
                self.port = int(found[1])
                return
        raise AssertionError(f"the server did not start: {self._log.read_text()}")

    def kill(self) -> None:
        """As a power cut would."""
        self._end(subprocess.Popen.kill)

    def stop(self) -> None:
        self._end(subprocess.Popen.terminate)

    def _end(self, end: Callable[[subprocess.Popen[str]], None]) -> None:
        if self._process is not None:
            end(self._process)
            self._process.communicate(timeout=300)
            self._process = None
