"""What an encrypted topic holds is in no file as it is; without its key the topic waits, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import ortoo
from ortoo import ConfigError, InvalidError, Message, Queue, Received, UnavailableError
from ortoo.stores.disk import log

from .home import AFTER_EACH_COMMIT, NEVER, Home, take, values

OLD, NEW = {"k1": b"1" * 32}, {"k2": b"2" * 32}
MARKER = "xyzzy-plugh"


@pytest_asyncio.fixture(params=[NEVER, AFTER_EACH_COMMIT], ids=["no checkpoints", "checkpoints"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Home]:
    home = Home(tmp_path / "data", checkpoint_bytes=request.param)
    home.keys = OLD
    yield home
    await home.end()


def assert_no_trace(home: Home) -> None:
    assert [name for name, data in home.files().items() if MARKER.encode() in data] == []


async def speak(queue: Queue, topic: str = "secret") -> None:
    """Everything a user can write, on every way it can take."""
    key, headers = f"key {MARKER}", {f"name {MARKER}": f"header {MARKER}"}
    await queue.publish(topic, f"value {MARKER}", dedup_id=f"dedup {MARKER}", key=key, headers=headers)
    await queue.publish_many(topic, [Message(f"many {MARKER} {n}", key=key, headers=headers) for n in range(3)])
    message = (await queue.lease(topic, key=key))[0]
    await message.nack(f"error {MARKER}", delay=0)
    await queue.reject(await queue.lease(topic), f"rejected {MARKER}")
    async with queue.transaction() as tx:
        tx.ack(await queue.lease(topic))
        tx.publish(topic, f"transacted {MARKER}")
        tx.publish("plain", b"open words")
    staged = await queue.begin("job")
    await staged.publish(topic, f"staged {MARKER}", key=key, headers=headers)
    await queue.publish("plain", b"more open words")


async def test_what_is_written_is_found_in_no_file(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("secret", encrypted=True, backoff_initial=0.0)
    await speak(queue)
    assert_no_trace(home)
    assert len(await queue.dead_letters("secret")) == 1
    queue = await home.open()
    assert_no_trace(home)
    await (await queue.begin("job")).commit()
    assert max(values(await take(queue, "secret"))) == f"transacted {MARKER}".encode()
    assert values(await queue.dead_letters("secret")) == [f"value {MARKER}".encode()]
    await home.end()
    assert_no_trace(home)


async def test_nor_when_it_is_written_after_a_restart(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("secret", encrypted=True, backoff_initial=0.0)
    await queue.publish("plain", b"a commit, and perhaps a checkpoint")
    queue = await home.open()
    await speak(queue)
    queue = await home.open()
    await queue.publish("plain", b"a commit, and perhaps a checkpoint")
    assert_no_trace(home)
    await home.end()
    assert_no_trace(home)


async def test_nor_in_sealed_segments(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1)
    queue = await home.open()
    await queue.create_topic("secret", encrypted=True, partitions=1)
    for number in range(4):
        await queue.publish("secret", f"{MARKER} {number}")
    if home.checkpoint_bytes == AFTER_EACH_COMMIT:
        assert any(name.endswith(".seg") for name in home.files())
    assert_no_trace(home)
    queue = await home.open()
    assert len(await take(queue, "secret")) == 4


async def test_a_marker_in_a_plain_topic_is_found(home: Home) -> None:
    """So that the tests above would notice."""
    queue = await home.open()
    await queue.publish("plain", MARKER)
    with pytest.raises(AssertionError):
        assert_no_trace(home)


async def test_a_key_is_rotated_by_adding_one(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("secret", encrypted=True, partitions=1)
    await queue.publish("secret", f"old {MARKER}", key="a")
    await queue.publish("plain", b"so that a checkpoint writes it")
    home.keys = OLD | NEW
    queue = await home.open()
    await queue.publish("secret", f"new {MARKER}", key="a", dedup_id="d")
    assert_no_trace(home)
    queue = await home.open()
    assert values(await take(queue, "secret")) == [f"old {MARKER}".encode(), f"new {MARKER}".encode()]
    home.keys = NEW
    queue = await home.open()
    with pytest.raises(UnavailableError, match="'k1'"):
        await queue.publish("secret", b"more", key="a")
    home.keys = OLD
    queue = await home.open()
    with pytest.raises(UnavailableError, match="'k2'"):
        await queue.publish("secret", b"more", key="a")


async def test_what_is_new_is_under_the_new_key_alone(home: Home) -> None:
    home.keys = OLD | NEW
    queue = await home.open()
    await queue.create_topic("secret", encrypted=True)
    await speak(queue)
    home.keys = NEW
    queue = await home.open()
    await (await queue.begin("job")).commit()
    assert len(await take(queue, "secret")) == 4


@pytest.fixture(params=[{}, NEW], ids=["no key at all", "another key"])
def wrong_keys(request: pytest.FixtureRequest) -> dict[str, bytes]:
    keys: dict[str, bytes] = request.param
    return keys


async def fill(queue: Queue) -> list[Received]:
    """Messages in every state; returns those that are leased. With no keys and dedup ids in them, nothing has to be read."""
    await queue.create_topic("secret", encrypted=True, partitions=2, ordering="none", max_attempts=5)
    await queue.publish_many("secret", [Message(b"%d" % number) for number in range(6)])
    await queue.publish("secret", b"delayed", delay=20)
    messages = await queue.lease("secret", max_messages=4, lease=10)
    await messages[0].ack()
    await messages[1].nack("failed", delay=15)
    await messages[2].reject("never")
    await queue.publish("plain", b"1")
    return messages[3:]


async def test_without_its_key_a_topic_is_unavailable_and_the_others_are_not(
    home: Home, wrong_keys: dict[str, bytes]
) -> None:
    queue = await home.open()
    held = await fill(queue)
    home.keys = wrong_keys
    queue = await home.open()
    for attempt in (
        lambda: queue.publish("secret", b"x"),
        lambda: queue.publish("secret", b"x", key="k"),
        lambda: queue.lease("secret"),
        lambda: queue.lease("secret", group="new"),
        lambda: queue.ack(held[0].receipt),
        lambda: queue.nack(held[0].receipt),
        lambda: queue.extend(held[0].receipt, 60),
        lambda: queue.seek("secret", "default", "start"),
        lambda: queue.purge("secret"),
        lambda: queue.create_group("secret", "other"),
        lambda: queue.delete_group("secret", "default"),
        lambda: queue.message(held[0].id),
        lambda: queue.delete_message(held[0].id),
        lambda: queue.retry_now(held[0].id),
        lambda: queue.trace(held[0].id),
    ):
        with pytest.raises(UnavailableError, match="key 'k1' is missing"):
            await attempt()
    with pytest.raises((UnavailableError, ConfigError), match="key"):
        await queue.update_topic("secret", max_attempts=9)
    assert values(await take(queue, "plain")) == [b"1"]
    await queue.publish("plain", b"2", key="k")
    assert {info.name for info in await queue.topics()} == {"secret", "secret.dlq", "plain"}


async def test_nothing_is_lost_when_the_key_is_back(home: Home, wrong_keys: dict[str, bytes]) -> None:
    queue = await home.open()
    await fill(queue)
    home.keys = wrong_keys
    for _ in range(3):
        queue = await home.open()
        for number in range(5):
            await queue.publish("plain", b"meanwhile %d" % number)
            await queue.ack(await take(queue, "plain"))
            with pytest.raises(UnavailableError):
                await queue.lease("secret")
            await home.clock.advance(40)  # leases run out, delays and retries come due, retention looks around
    home.keys = OLD | wrong_keys
    queue = await home.open()
    await home.clock.advance(40)
    messages = await take(queue, "secret")
    assert sorted(values(messages)) == [b"1", b"3", b"4", b"5", b"delayed"]
    assert {message.value: message.attempt for message in messages}[b"1"] == 2
    assert {message.value: message.attempt for message in messages}[b"4"] == 1
    assert values(await queue.dead_letters("secret")) == [b"2"]
    await queue.ack(messages)
    queue = await home.open()
    await home.clock.advance(40)
    assert await take(queue, "secret") == []
    assert (await queue.group("secret")).backlog == 0


async def test_a_transaction_with_a_topic_that_is_locked_waits_for_the_key(
    home: Home, wrong_keys: dict[str, bytes]
) -> None:
    queue = await home.open()
    await queue.create_topic("secret", encrypted=True)
    staged = await queue.begin("job")
    await staged.publish("secret", b"hidden")
    await staged.publish("plain", b"open")
    home.keys = wrong_keys
    queue = await home.open()
    with pytest.raises(UnavailableError, match="key 'k1' is missing"):
        await (await queue.begin("job")).commit()
    other = await queue.begin("other")
    await other.publish("plain", b"other")
    assert await other.commit() == 1
    home.keys = OLD
    queue = await home.open()
    assert await (await queue.begin("job")).commit() == 2
    assert values(await take(queue, "secret")) == [b"hidden"]


async def test_a_topic_whose_key_is_gone_for_good_can_be_deleted(home: Home, wrong_keys: dict[str, bytes]) -> None:
    queue = await home.open()
    await fill(queue)
    home.keys = wrong_keys
    queue = await home.open()
    await queue.delete_topic("secret")
    await queue.delete_topic("secret.dlq")
    for number in range(3):
        await queue.publish("plain", b"%d" % number)
    queue = await home.open()
    assert [info.name for info in await queue.topics()] == ["plain"]
    home.keys = OLD
    queue = await home.open()
    assert [info.name for info in await queue.topics()] == ["plain"]


async def test_an_encrypted_topic_needs_a_key_to_begin_with(home: Home) -> None:
    home.keys = {}
    queue = await home.open()
    with pytest.raises(ConfigError, match="needs a key"):
        await queue.create_topic("secret", encrypted=True)
    await queue.create_topic("later")
    with pytest.raises(ConfigError, match="needs a key"):
        await queue.update_topic("later", encrypted=True)
    await queue.publish("plain", b"1")
    assert values(await take(queue, "plain")) == [b"1"]


async def test_a_wrong_key_of_the_right_name_makes_only_that_topic_unavailable(home: Home) -> None:
    queue = await home.open()
    await fill(queue)
    home.keys = {"k1": b"x" * 32}
    queue = await home.open()
    await queue.publish("plain", b"2")
    with pytest.raises(ortoo.OrtooError):
        await queue.publish("secret", b"x")
        await queue.lease("secret")
    home.keys = OLD
    queue = await home.open()
    await home.clock.advance(40)
    assert len(await take(queue, "secret")) == 5


async def test_a_key_that_was_replaced_under_its_name_is_refused_before_it_writes_anything(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("secret", encrypted=True, partitions=1)
    await queue.publish("secret", MARKER)
    await queue.purge("secret")
    await queue.publish("plain", b"so that a checkpoint leaves nothing that the old key could be tried on")
    home.keys = {"k1": b"x" * 32}
    queue = await home.open()
    with pytest.raises(UnavailableError, match="is not the one this directory was written with"):
        await queue.publish("secret", b"x")
    with pytest.raises(ConfigError):
        await queue.create_topic("another", encrypted=True)
    home.keys = OLD | {"k2": b"x" * 32}
    queue = await home.open()
    await queue.publish("secret", b"x")
    assert values(await take(queue, "secret")) == [b"x"]


@pytest.mark.parametrize("locked", [False, True], ids=["", "the key was missing in between"])
async def test_dedup_ids_outlive_their_messages_and_are_found_in_no_file(home: Home, locked: bool) -> None:
    queue = await home.open()
    await queue.create_topic("secret", encrypted=True, partitions=1)
    first = await queue.publish("secret", b"1", dedup_id=f"dedup {MARKER}")
    await queue.purge("secret")
    for keys in (OLD, {} if locked else OLD, OLD | NEW, NEW | OLD):  # each opening stands on what the last one kept
        for number in range(2):
            await queue.publish("plain", b"so that a checkpoint may come, %d" % number)
        await home.end()
        assert_no_trace(home)
        home.keys = keys
        queue = await home.open()
    again = await queue.publish("secret", b"2", dedup_id=f"dedup {MARKER}")
    assert (again.offset, again.duplicate) == (first.offset, True)


async def test_encryption_cannot_be_switched_off(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("secret", encrypted=True, partitions=1)
    await speak(queue)
    with pytest.raises(InvalidError, match="cannot be switched off"):
        await queue.update_topic("secret", encrypted=False)
    await queue.publish("plain", b"a commit, and perhaps a checkpoint")
    queue = await home.open()
    assert_no_trace(home)


async def test_keys_are_given_to_open(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path / "data", keys=OLD) as queue:
        await queue.create_topic("secret", encrypted=True)
        await queue.publish("secret", MARKER)
    async with ortoo.open(tmp_path / "data", keys=OLD) as queue:
        assert values(await queue.lease("secret")) == [MARKER.encode()]


async def test_dead_letters_of_an_encrypted_topic_never_go_to_a_readable_one(home: Home) -> None:
    queue = await home.open()
    await queue.create_topic("graves")
    with pytest.raises(InvalidError, match="encrypted topic"):
        await queue.create_topic("secret", encrypted=True, dlq_topic="graves")
    await queue.create_topic("secret", encrypted=True)
    with pytest.raises(InvalidError, match="encrypted topic"):
        await queue.update_topic("secret", dlq_topic="graves")
    with pytest.raises(InvalidError, match="encrypt it"):
        await queue.publish("secret.dlq", b"made by first use, and readable")
    await queue.publish("secret", MARKER)
    await queue.reject(await queue.lease("secret"), error=MARKER)
    assert (await queue.topic("secret.dlq")).config.encrypted
    with pytest.raises(InvalidError, match="encrypt it"):
        await queue.update_topic("secret.dlq", encrypted=False)
    assert_no_trace(home)
