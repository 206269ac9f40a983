"""One Redis for all tests of a process, empty for each; and one of a test's own, to be killed and paused."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ortoo.stores.redis import claims, connection
from ortoo.testing.private_redis import PrivateRedis, private_redis
from tests.stores.redis_server import server


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may be so busy that what is short for a server is too short for a test."""
    monkeypatch.setattr(connection, "CALL_S", 60.0)
    monkeypatch.setattr(connection, "CONNECT_S", 60.0)
    monkeypatch.setattr(claims, "WAIT_S", 120.0)
    monkeypatch.setattr(claims, "PENDING_MS", 120_000)


@pytest.fixture
def redis_url() -> str:
    redis = server()
    with socket.create_connection(("127.0.0.1", redis.port)) as connection:
        connection.sendall(b"FLUSHALL\r\n")
        assert connection.recv(16) == b"+OK\r\n"
    return redis.url


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    with private_redis(tmp_path / "own") as server:
        yield server
        if server.is_running:
            server.resume()
