"""What is written of a session, and read again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ortoo.doors.mqtt.record import Keeping, SessionRecord
from ortoo.doors.mqtt.rules.state import SessionState, Subscribed, save
from ortoo.doors.mqtt.server import MqttDoor
from ortoo.doors.mqtt.storage import SESSIONS, Storage, hash_of
from ortoo.doors.mqtt.wire.packets import Subscription
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Publish

from .wired import serving

NOTHING: frozenset[int] = frozenset()


def session(filters: int) -> SessionState:
    some = {f"{'x' * 1000}/{n}": Subscribed(Subscription(f"{'x' * 1000}/{n}", 1)) for n in range(filters)}
    return SessionState("c", 60, subscriptions=some, inbox="inbox.1")


def size(keeping: Keeping) -> int:
    return sum(map(len, keeping.publish(NOTHING).batch.values))


def test_filters_are_written_once() -> None:
    record, state = SessionRecord("default", "c"), session(1_000)
    first = record.of(state)
    assert size(first) > 1_000_000
    first.done()
    state.received.add(1)
    assert size(record.of(state)) < 1_000


def test_filters_are_written_again_until_they_are_durable_and_when_they_change() -> None:
    record, state = SessionRecord("default", "c"), session(10)
    assert size(record.of(state)) > 10_000  # and nobody tells whether it is durable
    keeping = record.of(state)
    assert size(keeping) > 10_000
    keeping.done()
    removed = state.subscriptions.popitem()
    changed = record.of(state)
    assert size(changed) > 9_000
    state.subscriptions[removed[0]] = removed[1]  # as they were, but what is on its way says otherwise
    back = record.of(state)
    changed.done()
    assert size(back) > 10_000


def test_a_record_that_is_gone_says_nothing_of_what_is_durable() -> None:
    record, state = SessionRecord("default", "c"), session(10)
    record.of(state).done()
    record.removal()
    assert size(record.of(state)) > 10_000


async def restored(door: MqttDoor) -> dict[str, SessionState]:
    return {state.client_id: state async for _, state in Storage(door.services.host).sessions()}


async def test_sessions_are_read_with_their_filters_also_those_of_older_versions(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as server:
        door = server._doors["mqtt"]
        assert isinstance(door, MqttDoor)
        storage, state = door.services.storage, session(3)
        record = SessionRecord("default", "c")
        keeping = record.of(state)
        await storage.commit([], [keeping.publish(NOTHING)])
        keeping.done()
        state.received.add(7)
        await storage.commit([], [record.of(state).publish(NOTHING)])
        assert await restored(door) == {"c": state}
        older = SessionState("old", 60, subscriptions=dict(state.subscriptions))
        value = _as_before("default", save(older))
        await storage.commit([], [Publish(SESSIONS, Outgoing([value], [hash_of("default", "old")]))])
        assert await restored(door) == {"c": state, "old": older}
        await storage.commit([], [record.removal().publish(NOTHING)])
        assert await restored(door) == {"old": older}


def _as_before(namespace: str, state: bytes) -> bytes:
    return msgspec.msgpack.encode([namespace, state])
