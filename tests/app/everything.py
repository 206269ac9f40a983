"""A queue in which everything has happened that a store must keep, and what the public interface says of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from ortoo import Message, Queue
from ortoo.broker import Broker
from ortoo.model.errors import OrtooError
from ortoo.ports import Store
from ortoo.testing import ManualClock

KEYS = {"key": bytes(32)}
HOSTILE = "ключ \x00'\";--\\ \U0001f980"
START = 1_700_000_000.0


async def opened(store: Store, clock: ManualClock) -> tuple[Queue, Broker]:
    broker = Broker(store, clock)
    queue = Queue(broker, consumer="c")
    await queue.open()
    return queue, broker


async def fill(queue: Queue, clock: ManualClock, *, encrypted: bool = True) -> dict[str, Any]:
    """Returns receipts and ids that must still be good."""
    kept: dict[str, Any] = {}
    await queue.create_topic("plain", partitions=3, labels={"team": "one"})
    await queue.create_group("plain", "g")
    await queue.create_group("plain", "late", at="new")
    for number in range(20):
        message = Message(
            b"\xff\x00" * number,
            key=f"k{number % 5}",
            headers={"n": str(number), "odd": HOSTILE.replace("\x00", "")},
            dedup_id=f"id-{number}",
        )
        await queue.publish_many("plain", [message])
        await clock.advance(0.01)
    await queue.publish("plain", {"json": True}, key=HOSTILE, priority=3)
    await queue.publish("plain", b"delayed", delay=500)
    await queue.publish("plain", b"expires", ttl=900)
    acked = await queue.lease("plain", group="g", max_messages=4)
    await queue.ack(acked[:3])
    await queue.nack(acked[3:], error="not today", delay=60)
    kept["leased"] = await queue.lease("plain", group="g", max_messages=2, lease=3_000)
    kept["acked"] = acked[0]
    await queue.create_topic("dying", partitions=1, max_attempts=1)
    await queue.create_group("dying", "g")
    await queue.publish_many(
        "dying", [Message(b"dies", key="a"), Message(b"rejected", key="b"), Message(b"stays", key="c")]
    )
    for error in ("it broke", "again"):
        [one] = await queue.lease("dying", group="g")
        await queue.reject(one, error=error)
    await queue.create_topic("latest", partitions=2, keep="latest")
    for number in range(12):
        await queue.publish("latest", f"v{number}", key=f"k{number % 3}")
        await clock.advance(0.01)
    await queue.create_topic("purged", partitions=2)
    await queue.publish_many("purged", [Message(b"gone", key=str(n)) for n in range(10)])
    await queue.purge("purged")
    await queue.publish_many("purged", [Message(b"new", key=str(n), dedup_id=str(n)) for n in range(4)])
    await queue.create_topic("holes", partitions=1, ordering="partition")
    sent = await queue.publish_many("holes", [Message(f"m{n}", dedup_id=f"h{n}") for n in range(10)])
    for at in (0, 4, 5, 9):
        await queue.delete_message(sent[at].id)
    await queue.create_topic("deleted")
    await queue.publish("deleted", b"x")
    await queue.delete_topic("deleted")
    if encrypted:
        await queue.create_topic("secret", partitions=2, encrypted=True, dedup_scope="key")
        await queue.create_group("secret", "g")
        messages = [Message(b"hidden", key=f"s{n}", headers={"a": "b"}, dedup_id=f"s{n}") for n in range(6)]
        await queue.publish_many("secret", messages)
        [one] = await queue.lease("secret", group="g")
        await queue.nack(one, error="a secret error")
    await _stage(queue, encrypted)
    await queue.create_group("plain", "paused")
    await queue.pause_group("plain", "paused", reason="tests")
    await queue.mark_archived("plain", {0: 1})
    await queue.set_namespace("limited", topics=3)
    await clock.advance(40)
    await until(queue, lambda: _is_trimmed(queue))
    return kept


async def _stage(queue: Queue, encrypted: bool) -> None:
    staged = await queue.begin("tx", timeout=3_000)
    for number in range(5):
        await staged.publish_many(
            "plain", [Message(f"staged {number}", key="k"), Message(b"\x00", dedup_id=f"st{number}")]
        )
    if encrypted:
        await staged.publish("secret", b"staged and hidden", key="k")
    await (await queue.begin("done")).commit()


async def _is_trimmed(queue: Queue) -> bool:
    """What a topic that keeps the latest has before them goes by itself."""
    infos = (await queue.topic("latest")).partitions
    return all(info.messages == info.end - info.start for info in infos)


async def _is_due(queue: Queue) -> bool:
    groups = await queue.groups("plain")
    return not any(group.delayed for group in groups)


async def until(queue: Queue, is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def picture(queue: Queue) -> dict[tuple[str, ...], Any]:
    """All that can be seen without changing anything. How many bytes there are of what is partly gone, is only about right."""
    seen: dict[tuple[str, ...], Any] = {("namespaces",): [replace(one, bytes=0) for one in await queue.namespaces()]}
    for info in await queue.topics():
        partitions = [replace(one, bytes=0) for one in info.partitions]
        seen[info.name, "info"] = replace(info, bytes=0, partitions=partitions)
        seen[info.name, "ends"] = (await queue.offsets(info.name, at="start"), await queue.offsets(info.name, at="end"))
        seen[info.name, "messages"] = [
            (m.id, m.value, m.key, m.headers, m.priority, m.timestamp) async for m in queue.read(info.name)
        ]
        for group in await queue.groups(info.name):
            seen[info.name, group.name] = group
            seen[info.name, group.name, "leases"] = await queue.leases(info.name, group.name)
        for id in [row[0] for row in seen[info.name, "messages"]]:
            try:
                seen[id, "trace"] = await queue.trace(id)
                seen[id, "states"] = (await queue.message(id)).states
            except OrtooError as error:
                seen[id, "trace"] = str(error)
    return seen


async def aftermath(queue: Queue, clock: ManualClock, kept: dict[str, Any], *, encrypted: bool = True) -> list[Any]:
    """What goes on from there."""
    seen: list[Any] = []
    await queue.ack(kept["acked"])  # once more
    await queue.ack(kept["leased"][0])
    await queue.extend(kept["leased"][1], 60)
    seen.append([one.duplicate for one in await queue.publish_many("plain", [Message(b"?", dedup_id="id-3")])])
    seen.append([one.duplicate for one in await queue.publish_many("holes", [Message(b"?", dedup_id="h4")])])
    if encrypted:
        again = Message(b"?", key="s1", dedup_id="s1")
        seen.append(
            [
                one.duplicate
                for one in await queue.publish_many("secret", [again, Message(b"?", key="o", dedup_id="s1")])
            ]
        )
    seen.append(await queue.named("tx").commit())
    seen.append(await queue.named("done").commit())
    seen.append(await queue.redrive("dying"))
    await queue.resume_group("plain", "paused")
    for _ in range(2):
        for topic, group in (("plain", "g"), ("plain", "paused"), ("plain", "late"), ("dying", "g"), ("latest", "x")):
            found = await queue.lease(topic, group=group, max_messages=100)
            seen.append([(topic, group, m.id, m.value, m.attempt, m.key, m.headers, m.receipt) for m in found])
            await queue.ack(found)
        await clock.advance(600)
        await until(queue, lambda: _is_due(queue))
    made = await queue.create_topic("made-later")
    seen.append(made.id)
    seen += [[record async for record in queue.read_history("plain", partition=at)] for at in range(3)]
    return seen


async def wander(queue: Queue, clock: ManualClock, random: Random, steps: int) -> None:
    """Whatever comes: what is refused is refused."""
    names = ("a", "b", "c.dlq", "latest", "secret")
    settings: dict[str, dict[str, Any]] = {
        "a": {"partitions": 2, "max_attempts": 2},
        "b": {"partitions": 1, "ordering": "partition", "retention_seconds": 60.0},
        "c.dlq": {"partitions": 3, "ordering": "none", "ttl": 50.0, "on_expire": "dlq"},
        "latest": {"partitions": 2, "keep": "latest"},
        "secret": {"partitions": 1, "encrypted": True, "dedup_window": 60.0},
    }
    leased: list[Any] = []
    for _ in range(steps):
        topic, group = random.choice(names), random.choice(("g", "h"))
        try:
            match random.randrange(12):
                case 0 | 1 | 2 | 3:
                    await queue.ensure_topic(topic, **settings[topic])
                    await queue.publish_many(topic, [_message(random) for _ in range(random.choice((1, 3, 40)))])
                case 4 | 5:
                    leased += await queue.lease(topic, group=group, max_messages=random.choice((1, 5, 30)))
                case 6 | 7 if leased:
                    some = [leased.pop(random.randrange(len(leased))) for _ in range(min(4, len(leased)))]
                    settle = random.choice((queue.ack, queue.nack, queue.reject, queue.release))
                    for one in some:
                        await settle(one)
                case 8:
                    messages = [message.id async for message in queue.read(topic)]
                    for _ in range(min(3, len(messages))):
                        await queue.delete_message(random.choice(messages))
                case 9:
                    staged = await queue.begin(f"tx{random.randrange(3)}")
                    await staged.publish_many(topic, [_message(random) for _ in range(3)])
                    if random.random() < 0.5:
                        await staged.commit()
                case 10:
                    if random.random() < 0.2:
                        await random.choice((queue.purge, queue.delete_topic))(topic)
                    else:
                        await queue.seek(topic, group, random.choice(("all", "new")))
                case 11:
                    await clock.advance(random.choice((0.1, 3, 40)))
        except OrtooError:
            continue


def _message(random: Random) -> Message:
    return Message(
        random.randbytes(random.choice((0, 3, 300))),
        key=random.choice((None, "k", HOSTILE, str(random.randrange(9)))),
        headers=random.choice((None, {"a": "b"})),
        priority=random.choice((4, 4, 1)),
        delay=random.choice((None, None, 20.0)),
        ttl=random.choice((None, None, 30.0)),
        dedup_id=random.choice((None, str(random.randrange(30)))),
    )
