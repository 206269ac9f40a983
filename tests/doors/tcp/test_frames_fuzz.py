"""Many clients that send whatever they like, at whatever pace: nobody is kept waiting, and nothing is kept for them.

What they are told is judged, what they leave unfinished the server has to end, and a small client is served meanwhile.

A run is made from a seed: `pytest -m soak tests/doors/tcp/test_frames_fuzz.py` tries many, and a failure names its own.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest

from ortoo.doors.tcp import server, session
from ortoo.model.batch import Outgoing
from ortoo.model.commands import START, CreateGroup, Extend, Heartbeat, Lease, Leave, Once, Publish, Run, Settle, Stage
from ortoo.model.queries import GetStats, GetTopic, Scan
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame
from tests.doors.honest import LONG, run_tcp_client
from tests.doors.tcp.home import CLOSED, Home, Wire, serving, until
from tests.doors.tcp.test_fuzz import still_serves
from tests.doors.tcp.test_requests import JOBS, make_jobs, poll, publish
from tests.doors.watching import Watch, calmest

MB = 1 << 20
BUDGET = 4 * MB
GROWN = 150 * MB
TURN_SECONDS = 0.5  # CPU time, and of clients and server together; see tests/doors/watching.py
UNTAKEN = MB  # of what is written to one client: more than the largest of these answers
CODES = {"invalid", "config", "not_found", "exists", "lease_lost", "full", "too_many", "protocol", "closed"}
RUN = Run(1, 1, 1, 0, [0, 1, 2])  # type: ignore[arg-type]


def requests(random: Random) -> list[Any]:
    """One of each that matters here, with numbers that may mean something."""
    number = random.choice([0, 1, 2, 3, 5, 100, 2**31, 2**62, 2**63, -1])
    lease = Lease(
        topic="jobs", consumer=f"c{number}", max_messages=random.choice([1, 10]), wait_ms=random.choice([0, 50])
    )
    return [
        p.Ping(),
        GetStats(),
        GetTopic(JOBS),
        Scan(JOBS, 0, START, count=10),
        p.Cancel(number),
        p.Unsubscribe(number),
        p.Credit(number, random.choice([1, 10, 0, -1])),
        p.Subscribe(lease, random.choice([1, 5, 0])),
        p.Hello(p.PROTOCOL, "again"),
        lease,
        publish(random.randbytes(random.choice([0, 10, 1000, 300_000]))),
        publish(*[b"x"] * random.choice([1, 100, 10_000])),
        p.PublishOrWait(Publish(JOBS, Outgoing([b"w"])), random.choice([0, 20, 60_000])),
        Once("p", max(1, number % 50), 1, publish(b"once")),
        Settle(random.choice(["ack", "nack", "reject", "release"]), [RUN] * random.choice([1, 3])),
        Extend([RUN], 10),
        Heartbeat(JOBS, "default", "c"),
        Leave("c"),
        CreateGroup(JOBS, f"g{number}"),
        Stage("t", "part", publish(b"staged")),
    ]


def hostile(random: Random) -> tuple[bytes, bool]:
    """Bodies that announce more than they bring, or bring what nobody asked for; and whether they must be refused."""
    many = random.choice([10_000, 200_000, 2**32 - 1]).to_bytes(4, "big")
    kind = random.choice([b"Publish", b"Settle", b"Lease", b"Once", b"Ping"])
    head = b"\x92\x01\x82\xa4type" + bytes([0xA0 | len(kind)]) + kind
    return random.choice(
        [
            (head + b"\xa5batch\x81\xa6values\xdd" + many + b"\xc4\x00" * 1000, True),
            (head + b"\xa4runs\xdd" + many + b"\x80" * 1000, True),
            (head + b"\xa6labels\xdf" + many + b"\xa1a\xa1b" * 1000, True),
            (head + b"\xa1x\xdb" + many + b"y" * 100, True),
            (head + b"\xa1x" + b"\x91" * 100_000, True),
            (head + b"\xa1x" + b"\x81\xa1a" * 50_000, True),
            (head + b"\xa1x\xdd" + (1_000_000).to_bytes(4, "big") + b"\xc0" * 1_000_000, True),
            (b"\x92\x01" + settings(random, wrapped=random.random() < 0.7), True),
            (b"\x92\xcf" + b"\xff" * 8 + msgspec.msgpack.encode({"type": "Ping"}), False),
            (b"\x92\xcb\x7f\xf8\0\0\0\0\0\0\x80", True),
            (b"\xc9" + many + random.randbytes(50), True),
            (b"\xdd" + many, True),
        ]
    )


def settings(random: Random, wrapped: bool) -> bytes:
    """Commands that carry no messages, far larger than they need to be: by themselves, or in a Once."""
    count = random.choice([20_000, 300_000])
    many = b"\xdd" + count.to_bytes(4, "big") + random.choice([b"\x90", b"\x80", b"\x01"]) * count
    labels = b"".join(b"\xa8%08d\xa0" % number for number in range(count // 10))
    command = random.choice(
        [
            b"\x83\xa4type\xabChangeTopic\xa5topic\x92\xa7default\xa4jobs\xa7changes\x81\xa5lease" + many,
            b"\x83\xa4type\xabCreateTopic\xa5topic\x92\xa7default\xa4jobs\xa6config\x81\xa6labels\xdf"
            + (count // 10).to_bytes(4, "big")
            + labels,
            b"\x83\xa4type\xa6Settle\xa7outcome\xa3ack\xa4runs\x91\x85\xa5topic\x01\xa5group\x01\xa5lease\x01"
            b"\xa9partition\x00\xa7offsets\x91" + many,
        ]
    )
    if not wrapped:
        return command
    return b"\x85\xa4type\xa4Once\xa8producer\xa1p\xa8sequence\x01\xaadone_below\x01\xa7command" + command


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Client:
    """One connection after another, each misused in a way of its own."""

    def __init__(self, home: Home, seed: int) -> None:
        self._home = home
        self._random = Random(seed)
        self.deaf: list[asyncio.StreamWriter] = []  # stay where they are

    async def play(self, steps: int) -> None:
        ways: list[Callable[[Wire], Awaitable[None]]] = [
            self._says_anything,
            self._asks,
            self._asks_with_errors,
            self._announces_too_much,
            self._sends_half,
            self._is_hostile,
            self._drips,
            self._asks_much_and_reads_nothing,
            self._repeats_itself,
        ]
        for _ in range(steps):
            way = self._random.choice(ways)
            greets = way != self._says_anything
            try:
                await self._try(way, greets)
            except ConnectionError:
                pass  # it was cut off for what it sent

    async def _try(self, way: Callable[[Wire], Awaitable[None]], greets: bool) -> None:
        async with asyncio.timeout(LONG):
            reader, writer = await asyncio.open_connection(self._home.host, self._home.port, limit=1024)
            wire = Wire(reader, writer)
            if greets:
                assert (await wire.hello())[0] == p.ANSWER
            await way(wire)
            if writer not in self.deaf:
                wire.cut()

    def _some(self) -> bytes:
        request = self._random.choice(requests(self._random))
        return bytes(encode_frame((self._random.choice([0, 1, 2, 3, 2**64 - 1]), request)))

    async def _says_anything(self, wire: Wire) -> None:
        wire.writer.write(self._random.randbytes(self._random.choice([1, 5, 100, 70_000])))
        await self._listen(wire)

    async def _asks(self, wire: Wire) -> None:
        for _ in range(self._random.randrange(1, 20)):
            wire.writer.write(self._some())
        await self._listen(wire)

    async def _asks_with_errors(self, wire: Wire) -> None:
        data = bytearray(b"".join(self._some() for _ in range(5)))
        for _ in range(self._random.randrange(1, 10)):
            data[self._random.randrange(len(data))] = self._random.randrange(256)
        wire.writer.write(data)
        await self._listen(wire)

    async def _announces_too_much(self, wire: Wire) -> None:
        size = self._random.choice([p.FRAME_BYTES_MAX, p.FRAME_BYTES_MAX + 1, 2**32 - 1])
        wire.writer.write(self._some() + size.to_bytes(4, "big") + self._random.randbytes(1000))
        await self._listen(wire)

    async def _sends_half(self, wire: Wire) -> None:
        wire.writer.write(framed(bytes(3 * MB))[: self._random.choice([1, 1000, 300_000, 2 * MB, 2 * MB])])
        if self._random.random() < 0.8:
            await self._listen(wire)
        else:
            if self._random.random() < 0.5:
                await self._drip_on(wire)
            assert await self._hear_out(wire) <= {"too_many"}  # others needed the room; else silence is just cut off

    async def _drip_on(self, wire: Wire) -> None:
        """As long as the server lets it: a byte now and then is no sign of life."""
        with suppress(ConnectionError):
            while not wire.reader.at_eof() and not wire.writer.transport.is_closing():
                wire.writer.write(b"x")
                await asyncio.sleep(0.01)

    async def _is_hostile(self, wire: Wire) -> None:
        sent = [hostile(self._random) for _ in range(3)]
        wire.writer.write(b"".join(framed(body) for body, _ in sent))
        refused = sum(is_refused for _, is_refused in sent)
        wire.send((7, p.Ping()))
        problems = 0
        while True:
            kind, request_id, body = await wire.receive()
            if kind == CLOSED:  # type: ignore[comparison-overlap]
                assert problems, "closed without a word"
                break
            if kind == p.ANSWER and request_id == 7:
                assert problems == refused
                break
            self._judge(kind, body)
            problems += kind == p.ERROR

    async def _drips(self, wire: Wire) -> None:
        data = self._some()[:200]
        for at in range(0, len(data), 20):
            wire.writer.write(data[at : at + 20])
            await asyncio.sleep(0.001)
        await self._listen(wire)

    async def _asks_much_and_reads_nothing(self, wire: Wire) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.send(*((number, Scan(JOBS, 0, START)) for number in range(1, 50)))
        wire.send(*((number, poll(consumer=f"c{number}")) for number in range(50, 100)))
        wire.send(*((number, p.Subscribe(poll(consumer=f"c{number}"), 1000)) for number in range(100, 110)))
        if self._random.random() < 0.5:
            await asyncio.sleep(0.01)
        else:
            self.deaf.append(wire.writer)

    async def _repeats_itself(self, wire: Wire) -> None:
        request = self._random.choice(
            [p.Ping(), p.Cancel(1), p.Credit(1, 1), {"type": "Nope"}, poll(0, consumer="c" * 999)]
        )
        wire.writer.write(bytes(encode_frame((1, request))) * self._random.choice([10, 3_000]))
        await self._listen(wire)

    async def _listen(self, wire: Wire) -> None:
        """For a moment; then it goes, whatever it was told."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._random.choice([0, 0.01, 0.1])):
                await self._hear_out(wire)

    async def _hear_out(self, wire: Wire) -> set[str]:
        """Until the server ends it. Returns of which kinds its errors were."""
        codes: set[str] = set()
        while True:
            kind, _, body = await wire.receive()
            if kind == CLOSED:  # type: ignore[comparison-overlap]
                return codes
            self._judge(kind, body)
            if kind == p.ERROR:
                codes.add(body["code"])

    @staticmethod
    def _judge(kind: int, body: Any) -> None:
        assert kind in (p.ANSWER, p.ERROR, p.DELIVERY)
        if kind == p.ERROR:
            assert body["code"] in CODES, body


def most_untaken(home: Home) -> int:
    return max((session._transport.get_write_buffer_size() for session in home.door._sessions), default=0)


def uncounted(home: Home) -> int:
    """Of frames that are not whole yet; what was read last may not have been looked at."""
    return sum(session._splitter.held for session in home.door._sessions) - home.gate.budget.bytes


async def play(seed: int, clients: int, steps: int) -> Watch:
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
    async with serving(budget=BUDGET) as home:
        await make_jobs(home)
        await home.queue.publish_many("jobs", [b"x" * 1000] * 100)
        players = [Client(home, seed * 1000 + number) for number in range(clients)]
        missing, untaken = partial(uncounted, home), partial(most_untaken, home)
        async with Watch(held=lambda: home.gate.budget.bytes, untaken=untaken, uncounted=missing) as watch:
            playing = asyncio.gather(*(player.play(steps) for player in players))
            await asyncio.gather(playing, run_tcp_client(home.url, None, playing.done))
            await until(lambda: home.gate.connections == 0, LONG)
        for writer in itertools.chain.from_iterable(player.deaf for player in players):
            writer.transport.abort()
        await until(lambda: home.gate.budget.bytes == 0, LONG)
        await still_serves(home)
        await until(lambda: home.gate.budget.bytes == 0, LONG)
        assert home.gate.budget.parked == 0
        assert home.door.stalled == set()
        assert home.broker.meters.recoveries == 0
    gc.collect()
    assert unseen == []
    assert watch.grown < GROWN, watch
    assert watch.peaks["held"] < BUDGET + clients * (MB + session.WAITING_BYTES), watch
    assert watch.peaks["untaken"] < UNTAKEN, watch
    assert watch.peaks["uncounted"] < MB, watch
    return watch


async def survives(seed: int, clients: int, steps: int) -> None:
    watch = await calmest(partial(play, seed, clients, steps), stall=TURN_SECONDS)
    assert watch.longest_stall < TURN_SECONDS, watch


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Silence is noticed soon, so that the sweeper takes part; and whatever is a mistake of ours is logged as an error."""
    monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(session, "IDLE_SECONDS", 1.0)
    caplog.set_level(logging.WARNING)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_clients_that_send_whatever_they_like_disturb_nobody(seed: int) -> None:
    await survives(seed, clients=10, steps=15)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
async def test_many_clients_that_send_whatever_they_like_disturb_nobody(seed: int) -> None:
    await survives(seed, clients=50, steps=40)
