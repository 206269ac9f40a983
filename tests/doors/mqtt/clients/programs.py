"""mosquitto_pub and mosquitto_sub, of Debian's mosquitto-clients."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from .brokers import find_program
from .client import Address, in_time


class Listener:
    """A mosquitto_sub that has subscribed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        """What it printed next, apart from what `-d` makes it say about packets."""
        assert self._process.stdout is not None
        async with in_time():
            while True:
                line = (await self._process.stdout.readline()).decode()
                assert line, "it ended"
                if not line.startswith(("Client ", "Subscribed ")):
                    return line.rstrip("\n")

    def kill(self) -> None:
        """Nobody says goodbye."""
        self._process.kill()

    async def until(self, text: str) -> None:
        assert self._process.stdout is not None
        async with in_time():
            while text not in (line := (await self._process.stdout.readline()).decode()):
                assert line, "it ended"


@asynccontextmanager
async def listening(address: Address, *arguments: str) -> AsyncIterator[Listener]:
    process = await _start("mosquitto_sub", address, "-d", *arguments)
    try:
        listener = Listener(process)
        await listener.until("Subscribed ")
        yield listener
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def run(program: str, address: Address, *arguments: str) -> tuple[int, str]:
    """Its exit code and all that it said."""
    process = await _start(program, address, *arguments)
    async with in_time():
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def publish(address: Address, *arguments: str) -> None:
    code, said = await run("mosquitto_pub", address, *arguments)
    assert code == 0, said


async def _start(program: str, address: Address, *arguments: str) -> asyncio.subprocess.Process:
    found = find_program(program)
    if found is None:
        pytest.skip(f"{program} is not installed (apt install mosquitto-clients)")
    where = ["-h", address.host, "-p", str(address.port)]
    if address.ca is not None:
        where += ["--cafile", address.ca]
    return await asyncio.create_subprocess_exec(
        "stdbuf",  # what they say is to be read line by line, although it goes to a pipe
        "-oL",
        found,
        *where,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
