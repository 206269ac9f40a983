"""What one tenant tried against another, and against the auditor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from ortoo.model import commands as c
from ortoo.model import queries as q
from ortoo.model.access import Grant
from ortoo.model.batch import Outgoing
from ortoo.model.errors import CorruptionError
from ortoo.model.names import INBOX_LABELS, TopicId, TopicName, parse_receipt
from ortoo.model.replies import Columns
from ortoo.model.topic import INBOX_CONFIG, TopicConfig
from ortoo.wire import protocol as p
from tests.doors.roles import OURS, ROLES, Shared, serving_roles
from tests.doors.tcp.home import until

LONG = 60


@pytest.fixture
async def home() -> AsyncIterator[Shared]:
    async with serving_roles() as home:
        yield home


INBOX = f"reply.{0x4711:032x}"


async def code_of(home: Shared, role: str, *requests: object) -> list[str | None]:
    codes = []
    async with home.wire(greets=False) as wire:
        await wire.hello(role)
        for request in requests:
            kind, body = await wire.ask(request)
            codes.append(body["code"] if kind == p.ERROR else None)
    return codes


async def test_an_inbox_belongs_to_whoever_made_it(home: Shared) -> None:
    inbox = TopicName(OURS, INBOX)
    assert await code_of(home, "worker", c.CreateTopic(inbox, INBOX_CONFIG)) == [None]
    answer = c.Publish(inbox, Outgoing([b"PIN=1234"]))
    assert await code_of(home, "mails admin", answer) == [None]  # whoever is asked may answer
    scan, lease = q.Scan(inbox, 0, c.START), c.Lease(topic=inbox.name, namespace=OURS, consumer="x")
    others = await code_of(home, "mails admin", scan, lease, c.DeleteTopic(inbox), c.CreateTopic(inbox, INBOX_CONFIG))
    assert others == ["forbidden", "forbidden", "forbidden", "exists"]
    listed = (await home.ask("mails admin", "GET", f"/v1/topics?namespace={OURS}")).json()["topics"]
    assert listed == []
    assert INBOX not in (await home.ask("mails admin", "GET", "/metrics")).text
    assert await code_of(home, "reader", c.DeleteTopic(inbox)) == ["forbidden"]
    assert await code_of(home, "worker", scan, lease, c.DeleteTopic(inbox)) == [None, None, None]


async def test_who_has_the_same_grants_is_not_told_of_the_inboxes_of_others(
    home: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who ask for figures at the same time share what was measured, if they may see the same."""
    inbox = TopicName(OURS, "reply.4711")
    for name in ("alice", "bob"):
        monkeypatch.setitem(ROLES, name, (Grant(("read", "write"), OURS, ("orders*",)),))
    assert await code_of(home, "alice", c.CreateTopic(inbox, INBOX_CONFIG)) == [None]
    links = [home.gate.admit(name) for name in ("alice", "bob")]
    figures = await asyncio.gather(*(link.ask(q.GetMetrics()) for link in links))
    assert [[topic.name for topic in one.topics] for one in figures] == [[inbox], []]


@pytest.mark.parametrize(
    "config",
    [
        TopicConfig(labels=INBOX_LABELS, dlq_topic="orders"),
        TopicConfig(labels=INBOX_LABELS, dlq_webhook="http://127.0.0.1:1"),
        TopicConfig(labels=INBOX_LABELS),
    ],
)
async def test_an_inbox_is_nothing_but_an_inbox(home: Shared, config: TopicConfig) -> None:
    assert await code_of(home, "writer", c.CreateTopic(TopicName(OURS, INBOX), config)) == ["forbidden"]


@pytest.mark.parametrize("role", ["nobody", "stranger", "mails admin", "writer"])
async def test_a_consumers_name_ends_nothing_of_others(home: Shared, role: str) -> None:
    await home.queue.create_topic("orders", namespace=OURS)
    await home.queue.publish("orders", b"1", namespace=OURS)
    async with home.connect(token="worker", namespace=OURS, consumer="ann") as victim:
        [held] = await victim.lease("orders", lease=300)
        poll = c.Lease(topic="orders", namespace=OURS, consumer="ann")
        subscribe = p.Subscribe(poll, 10)
        await code_of(home, role, poll, c.Leave("ann"))
        async with home.wire(greets=False) as wire:
            await wire.hello(role)
            await wire.ask(subscribe)
        presence = home.gate.presence
        await until(lambda: all(grants != home.roles.admit(role).grants for grants, _ in presence._connected), LONG)
        for who in [who for who in presence._absent if who[0] == home.roles.admit(role).grants]:
            presence._absent[who].cancel()
            presence._time_out(who)
        await asyncio.gather(*presence._leaving)
        await victim.ack(held)


async def test_names_are_short_before_anything_is_kept_of_them(home: Shared) -> None:
    names = [TopicName(OURS, "\x01" * 200_000), TopicName("n" * 100_000, "t")]
    requests = [request for name in names for request in (c.Publish(name, Outgoing([b""])), q.GetTopic(name))]
    assert await code_of(home, "mails admin", *requests) == ["invalid"] * 4


async def test_a_transaction_tells_nothing_of_the_leases_of_others(home: Shared) -> None:
    await home.queue.publish("orders", b"1", namespace=OURS)
    [held] = await home.queue.lease("orders", namespace=OURS, group="g", lease=300)
    ref = parse_receipt(held.receipt)
    theirs = c.Run(ref.topic, ref.group, ref.lease, ref.partition, [ref.offset])
    nobodys = c.Run(9_999, ref.group, ref.lease, ref.partition, [ref.offset])  # type: ignore[arg-type]
    async with home.wire(greets=False) as wire:
        await wire.hello("stranger")
        for acks in ([0], [0, 0], []):
            told = []
            for run in (theirs, nobodys):
                chosen = [run for _ in acks] or [msgspec.structs.replace(run, offsets=[])]
                told.append(repr(await wire.ask(c.Transact(chosen, []))).replace("9999.", f"{ref.topic}."))
            assert told[0] == told[1]
    await home.queue.ack(held)


@pytest.mark.parametrize("name", ["reply.failed", "reply.orders.dlq", "reply.4711", "reply.", f"reply.{'F' * 32}"])
async def test_only_what_is_named_like_an_inbox_is_one(name: str, home: Shared) -> None:
    """Else the dead letters of others could be had by making their topic first."""
    made = await code_of(home, "mails admin", c.CreateTopic(TopicName(OURS, name), INBOX_CONFIG))
    assert made == ["forbidden"]


async def test_a_label_alone_makes_nobody_the_owner_of_a_topic(home: Shared) -> None:
    topic = TopicName(OURS, INBOX)
    await home.queue.create_topic(INBOX, namespace=OURS, labels={"owner": "mails admin"})
    scan, publish = q.Scan(topic, 0, c.START), c.Publish(topic, Outgoing([b"x"]))
    assert await code_of(home, "mails admin", scan, publish, c.DeleteTopic(topic)) == ["forbidden"] * 3


async def test_an_answer_to_somebody_who_has_gone_makes_no_topic(home: Shared) -> None:
    answer = c.Publish(TopicName(OURS, INBOX), Outgoing([b"x"]))
    assert await code_of(home, "mails admin", answer) == ["not_found"]
    assert await code_of(home, "server", answer) == ["not_found"]
    assert await home.queue.topics(namespace=OURS) == []


async def test_a_poll_acks_only_what_it_hands_out(home: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read fails, as it does for those whose tokens never end, and is told of among the dead letters."""
    await home.queue.create_topic("orders", namespace=OURS, partitions=1, max_attempts=1)
    await home.queue.publish_many("orders", [b"%d" % number for number in range(3)], namespace=OURS)
    read = home.broker.store.read

    async def damaged(topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        if 1 in offsets:
            raise CorruptionError("the frame of message 1 is damaged")
        return await read(topic, partition, offsets)

    monkeypatch.setattr(home.broker.store, "read", damaged)
    async with home.connect(token="reader", namespace=OURS) as queue:
        taken = await queue.lease("orders", max_messages=3, wait=1, lease=30, auto_ack=True)
    assert [message.value for message in taken] == [b"0", b"2"]
    [group] = (await home.queue.topic("orders", namespace=OURS)).groups
    assert group.leased == 1


async def test_a_publish_that_waits_for_room_is_not_done_once_its_token_is_revoked(home: Shared) -> None:
    await home.queue.create_topic("orders", namespace=OURS, max_depth=1)
    await home.queue.publish("orders", b"1", namespace=OURS)
    async with home.wire(greets=False) as wire:
        await wire.hello("writer")
        wire.send((1, p.PublishOrWait(c.Publish(TopicName(OURS, "orders"), Outgoing([b"2"])), 60_000)))
        await until(lambda: bool(home.broker._capacity_waiters), LONG)
        home.roles.revoked.add("writer")
        await home.queue.ack(await home.queue.lease("orders", namespace=OURS))
        kind, _, body = await wire.receive()
        assert (kind, body["code"]) == (p.ERROR, "unauthenticated")
    assert (await home.queue.topic("orders", namespace=OURS)).depth == 0


async def test_what_a_revoked_poll_would_have_acked_is_for_others(home: Shared) -> None:
    await home.queue.create_topic("orders", namespace=OURS)
    async with home.wire(greets=False) as wire:
        await wire.hello("reader")
        wire.send((1, c.Lease(topic="orders", namespace=OURS, consumer="x", wait_ms=60_000, auto_ack=True)))
        await home.waiters(1)
        home.roles.revoked.add("reader")
        await home.queue.publish("orders", b"1", namespace=OURS)
        assert (await wire.receive())[2]["code"] == "unauthenticated"
    assert len(await home.queue.lease("orders", namespace=OURS)) == 1


async def test_a_poll_that_acks_by_itself_does(home: Shared) -> None:
    await home.queue.create_topic("orders", namespace=OURS)
    async with home.connect(token="reader", namespace=OURS) as queue:
        polling = asyncio.create_task(queue.lease("orders", wait=60, auto_ack=True))
        await home.waiters(1)
        await home.queue.publish("orders", b"1", namespace=OURS)
        assert [message.value for message in await polling] == [b"1"]
    assert (await home.queue.topic("orders", namespace=OURS)).depth == 0
