"""A server of one's own ends with whoever started it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest

from ortoo.testing.private_redis import PrivateRedis
from tests.cli.program import environment

STARTED = """
import sys
from pathlib import Path
from ortoo.testing.{module} import {kind}
server = {kind}(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("module", "kind"), [("private_postgres", "PrivatePostgres"), ("private_redis", "PrivateRedis")]
)
def test_a_server_ends_when_its_starter_is_killed(module: str, kind: str) -> None:
    with TemporaryDirectory(prefix="ortoo-private-", ignore_cleanup_errors=True) as folder:
        code = STARTED.format(module=module, kind=kind)
        command = [sys.executable, "-c", code, folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as child:
            assert child.stdout is not None
            server = os.pidfd_open(int(child.stdout.readline()))
            child.kill()
        try:
            assert select.select([server], [], [], 60)[0], "it is still there"
        finally:
            os.close(server)


def test_a_server_outlives_the_thread_that_started_it() -> None:
    with TemporaryDirectory(prefix="ortoo-private-") as folder:
        server = PrivateRedis(Path(folder))
        starter = Thread(target=server.start)
        starter.start()
        starter.join()
        try:
            watched = os.pidfd_open(server.pid)
            assert not select.select([watched], [], [], 0.5)[0], "it ended with that thread"
            os.close(watched)
        finally:
            server.kill()
