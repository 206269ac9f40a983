"""How many files may be open bounds neither how much a queue holds nor how many clients try to connect."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import ortoo

MANY_SEGMENTS = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
from pathlib import Path
import ortoo
from ortoo.stores.disk import log
log.SEGMENT_BYTES = 1

async def main(path):
    async with ortoo.open(path) as queue:
        for number in range(50):
            await queue.create_topic(f"t{number}", partitions=6, ordering="none")
            for partition in range(6):
                await queue.publish(f"t{number}", b"%d" % number, partition=partition)
        broker = queue._link
        for _ in range(2):
            await queue.publish("t0", b"more", partition=0)
            await broker.flush()
            await broker.store.checkpoint(broker.engine.snapshot(), broker.now())
            await asyncio.gather(broker.store._checkpointing)
        assert (await queue.stats()).problems == []
    async with ortoo.open(path) as queue:
        assert (await queue.stats()).problems == []
        for number in range(50):
            found = [message.value async for message in queue.read(f"t{number}")]
            assert found.count(b"%d" % number) == 6, found
    sys.stdout.write("done")

asyncio.run(main(Path(sys.argv[1])))
"""

SERVER = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 256))
sys.argv[0] = sys.argv.pop(1)
import runpy
runpy.run_path(sys.argv[0], run_name="__main__")
"""

FORK = """
import asyncio, os, sys, ortoo

async def main(path):
    queue = await ortoo.open(path).open()
    await queue.publish("t", b"from the parent")
    ready, told = os.pipe()
    child = os.fork()
    if child:
        os.read(ready, 1)
        os._exit(0)  # without closing anything
    os.write(1, b"%d\\n" % os.getpid())
    try:
        await queue._link.store.append([])
    except ortoo.UnavailableError as error:
        os.write(1, str(error).encode() + b"\\n")
    left = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
    os.write(1, b"%d\\n" % sum(str(path) in one for one in left))
    os.write(told, b"x")
    sys.stdin.read()  # lives on
    os._exit(0)

asyncio.run(main(sys.argv[1]))
"""


def test_a_queue_holds_more_segments_than_files_may_be_open(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY_SEGMENTS, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "done", done.stderr


def test_idle_connections_leave_the_store_its_files(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[1] / "app" / "server_process.py"
    flags = [f"data={tmp_path / 'data'}", "tcp.port=0", "http.port=0"]
    with (
        ExitStack() as sockets,
        subprocess.Popen([sys.executable, "-c", SERVER, str(script), *flags], stdout=subprocess.PIPE) as server,
    ):
        assert server.stdout is not None
        try:
            addresses = json.loads(server.stdout.readline())
            with ortoo.connect_sync("ortoo://{}:{}".format(*addresses["tcp"])) as queue:
                for number in range(300):
                    door = ("tcp", "http")[number % 2]
                    sockets.enter_context(socket.create_connection(addresses[door]))
                for number in range(20):
                    queue.create_topic(f"t{number}", partitions=6)
                    queue.publish(f"t{number}", b"1")
                assert queue.stats().problems == []
        finally:
            server.terminate()
            server.wait(300)


def test_a_forked_child_keeps_neither_the_lock_nor_files_and_may_not_write(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with subprocess.Popen(
        [sys.executable, "-c", FORK, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        child = int(parent.stdout.readline())
        try:
            assert b"forked" in parent.stdout.readline()
            assert int(parent.stdout.readline()) == 0
            parent.wait(60)
            with ortoo.open_sync(data) as queue:  # though the child is alive
                assert [message.value for message in queue.lease("t")] == [b"from the parent"]
            os.kill(child, 0)
        finally:
            parent.stdin.close()
