"""Who did what, and who tried: written down, bounded, and never in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import ortoo
from ortoo.app import audit as audits
from ortoo.app.audit import Audit
from ortoo.app.server import Server
from ortoo.model.audit import AUDIT_TOPIC, AuditEvent, group_of, target_of
from ortoo.model.commands import CreateTopic, DeleteGroup, Publish, PurgeTopic
from ortoo.model.errors import FullError, InvalidError, UnauthenticatedError
from ortoo.model.names import TopicName
from ortoo.model.settings import HttpSettings, Settings, TcpSettings

TOKEN = "the-token-of-the-server"
SYSTEM, NAME = AUDIT_TOPIC


class Recorder:
    """A link that keeps what is published, or refuses it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.refuses = False
        self.refused: bytes | None = None
        self.calls: list[Any] = []

    async def call(self, command: Any) -> None:
        self.calls.append(command)

    async def publish(self, command: Publish) -> None:
        if self.refuses:
            raise FullError("no room")
        if self.refused is not None and any(self.refused in value for value in command.batch.values):
            raise InvalidError("too large")
        assert command.topic == AUDIT_TOPIC
        self.events += [msgspec.json.decode(value) for value in command.batch.values]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def failed(number: int = 0, **more: Any) -> AuditEvent:
    return AuditEvent(
        who="?", action="Authenticate", outcome="unauthenticated", door="tcp", address=f"10.0.0.{number}", **more
    )


async def finished(audit: Audit) -> None:
    audit.start()
    await audit.stop()


async def test_a_flood_of_one_kind_is_summed_up() -> None:
    link, clock = Recorder(), Clock()
    audit = Audit(link, clock)  # type: ignore[arg-type]
    for _ in range(100_000):
        audit.note(failed())
    assert len(audit._buffer) == audits.ALIKE_MAX
    clock.now += audits.WINDOW_SECONDS
    audit.note(failed())
    await finished(audit)
    assert [event.get("count", 1) for event in link.events] == [1] * 20 + [100_000 - 20, 1]


async def test_a_flood_from_many_addresses_is_bounded() -> None:
    link = Recorder()
    audit = Audit(link, Clock())  # type: ignore[arg-type]
    for number in range(50_000):
        audit.note(failed(number))
    assert len(audit._seen) <= audits.KINDS_MAX + 1
    await finished(audit)
    assert len(link.events) <= audits.KINDS_MAX + audits.ALIKE_MAX + 1
    assert sum(event.get("count", 1) for event in link.events) == 50_000


async def test_what_cannot_be_written_waits_is_bounded_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "BUFFERED_MAX", 5)
    link = Recorder()
    link.refuses = True
    audit = Audit(link, Clock())  # type: ignore[arg-type]
    for number in range(8):
        audit.note(failed(number))
    assert audit.problems() == [
        "3 audit events could not be written to topic 'system/ortoo.audit'; the log has some of them"
    ]
    link.refuses = False
    await finished(audit)
    assert len(link.events) == 5


async def test_its_topic_is_made_again_where_somebody_deleted_it() -> None:
    link = Recorder()
    audit = Audit(link, Clock())  # type: ignore[arg-type]
    for number in range(3):
        audit.note(failed(number))
        await finished(audit)
    assert [type(call) for call in link.calls] == [CreateTopic] * 3


async def test_an_event_that_can_never_be_written_does_not_hold_up_the_others() -> None:
    link = Recorder()
    link.refused = b"10.0.0.1"
    audit = Audit(link, Clock())  # type: ignore[arg-type]
    for number in range(3):
        audit.note(failed(number))
    await finished(audit)
    assert [event["address"] for event in link.events] == ["10.0.0.0", "10.0.0.2"]
    assert len(audit.problems()) == 1


async def test_a_topic_that_cannot_be_written_is_a_problem_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "_PAUSE_SECONDS", 0)
    link = Recorder()
    link.refuses = True
    audit = Audit(link, Clock())  # type: ignore[arg-type]
    audit.start()
    audit.note(failed())
    async with asyncio.timeout(60):
        while not audit.problems():  # noqa: ASYNC110  # it is asked, and tells nobody
            await asyncio.sleep(0)
        assert audit.problems() == ["the audit topic 'system/ortoo.audit' cannot be written: FullError"]
        link.refuses = False
        while audit.problems():  # noqa: ASYNC110
            await asyncio.sleep(0)
    await audit.stop()
    assert len(link.events) == 1


async def test_what_may_have_been_done_is_told_each_time_too() -> None:
    link = Recorder()
    audit = Audit(link, Clock())  # type: ignore[arg-type]
    for number in range(100):
        audit.note(AuditEvent(who="ann", action="DeleteTopic", outcome="unknown", door="tcp", target=f"t{number}"))
    await finished(audit)
    assert [event["target"] for event in link.events] == [f"t{number}" for number in range(100)]


async def test_what_was_done_is_told_each_time_whatever_fails_beside_it() -> None:
    link = Recorder()
    audit = Audit(link, Clock())  # type: ignore[arg-type]
    for number in range(5_000):
        audit.note(failed(number))
    for number in range(100):
        audit.note(AuditEvent(who="ann", action="DeleteTopic", outcome="ok", door="tcp", target=f"t{number}"))
    await finished(audit)
    done = [event for event in link.events if event["action"] == "DeleteTopic"]
    assert [(event["who"], event["target"]) for event in done] == [("ann", f"t{number}") for number in range(100)]


async def test_the_same_done_again_and_again_is_summed_up() -> None:
    """It need not change anything, so no quota bounds it: the first are told at once, and how many more there were."""
    link, clock = Recorder(), Clock()
    audit = Audit(link, clock)  # type: ignore[arg-type]
    for number in range(50_000):
        audit.note(done("ann", f"t{number % 2}"))
    assert len(audit._buffer) == 2 * audits.DONE_ALIKE_MAX
    clock.now += audits.WINDOW_SECONDS
    audit.note(done("ann", "t0"))
    await finished(audit)
    counts = [(event["target"], event.get("count", 1)) for event in link.events]
    assert counts == [("t0", 1), ("t1", 1)] * 3 + [("t0", 24_997), ("t1", 24_997), ("t0", 1)]
    assert {event["who"] for event in link.events} == {"ann"}


async def test_whatever_differs_is_told_by_itself() -> None:
    link = Recorder()
    audit = Audit(link, Clock())  # type: ignore[arg-type]
    for _ in range(100):
        audit.note(done("ann", "t"))
    several = [done("bob", "t"), done("ann", "t", action="DeleteTopic"), done("ann", "t", group="g"), done("ann", "u")]
    several += [done("ann", "t", address="10.0.0.1"), done("ann", "t", token="2"), done("ann", "t", namespace="n")]
    for event in several:
        audit.note(event)
    await finished(audit)
    told = [msgspec.convert(event, AuditEvent) for event in link.events]
    assert told == [done("ann", "t")] * 3 + several + [msgspec.structs.replace(done("ann", "t"), count=97)]


async def test_more_different_things_than_are_told_apart_are_told_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was done is hidden among others, and what is kept of it is bounded."""
    monkeypatch.setattr(audits, "DONE_MAX", 5)
    link = Recorder()
    audit = Audit(link, Clock())  # type: ignore[arg-type]
    for number in range(100):
        audit.note(done("ann", f"t{number // 10}"))
    assert len(audit._done) == 5
    await finished(audit)
    told = {f"t{n}": [e.get("count", 1) for e in link.events if e["target"] == f"t{n}"] for n in range(10)}
    assert told == {f"t{n}": [1, 1, 1, 7] if n < 5 else [1] * 10 for n in range(10)}


def done(who: str, target: str, action: str = "CreateTopic", **more: Any) -> AuditEvent:
    return AuditEvent(who=who, action=action, outcome="ok", door="tcp", target=target, **more)


def test_what_is_done_to_a_group_names_it() -> None:
    name = TopicName("n", "t")
    assert group_of(DeleteGroup(name, "g" * 10_000)) == "g" * 300
    assert group_of(PurgeTopic(name)) is None


def test_a_target_is_short_whatever_a_client_calls_a_topic() -> None:
    assert target_of(PurgeTopic(TopicName("n" * 10_000, "t" * 10_000))) == ("n" * 300, "t" * 300)


@asynccontextmanager
async def serving(tmp_path: Path, **settings: Any) -> AsyncIterator[Server]:
    given = Settings(data=str(tmp_path), tcp=TcpSettings(port=0), http=HttpSettings(port=0), **settings)
    server = Server(given)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def read(server: Server, count: int) -> list[dict[str, Any]]:
    """So many events, once they are written."""
    async with ortoo.connect(f"ortoo://127.0.0.1:{server.addresses['tcp'][1]}", token=TOKEN, namespace=SYSTEM) as queue:
        while True:
            try:
                found = [message.json() async for message in queue.read(NAME)]
            except ortoo.NotFoundError:
                found = []
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


async def test_administration_and_failed_logins_are_written_down(tmp_path: Path) -> None:
    async with serving(tmp_path, token=TOKEN) as server:
        url = f"ortoo://127.0.0.1:{server.addresses['tcp'][1]}"
        async with ortoo.connect(url, token=TOKEN) as queue:
            await queue.create_topic("orders")
            await queue.publish("orders", b"the value", key="the key")
            await queue.ack(await queue.lease("orders"))
            with pytest.raises(ortoo.NotFoundError):
                await queue.delete_topic("nothing")
        with pytest.raises(UnauthenticatedError):
            async with ortoo.connect(url, token="guessed"):
                pass
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.addresses['http'][1]}") as web:
            assert (await web.get("/v1/topics", headers={"authorization": "Bearer guessed"})).status_code == 401
        events = await read(server, 4)
        assert [(e["who"], e["action"], e["outcome"], e["door"], e.get("target")) for e in events] == [
            ("token", "CreateTopic", "ok", "tcp", "orders"),
            ("token", "DeleteTopic", "not_found", "tcp", "nothing"),
            ("?", "Authenticate", "unauthenticated", "tcp", None),
            ("?", "Authenticate", "unauthenticated", "http", None),
        ]
        assert {event["address"] for event in events} == {"127.0.0.1"}
    text = repr(events)
    assert not any(secret in text for secret in (TOKEN, "guessed", "the value", "the key"))


async def test_events_survive_a_restart_and_go_on(tmp_path: Path) -> None:
    for number in range(2):
        async with serving(tmp_path, token=TOKEN) as server:
            url = f"ortoo://127.0.0.1:{server.addresses['tcp'][1]}"
            async with ortoo.connect(url, token=TOKEN) as queue:
                await queue.create_topic(f"t{number}")
    async with serving(tmp_path, token=TOKEN) as server:
        assert [event["target"] for event in await read(server, 2)] == ["t0", "t1"]


async def test_without_tokens_nothing_is_written_unless_it_is_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        assert server.audit is None
    async with serving(tmp_path, audit=audits_on()) as server:
        assert server.audit is not None


def audits_on() -> Any:
    from ortoo.model.settings import AuditSettings

    return AuditSettings(enabled=True)
