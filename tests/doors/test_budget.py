"""The bytes that all doors together may hold: counted as they come, and nobody waits for them in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from ortoo.app.clock import SystemClock
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate, Presence, Share
from ortoo.broker import budget as budgets
from ortoo.doors.http import HttpDoor, body
from ortoo.doors.http.answers import Refusal
from ortoo.doors.tcp import TcpDoor, server, session
from ortoo.model.commands import Settle
from ortoo.model.errors import TooManyError
from ortoo.model.settings import HttpSettings, LimitSettings, TcpSettings
from ortoo.stores.memory import MemoryStore
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame
from tests.doors.tcp.home import CLOSED, Home, Wire, until
from tests.doors.tcp.test_requests import make_jobs, poll, publish
from tests.semantics.stores import SlowStore

MB = 1 << 20
LONG = 60  # seconds: only what hangs takes so long


class Both(Home):
    """A queue with both doors."""

    def __init__(self, broker: Broker, gate: Gate, tcp: TcpDoor, http: HttpDoor) -> None:
        super().__init__(broker, gate, tcp)
        self.budget = gate.budget
        self.http = http
        self.web = httpx.AsyncClient(base_url=f"http://127.0.0.1:{http.address[1]}", timeout=LONG)

    async def post(self, path: str, content: Any) -> httpx.Response:
        headers = {"content-type": "application/json"}
        return await self.web.post(f"/v1/topics/jobs{path}", content=msgspec.json.encode(content), headers=headers)

    async def announce(self, size: int, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A request whose body is announced, and of which so much comes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.http.address[1])
        head = f"POST /v1/topics/jobs/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {size}\r\n\r\n"
        writer.write(head.encode() + data)
        return reader, writer


@asynccontextmanager
async def serving_both(budget: int, store: MemoryStore | None = None) -> AsyncIterator[Both]:
    broker, held = Broker(store or MemoryStore(), SystemClock()), Budget(budget)
    presence = Presence(broker)
    gates = {name: Gate(name, broker, Authenticator(), LimitSettings(), held, presence) for name in ("tcp", "http")}
    tcp = TcpDoor(gates["tcp"], TcpSettings(port=0))
    http = HttpDoor(gates["http"], HttpSettings(port=0), metrics=None, ready=lambda: None)  # type: ignore[arg-type]
    await broker.open()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(broker.close)
        for door in (tcp, http):
            await door.open()
            stack.push_async_callback(door.close, 1)
        home = Both(broker, gates["tcp"], tcp, http)
        stack.push_async_callback(home.web.aclose)
        await make_jobs(home)
        yield home


async def half_a_frame(home: Both, wire: Wire, size: int, part: int) -> None:
    """So much of a frame; returns when the server has it, or reads no more of it."""
    before = home.budget.bytes
    wire.writer.write(size.to_bytes(4, "big") + bytes(part - 4))
    await until(lambda: home.budget.bytes >= before + part or bool(home.door.stalled), LONG)


async def test_bodies_that_are_only_announced_hold_nothing() -> None:
    async with serving_both(64 * MB) as home:
        sockets = [await home.announce(16 * MB) for _ in range(8)]
        assert (await home.post("/messages", {"messages": [{"value": "x" * 1000}]})).status_code == 201
        async with home.wire() as wire:
            wire.send((1, publish(bytes(MB))))
            assert (await wire.receive())[0] == p.ANSWER
        await until(lambda: home.budget.bytes == 0, LONG)
        for _, writer in sockets:
            writer.close()


async def test_frames_count_before_they_are_whole() -> None:
    async with serving_both(8 * MB) as home, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(home.wire()) for _ in range(16)]
        for wire in wires:
            wire.writer.write((90 * MB).to_bytes(4, "big") + bytes(4 * MB))
        await until(lambda: len(home.door.stalled) >= 8, LONG)
        assert home.budget.bytes < 9 * MB + 16 * budgets.SMALL_BYTES
    await until(lambda: home.budget.bytes == 0, LONG)


async def test_those_who_settle_go_on_though_others_hold_all_there_is() -> None:
    async with serving_both(MB) as home, home.wire() as greedy, home.wire() as modest:
        await home.queue.publish_many("jobs", [b"x", b"y"])
        first = await home.queue.lease("jobs")
        await half_a_frame(home, greedy, 90 * MB, 2 * MB)
        assert home.budget.bytes >= MB
        receipts = [message.receipt for message in first]
        answer = await home.post("/groups/default/ack", {"receipts": receipts})
        assert [result["ok"] for result in answer.json()["results"]] == [True]
        kind, runs = await modest.ask(poll(0))
        assert kind == p.ANSWER
        taken = runs[0]["taken"]
        ids = [taken[name] for name in ("topic_id", "group_id", "lease", "partition", "offsets")]
        kind, _ = await modest.ask(Settle("ack", [budget_run(*ids)]))
        assert kind == p.ANSWER
        assert (await home.queue.group("jobs", "default")).backlog == 0


def budget_run(*ids: Any) -> Any:
    return dict(zip(("topic", "group", "lease", "partition", "offsets"), ids, strict=True))


async def test_a_connection_that_waits_because_of_another_door_goes_on_when_that_one_is_done() -> None:
    async with serving_both(MB) as home, home.wire() as wire:
        _, writer = await home.announce(4 * MB, bytes(2 * MB))
        await until(lambda: home.budget.bytes >= MB, LONG)
        wire.send((1, publish(bytes(MB - 1000))))
        await until(lambda: bool(home.door.stalled), LONG)
        writer.transport.abort()
        assert (await asyncio.wait_for(wire.receive(), LONG))[:2] == (p.ANSWER, 1)


async def test_a_connection_that_was_served_while_another_door_held_all_there_is_goes_on_afterwards() -> None:
    async with serving_both(MB) as home, home.wire() as wire:
        _, writer = await home.announce(4 * MB, bytes(2 * MB))
        await until(lambda: home.budget.bytes >= MB, LONG)
        wire.send((1, publish(b"x")))
        assert (await wire.receive())[:2] == (p.ANSWER, 1)
        writer.transport.abort()
        await until(lambda: home.budget.bytes == 0, LONG)
        async with asyncio.timeout(LONG):
            assert (await wire.ask(p.Ping()))[0] == p.ANSWER


async def test_a_body_that_waits_because_of_another_door_goes_on_when_that_one_is_done() -> None:
    async with serving_both(MB) as home, home.wire() as wire:
        await half_a_frame(home, wire, 90 * MB, 2 * MB)
        posting = asyncio.create_task(home.post("/messages", {"messages": [{"value": "x" * 700_000}]}))
        await until(lambda: home.budget.waiting == 2, LONG)
        wire.cut()
        assert (await posting).status_code == 201


async def test_requests_of_which_each_has_come_in_part_do_not_wait_for_each_other_for_ever() -> None:
    async with serving_both(MB) as home, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(home.wire()) for _ in range(6)]
        frames = [encode_frame((1, publish(bytes(900_000)))) for _ in wires]
        for wire, frame in zip(wires, frames, strict=True):
            wire.writer.write(frame[:600_000])
        posting = [asyncio.create_task(home.post("/messages", {"messages": [{"value": "x" * 900_000}]})) for _ in "ab"]
        await until(lambda: home.budget.bytes >= MB, LONG)
        for wire, frame in zip(wires, frames, strict=True):
            wire.writer.write(frame[600_000:])
        for wire in wires:
            async with asyncio.timeout(LONG):
                assert (await wire.receive())[0] == p.ANSWER
        assert [answer.status_code for answer in await asyncio.gather(*posting)] == [201, 201]
        await until(lambda: home.budget.bytes == 0, LONG)


async def test_publishes_that_wait_for_room_do_not_hold_what_those_who_make_it_need() -> None:
    async with serving_both(4 * MB) as home, home.wire() as wire:
        await home.queue.create_topic("full", max_depth=1)
        await home.queue.create_group("full", "default")
        await home.queue.publish("full", b"x")
        (message,) = await home.queue.lease("full")
        wait = msgspec.to_builtins(p.PublishOrWait(publish(bytes(400_000)), 60_000))
        wait["publish"]["topic"] = ["default", "full"]
        wait["publish"]["batch"]["values"] = [bytes(400_000)]
        wire.send(*((number, wait) for number in range(1, 13)))  # more than may be held
        refused = [await wire.receive() for _ in range(7)]  # more than half of what may be held
        assert {body["code"] for _, _, body in refused} == {"full"}
        async with asyncio.timeout(LONG):
            wire.send((50, publish(bytes(500_000))))  # what is no small request
            assert (await wire.receive())[:2] == (p.ANSWER, 50)
        assert home.budget.parked >= 5 * 400_000
        for _ in range(5):
            await home.queue.ack(message)
            async with asyncio.timeout(LONG):
                assert (await wire.receive())[0] == p.ANSWER
                (message,) = await home.queue.lease("full", wait=LONG)
        assert home.budget.parked == 0


async def test_small_publishes_that_wait_for_room_are_bounded_in_number() -> None:
    async with serving_both(MB) as home, home.wire() as wire:
        await home.queue.create_topic("full", max_depth=1)
        await home.queue.create_group("full", "default")
        await home.queue.publish("full", b"x")
        wait = msgspec.to_builtins(p.PublishOrWait(publish(b"y"), 60_000))
        wait["publish"]["topic"], wait["publish"]["batch"]["values"] = ["default", "full"], [b"y"]
        wire.send(*((number, wait) for number in range(1, 1001)))
        async with asyncio.timeout(LONG):
            refused = [await wire.receive() for _ in range(700)]
        assert {problem["code"] for _, _, problem in refused} == {"full"}
        assert home.budget.parked > 0


async def test_a_publish_over_http_that_waits_for_room_is_parked_and_published() -> None:
    async with serving_both(4 * MB) as home:
        await home.queue.create_topic("full", max_depth=1)
        await home.queue.create_group("full", "default")
        await home.queue.publish("full", b"x")
        post = {"messages": [{"value": "x" * 1000}], "wait": 50}
        posting = asyncio.create_task(home.web.post("/v1/topics/full/messages", json=post))
        await until(lambda: home.budget.parked > 1000, LONG)
        await home.queue.ack(await home.queue.lease("full"))
        assert (await posting).status_code == 201
        assert (home.budget.parked, home.budget.bytes) == (0, 0)


async def test_everything_is_given_back_when_the_store_is_slow_and_clients_leave() -> None:
    store = SlowStore()
    async with serving_both(MB, store) as home:
        store.writing.clear()
        async with home.wire() as wire:
            wire.send(*((number, publish(bytes(300_000))) for number in range(1, 9)))
            await until(lambda: bool(home.door.stalled), LONG)
        store.writing.set()
        await until(lambda: home.budget.bytes == 0, LONG)
        assert home.budget.waiting == 0


# -- those who bring nothing


async def dripping(writer: asyncio.StreamWriter, answered: asyncio.Task[Any]) -> None:
    while not answered.done():
        writer.write(b"x")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("drips", [False, True])
async def test_a_body_that_does_not_come_is_not_waited_for(drips: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_PATIENCE_SECONDS", 0.2)
    async with serving_both(64 * MB) as home:
        reader, writer = await home.announce(16 * MB)
        answered = asyncio.create_task(reader.readline())  # what comes after it may be lost to what was still sent
        if drips:
            await asyncio.wait_for(dripping(writer, answered), LONG)
        assert (await asyncio.wait_for(answered, LONG)).startswith(b"HTTP/1.1 408 ")
        await until(lambda: home.budget.bytes == 0, LONG)
        writer.close()


async def test_a_body_may_be_cut_off_that_is_just_timing_out() -> None:
    intake = body.BodyReader(Budget(MB), MB)
    reading = asyncio.create_task(intake.read(asyncio.Event().wait, {}))
    await asyncio.sleep(0)
    errors: list[Exception] = []

    def cut_again() -> None:
        try:
            intake.share.cut()
        except RuntimeError as error:
            errors.append(error)

    intake.share.cut()
    asyncio.get_running_loop().call_soon(cut_again)  # after its time was over, before it was told
    with pytest.raises(Refusal, match="did not come"):
        await reading
    assert errors == []


@pytest.mark.parametrize("drips", [False, True])
async def test_a_frame_that_does_not_come_to_its_end_is_not_waited_for(
    drips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.05)
    async with serving_both(64 * MB) as home, home.wire() as wire:
        monkeypatch.setattr(session, "IDLE_SECONDS", 0.3)
        wire.writer.write((90 * MB).to_bytes(4, "big") + bytes(1000))
        closed = asyncio.create_task(wire.receive())
        if drips:
            await asyncio.wait_for(dripping(wire.writer, closed), LONG)
        assert (await asyncio.wait_for(closed, LONG))[0] == CLOSED  # type: ignore[comparison-overlap]
        await until(lambda: home.budget.bytes == 0, LONG)


async def test_a_frame_that_comes_slowly_but_steadily_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(session, "PROGRESS_BYTES", 1000)
    async with serving_both(64 * MB) as home, home.wire() as wire:
        monkeypatch.setattr(session, "IDLE_SECONDS", 0.5)
        frame = encode_frame((1, publish(bytes(100_000))))
        for at in range(0, len(frame), 1000):
            wire.writer.write(frame[at : at + 1000])
            await asyncio.sleep(0.01)  # twice as long in all
        assert (await wire.receive())[:2] == (p.ANSWER, 1)


# -- the line by itself


class Reader:
    """Holds something, and goes on when it is told to."""

    def __init__(self, budget: Budget, name: str, told: list[str]) -> None:
        self.share = Share(budget, lambda: told.append(name), self._cut)
        self._name = name
        self._told = told

    def _cut(self) -> None:
        self._told.append(f"{self._name} is cut off")
        self.share.close()


async def test_unpacking_is_not_waited_for_longer_than_was_said() -> None:
    budget = Budget(MB)
    others = [Share(budget) for _ in range(budgets._UNPACKING_MAX)]
    async with AsyncExitStack() as stack:
        for other in others:
            await stack.enter_async_context(other.unpacking(LONG))
        with pytest.raises(TooManyError, match="try again"):
            async with asyncio.timeout(LONG), Share(budget).unpacking(0.01):
                pass
    async with asyncio.timeout(LONG), Share(budget).unpacking(LONG):
        pass  # who gave up has taken nobody's place


async def test_one_that_finds_no_room_to_unpack_makes_way_for_others() -> None:
    budget = Budget(MB)
    large = Share(budget)
    large.take(2 * MB)
    for _ in range(budgets._UNPACKING_MAX):
        waits = Share(budget)
        waits.take(budgets.SMALL_BYTES + 1)
        with pytest.raises(TooManyError):
            async with waits.unpacking(0.01):
                pass
        waits.close()
    large.close()
    async with asyncio.timeout(LONG), Share(budget).unpacking(LONG):
        pass


async def test_the_line_goes_on_in_its_order() -> None:
    budget, told = Budget(10 * MB), list[str]()
    holder, *waiting = [Reader(budget, name, told) for name in "habc"]
    holder.share.take(10 * MB)
    for reader in waiting:
        reader.share.take(MB)
        assert not reader.share.may_go_on()
    holder.share.give_back(10 * MB)
    assert told == ["a", "b", "c"]


async def test_those_that_hold_little_go_on_within_the_reserve_and_not_beyond() -> None:
    budget, told = Budget(8 * MB), list[str]()
    holder = Reader(budget, "holder", told)
    holder.share.take(20 * MB)
    assert not holder.share.may_go_on()
    for _ in range(4):
        small = Reader(budget, "small", told)
        assert small.share.may_go_on()
        small.share.take(budgets.SMALL_BYTES)
    assert not Reader(budget, "small", told).share.may_go_on()
    assert not small.share.may_go_on()


def stopped(names: str, budget: Budget, told: list[str]) -> list[Reader]:
    """Each of them has taken as much as there is for all."""
    readers = [Reader(budget, name, told) for name in names]
    for reader in readers:
        reader.share.take(MB)
        assert not reader.share.may_go_on()
    return readers


async def test_the_first_goes_on_when_nothing_is_given_back_and_only_one_at_a_time() -> None:
    budget, told = Budget(MB), list[str]()
    readers = stopped("abc", budget, told)
    await until(lambda: told == ["a"], LONG)
    readers[0].share.take(MB)
    assert readers[0].share.may_go_on()
    assert not readers[1].share.may_go_on()
    readers[0].share.close()
    await until(lambda: told == ["a", "b"], LONG)


async def test_one_that_goes_on_and_brings_nothing_does_not_keep_the_others_waiting() -> None:
    budget, told = Budget(MB), list[str]()
    stopped("ab", budget, told)
    await until(lambda: told == ["a", "b"], LONG)


async def test_one_that_goes_on_and_leaves_does_not_keep_the_others_waiting() -> None:
    budget, told = Budget(MB), list[str]()
    holder, idle, other = (Reader(budget, name, told) for name in ("holder", "idle", "other"))
    holder.share.take(2 * MB)
    for reader in (idle, other):
        reader.share.take(MB)
    assert not idle.share.may_go_on()
    await until(lambda: told == ["idle"], LONG)
    idle.share.close()
    assert not other.share.may_go_on()
    await until(lambda: told == ["idle", "other"], LONG)


async def test_who_has_left_the_line_is_not_told() -> None:
    budget, told = Budget(MB), list[str]()
    holder, gone = Reader(budget, "holder", told), Reader(budget, "gone", told)
    holder.share.take(2 * MB)
    gone.share.take(MB)
    assert not gone.share.may_go_on()
    gone.share.close()
    holder.share.close()
    assert told == []
    assert budget.bytes == 0


class Time:
    """Passes when it is told to; somebody looks at the line after each step."""

    def __init__(self, budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
        self._budget = budget
        self._now = 0.0
        monkeypatch.setattr(budgets, "monotonic", lambda: self._now)
        monkeypatch.setattr(budget, "_look_again", lambda: None)

    def pass_by(self, seconds: float, trickling: Share | None = None, size: int = 1) -> None:
        for _ in range(round(seconds / 0.1)):
            self._now += 0.1
            if trickling is not None and trickling.bytes:
                trickling.take(size)
            self._budget._look()


def in_line(budget: Budget, told: list[str], *names: str) -> list[Reader]:
    """Each has brought a large part of a request, and waits for room to bring the rest."""
    readers = [Reader(budget, name, told) for name in names]
    for reader in readers:
        reader.share.take(2 * budgets.SMALL_BYTES)
        reader.share.expect(True)
        assert not reader.share.may_go_on()
    return readers


async def test_a_byte_now_and_then_does_not_keep_the_favour(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, told = Budget(1000), list[str]()
    time = Time(budget, monkeypatch)
    trickling, _ = in_line(budget, told, "trickling", "other")
    time.pass_by(3, trickling.share)
    assert told == ["trickling", "trickling is cut off", "other"]


async def test_who_is_slow_but_steady_keeps_the_favour_for_its_turn_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget, told = Budget(1000), list[str]()
    time = Time(budget, monkeypatch)
    steady, _ = in_line(budget, told, "steady", "other")
    time.pass_by(29, steady.share, 10_000)
    assert told == ["steady"]
    time.pass_by(3, steady.share, 10_000)
    assert told == ["steady", "steady is cut off", "other"]


async def test_what_others_give_back_does_not_keep_the_first_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, told = Budget(1000), list[str]()
    time = Time(budget, monkeypatch)
    holder, busy = Reader(budget, "holder", told), Reader(budget, "busy", told)
    holder.share.take(MB)
    in_line(budget, told, "first")
    for _ in range(20):
        busy.share.take(100)
        time.pass_by(0.1)
        busy.share.give_back(100)
    assert told == ["first"]


async def test_who_holds_nothing_goes_on_though_halves_fill_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, told = Budget(8 * MB), list[str]()
    time = Time(budget, monkeypatch)
    holder, honest = Reader(budget, "holder", told), Reader(budget, "honest", told)
    holder.share.take(20 * MB)
    halves = [Reader(budget, str(at), told) for at in range(6)]
    for half in halves:
        half.share.take(budgets.SMALL_BYTES - 1000)
        half.share.expect(True)
    assert not honest.share.may_go_on()
    time.pass_by(2)
    assert told == ["0 is cut off", "1 is cut off", "honest"]  # the longest idle first, and no more than it takes


async def test_those_that_wait_in_line_with_much_are_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, told = Budget(MB), list[str]()
    time = Time(budget, monkeypatch)
    idle = Reader(budget, "idle", told)
    idle.share.take(MB)
    idle.share.expect(True)  # is read from and brings nothing
    first, *_ = in_line(budget, told, "a", "b", "c")
    time.pass_by(1.5)
    assert told == ["idle is cut off", "a"]
    first.share.expect(False)
    first.share.become(first.share.bytes)  # it is whole
    time.pass_by(0.5)
    assert told[2:] == ["b"]
    time.pass_by(1)
    assert told[3:] == ["b is cut off", "c"]


async def test_nobody_is_cut_off_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, told = Budget(MB), list[str]()
    time = Time(budget, monkeypatch)
    idle = Reader(budget, "idle", told)
    idle.share.take(MB - 1)
    idle.share.expect(True)
    time.pass_by(60)
    assert told == []


@pytest.mark.parametrize("large", [0, 4])
async def test_halves_of_a_few_do_not_starve_the_others(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each brings a byte now and then, so that it looks alive."""
    monkeypatch.setattr(budgets, "_STUCK_SECONDS", 0.2)
    async with serving_both(8 * MB) as home, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(home.wire()) for _ in range(large + 40)]
        for at, wire in enumerate(wires):
            size = 20 * MB if at < large else 250 * 1024
            wire.writer.write((90 * MB).to_bytes(4, "big") + bytes(size))
        await until(lambda: home.budget.bytes >= 9 * MB, LONG)
        answered = asyncio.create_task(_ask_small_and_large(home))
        async with asyncio.timeout(LONG):
            while not answered.done():
                for wire in wires:
                    if not wire.writer.is_closing():
                        wire.writer.write(b"\0")
                await asyncio.sleep(0.01)
        assert answered.result() == [p.ANSWER, p.ANSWER, 201, 201]
        for wire in wires:
            wire.cut()


async def _ask_small_and_large(home: Both) -> list[int]:
    async with home.wire() as wire:
        kinds: list[int] = []
        for size in (1, MB - 1000):
            wire.send((len(kinds) + 1, publish(bytes(size))))
            kinds.append((await wire.receive())[0])
    posts = [{"messages": [{"value": "x" * size}]} for size in (1, MB - 1000)]
    return kinds + [(await home.post("/messages", content)).status_code for content in posts]


async def test_a_half_body_is_answered_when_others_need_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "_STUCK_SECONDS", 0.05)
    async with serving_both(MB) as home, home.wire() as wire:
        reader, writer = await home.announce(4 * MB, bytes(2 * MB))
        await until(lambda: home.budget.bytes >= MB, LONG)
        wire.send((1, publish(bytes(MB - 1000))))
        assert (await asyncio.wait_for(wire.receive(), LONG))[:2] == (p.ANSWER, 1)
        assert (await asyncio.wait_for(reader.readline(), LONG)).startswith(b"HTTP/1.1 408 ")
        writer.close()
