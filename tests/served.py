"""`served`: a real server in a process of its own, on ports of its own. A conftest that imports it has it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest


class Served(NamedTuple):
    tcp: str  # host and port
    http: str

    def at_home(self, text: str) -> str:
        """The text with the ports that this server has in the place of the usual ones."""
        return text.replace("localhost:7632", self.tcp).replace("localhost:6632", self.http)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("served")
    command = [sys.executable, "-m", "ortoo", "serve", "--data", str(home / "data")]
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen(
            [*command, "--http-port", "0", "--tcp-port", "0"], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            found: dict[str, str] = {}
            while not {"ortoo", "http"} <= found.keys():
                line = process.stdout.readline()
                assert line, (home / "log").read_text()
                found.update(re.findall(r"\b(ortoo|http)://([\w.:]+)", line))
            yield Served(found["ortoo"], found["http"])
        finally:
            process.terminate()
