"""One Redis for all tests of a process, empty for each; and one of a test's own, to be killed and paused."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from ortoo.stores.redis import claims, connection
from ortoo.testing.private_redis import PrivateRedis, private_redis


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may be so busy that what is short for a server is too short for a test."""
    monkeypatch.setattr(connection, "CALL_S", 60.0)
    monkeypatch.setattr(connection, "CONNECT_S", 60.0)
    monkeypatch.setattr(claims, "WAIT_S", 120.0)
    monkeypatch.setattr(claims, "PENDING_MS", 120_000)


@cache
def _shared() -> tuple[PrivateRedis, Path]:
    folder = Path(mkdtemp(prefix="ortoo-redis-"))
    server = PrivateRedis(folder, "--appendonly", "no")
    server.start()
    return server, folder


@pytest.fixture(scope="session", autouse=True)
def _ended() -> Iterator[None]:
    yield
    if _shared.cache_info().currsize:
        server, folder = _shared()
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def redis_url() -> str:
    server, _ = _shared()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"FLUSHALL\r\n")
        assert connection.recv(16) == b"+OK\r\n"
    return server.url


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    with private_redis(tmp_path / "own") as server:
        yield server
        if server.is_running:
            server.resume()
