"""Many hostile clients at once: how are they answered, what do they cost everybody else, and what do they leave behind?"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from functools import partial
from random import Random

import pytest
from uvicorn import Config

from ortoo.doors.http import body, connection, websocket
from ortoo.doors.http import server as http_server
from ortoo.model.settings import LimitSettings
from tests.doors.honest import LONG, WebClient, run_tcp_client
from tests.doors.http.attacks import ANNOUNCED, BIG, TOKEN, Attack, Attacker
from tests.doors.http.background import Background
from tests.doors.http.judging import judge
from tests.doors.watching import Watch, calmest

AT_ONCE = 16
MB = 1 << 20
BUDGET = MB
UNTAKEN = MB // 2  # of what is written to one client: more than the largest of these answers


class Storm:
    """Attacks, and small clients that must be served meanwhile."""

    def __init__(
        self, server: Background, seed: int, rounds: int, token: str | None, with_stayers: bool = True
    ) -> None:
        self._server = server
        self._token = token
        self._seed = seed
        self._random = Random(seed)
        attacker = Attacker(seed, token)
        self._attacks = iter([attack for _ in range(rounds) if (attack := attacker.attack()).stays <= with_stayers])
        self._deaf: list[asyncio.StreamWriter] = []

    async def rage(self) -> None:
        home = self._server.home
        try:
            async with asyncio.TaskGroup() as group:
                attacks = [group.create_task(self._attack_on(group)) for _ in range(AT_ONCE)]
                is_over = lambda: all(task.done() for task in attacks)  # noqa: E731
                web = [WebClient(home.host, home.port, self._token, self._seed + n).run(is_over) for n in range(2)]
                for honest in (*web, run_tcp_client(self._server.tcp_url, self._token, is_over)):
                    group.create_task(honest)
            await at_rest(self._server)
        finally:
            for writer in self._deaf:
                writer.transport.abort()

    async def _attack_on(self, group: asyncio.TaskGroup) -> None:
        for attack in self._attacks:
            if attack.stays:
                group.create_task(self._stay(attack))
                await asyncio.sleep(0.001)
            else:
                await self._visit(attack)

    async def _send(self, attack: Attack) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """And what was answered already."""
        home = self._server.home
        end = socket.create_connection((home.host, home.port), LONG)
        if not attack.reads:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader, writer = await asyncio.open_connection(sock=end, limit=65536 if attack.reads else 1024)
        head = b""
        with suppress(OSError, asyncio.IncompleteReadError):  # it may well be closed for what was sent
            for piece in attack.pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            if attack.frames:
                async with asyncio.timeout(LONG):
                    head = await reader.readuntil(b"\r\n\r\n")
            for frame in attack.frames:
                writer.write(frame)
                await asyncio.sleep(0)
        return reader, writer, head

    async def _stay(self, attack: Attack) -> None:
        """It is the server that has to end this."""
        reader, writer, head = await self._send(attack)
        if not attack.reads:
            self._deaf.append(writer)
            return
        data, was_heard_out = await read_all(reader)
        writer.transport.abort()
        judge(attack, head + data, was_heard_out)

    async def _visit(self, attack: Attack) -> None:
        reader, writer, data = await self._send(attack)
        with suppress(OSError):
            match self._random.randrange(4):
                case 0:
                    pass
                case 1:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(100), 0.05)  # and no more
                case _:
                    writer.write_eof()
                    data += (await read_all(reader))[0]
        writer.transport.abort()
        judge(attack, data, was_heard_out=False)


async def read_all(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """Until the server has ended it; and whether that was the end of it, or what had been sent was not even read."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(LONG):
            while part := await reader.read(65536):
                parts.append(part)
    except ConnectionError:
        return b"".join(parts), False
    return b"".join(parts), True


async def at_rest(server: Background) -> None:
    """Nothing is left of anybody, though some of them are still there and have not hung up."""
    home = server.home
    async with asyncio.timeout(LONG):
        while home.gate.connections or home.gate.budget.bytes or home.door._state.tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def most_untaken(server: Background) -> int:
    ends = [end.transport for end in server.home.door._state.connections]
    return max((end.get_write_buffer_size() for end in ends if end is not None), default=0)


def weather(seed: int, rounds: int, token: str | None) -> None:
    with Background("s3cret", token=token, limits=LimitSettings(in_flight_bytes=BUDGET)) as server:
        much = server.home.queue.publish_many(BIG, [b"x" * 20_000] * 300)
        asyncio.run_coroutine_threadsafe(much, server.loop).result(LONG)
        asyncio.run(Storm(server, seed, 40, token, with_stayers=False).rage())  # what is made once is there
        held, untaken = lambda: server.home.gate.budget.bytes, partial(most_untaken, server)

        async def rage() -> Watch:
            storm = Storm(server, seed + 1, rounds, token)
            with Watch(server.loop, held=held, untaken=untaken) as watch:
                await storm.rage()
            assert server.is_well()
            return watch

        watch = asyncio.run(calmest(rage, turn=0.05))
        assert watch.longest_turn < 0.05, watch
        assert watch.grown < 200 * MB, watch
        assert watch.peaks["held"] < ANNOUNCED, watch  # what is announced costs nothing
        assert watch.peaks["untaken"] < UNTAKEN, watch


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Silence is noticed soon. And every detail is logged: nothing may be told there that is secret."""
    monkeypatch.setattr(body, "_PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(body, "_ROOM_SECONDS", 10.0)
    monkeypatch.setattr(connection, "HEAD_SECONDS", 2.0)
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 1.0)
    monkeypatch.setattr(websocket, "PIECE_SECONDS", 1.0)
    monkeypatch.setattr(http_server, "_SWEEP_TICKS", 1)
    monkeypatch.setattr(http_server, "_KEEP_ALIVE_SECONDS", 2)
    monkeypatch.setattr(http_server, "Config", partial(Config, ws_ping_interval=1, ws_ping_timeout=1))
    caplog.set_level(logging.DEBUG)


@pytest.mark.parametrize("token", [None, TOKEN])
def test_hostile_clients_are_refused_cost_little_and_leave_nothing(token: str | None) -> None:
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
