"""Many hostile clients at once: what do they cost everybody else, and what do they leave behind?"""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import suppress
from random import Random

import pytest

from tests.doors.http.attacks import TOKEN, Attacker
from tests.doors.http.background import Background
from tests.doors.watching import Watch

AT_ONCE = 16
MB = 1 << 20


async def attack(server: Background, pieces: list[bytes], random: Random) -> None:
    reader, writer = await asyncio.open_connection(server.home.host, server.home.port)
    with suppress(OSError):  # it may well be closed for what was sent
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        match random.randrange(4):
            case 0:
                writer.transport.abort()
            case 1:
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(100), 0.05)  # and no more
            case _:
                writer.write_eof()
                async with asyncio.timeout(60):
                    while await reader.read(65536):
                        pass
    writer.transport.abort()


async def storm(server: Background, seed: int, rounds: int, token: str | None) -> None:
    attacker, random = Attacker(seed, token), Random(seed)
    conversations = iter([attacker.conversation() for _ in range(rounds)])

    async def attacks() -> None:
        for pieces in conversations:
            await attack(server, pieces, random)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(attacks())


async def at_rest(server: Background) -> None:
    """Once everybody has gone."""
    home = server.home
    async with asyncio.timeout(60):
        while home.gate.connections or home.gate.budget.bytes or home.door._state.tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def weather(seed: int, rounds: int, token: str | None) -> None:
    with Background("s3cret", token=token) as server:
        asyncio.run(storm(server, seed, 20, token))  # what is made once is there
        gc.collect()
        with Watch(server.loop) as watch:
            asyncio.run(storm(server, seed + 1, rounds, token))
            asyncio.run(at_rest(server))
        assert server.is_well()
        assert watch.longest_turn < 0.05, watch
        assert watch.grown < 200 * MB, watch


@pytest.fixture(autouse=True)
def every_detail(caplog: pytest.LogCaptureFixture) -> None:
    """In the log, too: nothing may be told there that is secret."""
    caplog.set_level(logging.DEBUG)


@pytest.mark.parametrize("token", [None, TOKEN])
def test_hostile_clients_cost_little_and_leave_nothing(token: str | None) -> None:
    weather(1, 400, token)


@pytest.mark.soak
@pytest.mark.parametrize("token", [None, TOKEN])
def test_hostile_clients_for_long(token: str | None) -> None:
    for _ in range(50):
        seed = Random().randrange(1 << 30)
        try:
            weather(seed, 2_000, token)
        except BaseException as error:
            error.add_note(f"repeat it with weather({seed}, 2_000, {token!r})")
            raise
