"""Do programs with Queen's own Python client work here as they are, with an older version of it and with the newest?"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dialects.queen.home import Home

HERE = Path(__file__).parent
PARTS = 11


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the older version, which cannot be installed beside the newest one."""
    folder = tmp_path_factory.mktemp("queen-mq-0.15.0")
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    tried = subprocess.run(
        [*command, "--target", str(folder), "--requirement", str(HERE / "older.txt")],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"queen-mq 0.15.0 cannot be fetched: {tried.stderr.strip()[-300:]}")
    return folder


async def run(url: str, *paths: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(HERE / "client_session.py"),
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert said.count(b"did ") == PARTS, said.decode()


async def test_the_newest_client(home: Home) -> None:
    await run(home.url)


async def test_the_newest_client_on_a_port_of_its_own(home: Home) -> None:
    await run(home.own_url)


async def test_an_older_client(home: Home, older: Path) -> None:
    await run(home.url, older)
