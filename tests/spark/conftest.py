"""One Spark session and one server for all tests here, which therefore run in one process: see ../conftest.py.

The session is made by the product, and only set up to start quickly: see home.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import ortoo
from ortoo.model.errors import ConfigError
from ortoo.pipeline.spark.java import java_home

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    """Also of the programs that tests start."""
    try:
        java_home()
    except ConfigError as error:
        pytest.skip(str(error))
    from .home import java_options, spark_home, submit_arguments

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(spark_home()))
        patch.setenv("PYSPARK_SUBMIT_ARGS", submit_arguments())
        patch.setenv("SPARK_SUBMIT_OPTS", java_options())
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            patch.delenv(name, raising=False)  # the session's to say
        yield


@pytest.fixture(scope="session")
def spark(environment: None) -> Iterator[SparkSession]:
    from ortoo.pipeline.spark.session import open_session

    from .ending import end_java

    session = open_session("tests", master="local[2]")
    yield session
    session.stop()
    end_java()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Shared by all tests: each has topics of its own, and leaves it running."""
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def queue(server: Server) -> Iterator[ortoo.SyncQueue]:
    with ortoo.connect_sync(server.url) as connected:
        yield connected


@pytest.fixture
def topic() -> str:
    """A name that no other test uses; the topic itself is not made."""
    return f"topic-{uuid4().hex[:8]}"


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """Servers of the test's own, to be killed and restarted."""
    started: list[Server] = []

    def start() -> Server:
        home = tmp_path / f"server-{len(started)}"
        home.mkdir()
        started.append(Server(home))
        return started[-1]

    yield start
    for running in started:
        running.stop()
