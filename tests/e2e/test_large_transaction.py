"""A transaction larger than the server's memory should be: it is staged on the disk, and committed from there."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL
from pathlib import Path

import pytest

import ortoo
from ortoo import Message, Queue
from tests.ports import free_ports

MIB = 1 << 20


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


async def connect(port: int) -> Queue:
    async with asyncio.timeout(300):
        while True:
            queue = ortoo.connect(f"ortoo://127.0.0.1:{port}")
            try:
                await queue.open()
                return queue
            except ortoo.OrtooError:
                await queue.close()
                await asyncio.sleep(0.05)


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
async def test_gigabytes_are_staged_and_committed_in_little_memory(tmp_path: Path) -> None:
    tcp, http = free_ports(2)
    ports = ["--tcp-port", str(tcp), "--http-port", str(http), "--set", "log.level=error"]
    arguments = ["-m", "ortoo", "serve", "--data", str(tmp_path / "data"), *ports]
    server = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=DEVNULL, stderr=DEVNULL)
    try:
        queue = await connect(tcp)
        before, most, count = resident_bytes(server.pid), 0, 1536
        tx = await queue.begin("job", timeout=86_400)
        for number in range(0, count, 4):
            await tx.publish_many("out", [Message(os.urandom(MIB), key=str(number + at)) for at in range(4)])
            most = max(most, resident_bytes(server.pid))
        committing = asyncio.create_task(tx.commit())
        while not committing.done():
            await asyncio.wait([committing], timeout=0.05)
            most = max(most, resident_bytes(server.pid))
        assert await committing == count
        assert (await queue.topic("out")).messages == count
        assert most - before < 300 * MIB
        await queue.close()
    finally:
        server.terminate()
        await server.wait()
