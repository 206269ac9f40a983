"""Stored data is encrypted anew while the queue runs: all stays as it was, and the old key is needed no more."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from ortoo.stores.disk import history as history_module
from ortoo.stores.disk import reencryption
from ortoo.testing.simulated_disk import DiskFault, SimulatedDisk
from tests.format.directory import KEYS as OLD
from tests.format.directory import opened, small_files

from .reencrypting import (
    BOTH,
    NEW,
    NEW_NAME,
    OLD_NAME,
    filled,
    finished,
    needed,
    picture,
    reencrypt,
    until,
    without_staged,
)


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    with small_files():
        yield


# -- what it does


async def test_afterwards_the_old_key_is_needed_no_more_and_all_is_as_it_was() -> None:
    disk = await without_staged(await filled())
    async with opened(disk, BOTH) as one:
        before = await picture(one)
        assert OLD_NAME in needed(await one.queue.keys())
        outcome = await reencrypt(one)
        assert (outcome.problems, outcome.left_bytes) == ([], 0)
        assert outcome.done_bytes > 0
        assert needed(await one.queue.keys()) == {NEW_NAME}
        assert await picture(one) == before
    async with opened(disk, NEW) as one:
        assert one.store.problems == []
        assert await picture(one) == before
        await one.queue.publish("secret", b"it goes on", key="k1")
        await one.checkpoint()
    async with opened(disk, NEW) as one:
        assert one.store.problems == []


async def test_before_it_the_old_key_is_needed() -> None:
    """So that the test above would notice."""
    disk = await without_staged(await filled())
    async with opened(disk, NEW) as one:
        assert any(f"key '{OLD_NAME}' is missing" in problem for problem in one.store.problems)


async def test_frames_under_the_current_key_are_copied_as_they_are_and_plain_files_are_not_touched() -> None:
    disk = await without_staged(await filled())
    async with opened(disk, BOTH) as one:
        await one.checkpoint()
        plain = {path: bytes(file.now) for path, file in disk.names.items() if path.startswith(("logs/1/", "logs/2/"))}
        await reencrypt(one)
        once = {path: bytes(file.now) for path, file in disk.names.items() if path.startswith(("logs/", "history/"))}
        assert {path: data for path, data in once.items() if path in plain} == plain
        again = await reencrypt(one)
        assert again.done_bytes == 0
        twice = {path: bytes(file.now) for path, file in disk.names.items() if path.startswith(("logs/", "history/"))}
    assert once == twice


async def test_only_the_topics_that_were_named_are_written_anew() -> None:
    disk = await without_staged(await filled())
    async with opened(disk, BOTH) as one:
        await one.queue.create_topic("other", encrypted=True, partitions=1)
    async with opened(disk, OLD) as one:
        await one.queue.publish("other", b"under the old key")
        await one.checkpoint()
    async with opened(disk, BOTH) as one:
        assert (await reencrypt(one, ["secret"])).problems == []
        uses = (await one.queue.keys()).uses or []
        assert {use.topic for use in uses if use.key == OLD_NAME and use.segments} == {"other", "secret.dlq"}


async def test_what_an_open_transaction_staged_keeps_its_key_and_that_is_told() -> None:
    disk = await filled()
    async with opened(disk, BOTH) as one:
        [problem] = (await reencrypt(one)).problems
        assert OLD_NAME in problem
        assert "transaction" in problem
        assert OLD_NAME in needed(await one.queue.keys())
        await (await one.queue.begin("staged")).commit()
        assert (await reencrypt(one)).problems == []
        assert needed(await one.queue.keys()) == {NEW_NAME}
    async with opened(disk, NEW) as one:
        found = [message.value async for message in one.queue.read("secret")]
        assert {b"staged in secret", b"staged in secret, again"} <= set(found)


async def test_dedup_ids_whose_messages_are_gone_survive_it() -> None:
    disk = SimulatedDisk(Random(1))
    async with opened(disk) as one:
        await one.queue.create_topic("secret", partitions=1, encrypted=True)
        first = await one.queue.publish("secret", b"1", dedup_id="d")
        await one.queue.purge("secret")
        await one.store.checkpoint(*await one.broker._snapshot())
    async with opened(disk, BOTH) as one:
        await reencrypt(one)
        assert needed(await one.queue.keys()) == {NEW_NAME}
    async with opened(disk, NEW) as one:
        again = await one.queue.publish("secret", b"2", dedup_id="d")
        assert (again.offset, again.duplicate) == (first.offset, True)


async def test_a_large_history_takes_several_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reencryption, "HISTORY_BYTES", 1)
    monkeypatch.setattr(history_module, "FILE_BYTES", 300)
    disk = await without_staged(await filled())
    async with opened(disk, BOTH) as one:
        before, first = await picture(one), sum(one.store._checkpoint_seconds.counts)
        assert (await reencrypt(one)).problems == []
        histories = [one for one in one.store._catalog.histories.values() if any(p.head.sealed for p in one.places)]
        assert sum(one.store._checkpoint_seconds.counts) - first >= len(histories) > 1
        assert await picture(one) == before
    async with opened(disk, NEW) as one:
        assert await picture(one) == before


# -- what goes wrong


async def test_a_damaged_segment_stays_as_it_is_and_everything_else_is_written_anew() -> None:
    disk = await without_staged(await filled())
    async with opened(disk, BOTH) as one:
        await one.checkpoint()
        [topic] = [topic for name, topic in one.broker.engine.state.names.items() if name.name == "secret"]
        path = min(path for path in disk.names if path.startswith(f"logs/{topic.id}/0/"))
        disk.names[path].now[-1] ^= 1
        [problem] = (await reencrypt(one)).problems
        assert path in problem
        assert path in disk.names
        uses = [use for use in (await one.queue.keys()).uses or [] if use.key == OLD_NAME]
        assert [(use.topic, use.segments, use.histories, use.blocks) for use in uses] == [("secret", 1, 0, 0)]


async def test_a_history_with_damage_keeps_its_files() -> None:
    disk = await without_staged(await filled())
    async with opened(disk, BOTH) as one:
        await one.checkpoint()
        [topic] = [topic for name, topic in one.broker.engine.state.names.items() if name.name == "secret"]
        path = min(path for path in disk.names if path.startswith(f"history/{topic.id}/"))
        disk.names[path].now[-1] ^= 1
        [problem] = (await reencrypt(one)).problems
        assert path in problem
        assert path in disk.names


async def test_a_checkpoint_that_fails_is_tried_again_and_nothing_is_half_done() -> None:
    disk = await without_staged(await filled())
    async with opened(disk, BOTH) as one:
        before = await picture(one)
        failing = [True]

        def plan(_: int, kind: str) -> DiskFault:
            return "no space" if failing[0] and kind == "rename" else "none"

        disk.plan = plan
        one.store.keys().reencrypt(None, None, one.broker._commits.look)
        await until(lambda: "checkpoint" in one.store._failing)
        failing[0] = False
        one.store._paused_until = 0.0
        one.broker._commits.look()
        assert (await finished(one.store)).problems == []
        assert await picture(one) == before
    async with opened(disk, NEW) as one:
        assert one.store.problems == []
        assert await picture(one) == before


async def test_after_several_checkpoints_that_failed_it_gives_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reencryption, "CHECKPOINTS_MAX", 1)
    disk = await without_staged(await filled())
    async with opened(disk, BOTH) as one:
        disk.plan = lambda _, kind: "no space" if kind == "rename" else "none"
        [problem] = (await reencrypt(one)).problems
        assert "run it again" in problem
        disk.plan = lambda _, kind: "none"


async def test_without_room_it_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = await without_staged(await filled())
    async with opened(disk, BOTH) as one:
        await one.checkpoint()
        monkeypatch.setattr(disk, "free_bytes", lambda: 10)
        one.store._room.measure(0)
        problems = (await reencrypt(one)).problems
        assert any("no room" in problem for problem in problems)
