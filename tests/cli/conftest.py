"""Every command is tried on a data directory and against a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import ortoo

from .program import Place, start


@pytest.fixture(autouse=True)
def contexts_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where contexts are kept: not those of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "ortoo" / "contexts.json"


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server in a process of its own; tests have a namespace each."""
    home = tmp_path_factory.mktemp("server")
    with (home / "log").open("wb") as log:
        process = start("serve", "--data", home / "data", "--http-port", "0", "--tcp-port", "0", stderr=log)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(rb"ortoo://\S+", line):
                yield found[0].decode()
                break
        else:
            pytest.fail(f"the server did not start: {(home / 'log').read_text()}")
    finally:
        process.terminate()
        process.stdout.read()
        process.wait(300)
        process.stdout.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An empty queue on disk."""
    with ortoo.open_sync(tmp_path / "data"):
        pass
    return tmp_path / "data"


@pytest.fixture(params=["--data", "--url"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "--data":
        return Place("--data", str(request.getfixturevalue("directory")))
    at_server: Place = request.getfixturevalue("at_server")
    return at_server


@pytest.fixture
def at_server(server_url: str) -> Place:
    return Place("--url", server_url, "--namespace", f"test-{uuid4().hex[:8]}")


@pytest.fixture
def at_directory(directory: Path) -> Place:
    return Place("--data", str(directory))
