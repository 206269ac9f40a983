"""Who is there: bounded for each tenant, and nobody waits while many leave. Counted, not timed."""

from __future__ import annotations

from typing import Any

import pytest

from ortoo.broker import presence
from ortoo.broker.presence import Consumers, Presence, Who
from ortoo.model import limits
from ortoo.model.access import Grant
from ortoo.model.commands import Leave
from tests.doors.tcp.home import until
from tests.turns import Turns, counting_turns


class Door:
    """In the place of a broker: counts who leaves, and in which turn."""

    def __init__(self, turns: Turns | None = None) -> None:
        self.left: list[tuple[int, str]] = []
        self._turns = turns

    async def call(self, command: Any) -> None:
        assert isinstance(command, Leave)
        self.left.append((self._turns.count if self._turns else 0, command.consumer))


def make(door: Door) -> Presence:
    return Presence(door)


def of(tenant: str, consumer: str) -> Who:
    return (Grant(("read",), tenant),), consumer


async def test_those_of_one_connection_leave_a_few_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSION_TIMEOUT_MS", 10)
    async with counting_turns() as turns:
        door = Door(turns)
        here = make(door)
        consumers = Consumers(here, lambda name: of("shop", name))
        for number in range(1_000):
            consumers.note(f"c{number}")
        consumers.went()
        assert len(here._absent) <= presence._SEEN_OFF_PER_TURN
        await until(lambda: len(door.left) == 1_000, 60)
    by_turn = [turn for turn, _ in door.left]
    assert max(map(by_turn.count, set(by_turn))) <= 2 * presence._LEAVES_PER_TURN
    assert not here._connected
    assert not here._noted


async def test_who_comes_again_in_time_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSION_TIMEOUT_MS", 10)
    door = Door()
    here = make(door)
    for name in ("ann", "ben"):
        here.came(of("shop", name))
    here.went([of("shop", "ann"), of("shop", "ben")])
    here.came(of("shop", "ann"))
    await until(lambda: not here._absent and not here._leaving)
    assert [name for _, name in door.left] == ["ben"]
    assert here.is_known(of("shop", "ann"))


async def test_a_tenant_with_very_many_names_pushes_out_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "_REQUESTED_MAX", 10)
    here = make(Door())
    here.requested(of("victim", "worker"))
    for number in range(100):
        here.requested(of("flood", f"f{number}"))
    here.came(of("victim", "worker"))
    assert len(here._requested) == 10
    assert not here.ended(of("victim", "worker"), presence.EVERYWHERE)  # it goes on by requests


async def test_of_a_tenant_so_many_are_noted_over_all_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "_NOTED_MAX", 10)
    here = make(Door())
    connections = [Consumers(here, lambda name: of("flood", name)) for _ in range(3)]
    for number, consumers in enumerate(connections):
        for name in range(5):
            consumers.note(f"{number}-{name}")
    assert len(here._connected) == 10
    assert here.came(of("victim", "worker"))
    connections[2].note("0-0")  # known already
    assert here._connected[of("flood", "0-0")] == 2
    connections[0].went()
    assert len(here._absent) == 4  # they may come again, and count until they have left
    assert not here.came(of("flood", "another"))
    here.close()


async def test_a_connection_that_is_gone_notes_nobody() -> None:
    here = make(Door())
    consumers = Consumers(here, lambda name: of("shop", name))
    consumers.went()
    consumers.note("late")
    assert not here._connected
