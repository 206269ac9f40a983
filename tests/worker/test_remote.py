"""Does a worker find a server by its URL, before it is there and after it was away?"""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ortoo
from ortoo.app.certificates import load
from tests.app.certificates import make_certificate
from tests.doors.tcp.home import serving as serve
from tests.ports import free_port
from tests.worker.conftest import until


@contextmanager
def serving(folder: Path, port: int) -> Iterator[None]:
    command = [
        sys.executable,
        "-m",
        "ortoo",
        "serve",
        "--data",
        str(folder),
        "--tcp-port",
        str(port),
        "--http-port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


async def publish(url: str, value: str) -> None:
    while True:
        try:
            async with ortoo.connect(url) as queue:
                await queue.publish("emails", value)
                return
        except ortoo.UnavailableError:
            await asyncio.sleep(0.02)


async def test_a_worker_waits_for_its_server_and_outlives_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    url = f"ortoo://127.0.0.1:{port}"
    worker, seen = ortoo.Worker(url), []

    @worker.on("emails", group="senders")
    async def send(message: ortoo.Received) -> None:
        seen.append(message.value)

    with caplog.at_level(logging.INFO, "ortoo.worker"):
        running = asyncio.create_task(worker.run_async())
        await until(lambda: "; retrying" in caplog.text)
    for value in ("first", "second"):
        with serving(tmp_path, port):
            await publish(url, value)
            await until(lambda value=value: value.encode() in seen and worker.stats.handled == len(seen))  # type: ignore[misc]
    with serving(tmp_path, port):
        await worker.stop()
        await running
        async with ortoo.connect(url) as queue:
            assert (await queue.group("emails", "senders")).backlog == 0
    assert seen == [b"first", b"second"]


async def test_a_worker_trusts_the_certificates_that_it_is_given(tmp_path: Path) -> None:
    settings = make_certificate(tmp_path)
    async with serve(tls=load(settings).context) as home:
        await home.queue.publish("emails", b"x")
        worker, seen = ortoo.Worker(f"ortoos://127.0.0.1:{home.port}", tls=settings.certificate), []

        @worker.on("emails")
        async def send(message: ortoo.Received) -> None:
            seen.append(message.value)

        async with worker:
            await until(lambda: worker.stats.handled == 1)
        assert seen == [b"x"]
        stranger = ortoo.Worker(f"ortoos://127.0.0.1:{home.port}")
        stranger.on("emails")(send)
        with pytest.raises(ortoo.ConfigError, match="not trusted"):
            await stranger.run_async()
