"""A move that ends anywhere is finished by the next one, or says what is in its way; what cannot be done is refused first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortoo import Message
from ortoo.app.migrate import migrate
from ortoo.app.resharding import move_shards
from ortoo.app.shards import make_brokers
from ortoo.app.stores import open_store
from ortoo.broker import Broker
from ortoo.broker.shards import Shards
from ortoo.client import Queue
from ortoo.model.errors import ConfigError, ExistsError, OrtooError, UnavailableError
from ortoo.stores.disk import moving
from ortoo.stores.disk.files import sync
from ortoo.stores.disk.moving import DirectoryTarget
from ortoo.stores.postgres import PostgresTarget, connections
from ortoo.testing import ManualClock
from tests.stores.postgres_server import fresh_url

from .everything import START

TOPICS = [f"t{number}" for number in range(6)]


class KilledError(BaseException):
    pass


async def values(stores: list[str]) -> list[bytes]:
    brokers = make_brokers(stores, None, lambda store, shard: Broker(store, ManualClock(START), shard=shard))
    async with Queue(Shards(brokers, stores)) as queue:
        return [message.value for name in TOPICS async for message in queue.read(name)]


async def publish(stores: list[str], value: bytes) -> None:
    brokers = make_brokers(stores, None, lambda store, shard: Broker(store, ManualClock(START), shard=shard))
    async with Queue(Shards(brokers, stores)) as queue:
        for name in TOPICS:
            await queue.publish_many(name, [Message(value)])


class Steps:
    """Ends at the step of that number, before it or after it."""

    def __init__(self, last: int) -> None:
        self.left = last
        self.is_on = False

    def killing(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if self.is_on:
                self.left -= 1
                if self.left < 0:
                    raise KilledError
            return step(*arguments, **options)

        return wrapped


def kill_at(patch: pytest.MonkeyPatch, number: int) -> None:
    """Of the steps that change anything from the first mark on."""
    steps = Steps(number)
    for name in ("rename", "replace", "unlink", "rmdir"):
        patch.setattr(Path, name, steps.killing(getattr(Path, name)))
    patch.setattr(moving, "sync", steps.killing(sync))
    for kind in (DirectoryTarget, PostgresTarget):
        for name in ("mark", "release"):

            def wrap(real: Any) -> Any:
                async def wrapped(*arguments: Any) -> None:
                    steps.is_on = True
                    await real(*arguments)
                    steps.killing(lambda: None)()

                return wrapped

            patch.setattr(kind, name, wrap(getattr(kind, name)))


@pytest.mark.parametrize("kind", ["directories", "databases", "both"])
async def test_a_move_that_ends_at_any_step_of_the_release_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    old = [str(tmp_path / "old")]
    await publish(old, b"1")
    for step in range(100):
        new = [str(tmp_path / f"{step}a"), str(tmp_path / f"{step}b")]
        if kind != "directories":
            new[0] = fresh_url()
        if kind == "databases":
            new[1] = fresh_url()
        with monkeypatch.context() as patch:
            kill_at(patch, step)
            try:
                await move_shards(old, new)
            except KilledError:
                pass
            else:
                break
        try:
            assert sorted(await values(new)) == [b"1"] * 6  # all steps but the last were done
            continue
        except UnavailableError as error:
            assert "never finished" in str(error)  # noqa: PT017
        assert (moved := await move_shards(old, new)).differences == []
        assert (moved.verified, moved.messages, moved.topics) == (True, 6, 6)
        assert sorted(await values(new)) == [b"1"] * 6
        with pytest.raises(ExistsError, match="the 2 shards of a queue already"):
            await move_shards(old, new)
    assert step >= {"directories": 20, "databases": 4, "both": 10}[kind]


async def test_a_migration_that_ends_at_any_step_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [str(tmp_path / "old")]
    await publish(old, b"1")
    for step in range(100):
        new = [str(tmp_path / str(step))]
        with monkeypatch.context() as patch:
            kill_at(patch, step)
            try:
                await migrate(old[0], new[0])
            except KilledError:
                pass
            else:
                break
        if Path(new[0], "FORMAT.partial").exists():
            assert (await migrate(old[0], new[0])).messages == 6
        assert sorted(await values(new)) == [b"1"] * 6
        assert not Path(new[0], "draft").exists()
    assert step > 5


async def test_what_has_changed_since_is_copied_anew_and_what_is_in_the_way_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = [str(tmp_path / "old")], [str(tmp_path / "a"), str(tmp_path / "b")]
    await publish(old, b"1")
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryTarget, "release", _killed)
        with pytest.raises(KilledError):
            await move_shards(old, new)
    await publish(old, b"2")
    with monkeypatch.context() as patch:
        real, released = DirectoryTarget.release, list[Any]()

        async def once(target: DirectoryTarget) -> None:
            if released:
                raise KilledError
            released.append(target)
            await real(target)

        patch.setattr(DirectoryTarget, "release", once)
        with pytest.raises(KilledError):
            await move_shards(old, new)
    await publish(old, b"3")
    with pytest.raises(
        ExistsError, match=f"b was left by a move.*the queue has changed since; remove it .rm -r {new[1]}"
    ):
        await move_shards(old, new)
    for path in sorted(Path(new[1]).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert (await move_shards(old, new)).messages == 18
    assert sorted(await values(new)) == sorted([b"1", b"2", b"3"] * 6)


async def test_a_directory_that_became_a_queue_is_never_begun_anew(tmp_path: Path) -> None:
    old, new = [str(tmp_path / "old")], [str(tmp_path / "new")]
    await publish(old, b"1")
    await migrate(old[0], new[0])
    (tmp_path / "new" / "FORMAT.partial").write_bytes(b"ortoo migrate\n")
    await publish(new, b"2")
    with pytest.raises(ExistsError, match="not empty"):
        await migrate(old[0], new[0])
    assert len(await values(new)) == 12


@pytest.mark.parametrize("wrong", ["file", "taken", "away", "read-only", "role", "key", "locked"])
async def test_an_unusable_target_is_found_before_anything_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    old, new = [str(tmp_path / "old")], [str(tmp_path / "a"), fresh_url(), str(tmp_path / "c")]
    await publish(old, b"1")
    (tmp_path / "file").write_bytes(b"")
    broker = Broker(open_store(new[1]), ManualClock(START)) if wrong == "locked" else None
    keys: dict[str, bytes] | None = None
    match wrong:
        case "file":
            new[1] = str(tmp_path / "file" / "x")
        case "taken":
            await publish([new[1]], b"1")
        case "away":
            new[1] = "postgres://queue@127.0.0.1:1/q"
        case "read-only":
            new[1] = "/proc/self/ortoo/x"
        case "role":
            new[1] = new[1].replace("queue@", "guest@")
            await _make_guest()
        case "key":
            brokers = make_brokers(old, {"k": bytes(32)}, lambda store, shard: Broker(store, ManualClock(START)))
            async with Queue(Shards(brokers, old)) as queue:
                await queue.create_topic("secret", encrypted=True)
            keys = {"k": bytes(32)}
    monkeypatch.setattr(connections, "LOCK_WAIT_S", 0.1)
    if broker is not None:
        await broker.open()
    with pytest.raises((OrtooError, ExistsError, ConfigError)) as error:
        await move_shards(old, new, keys, {} if wrong == "key" else keys)
    assert not str(error.value).startswith("[Errno")
    if broker is not None:
        await broker.close()
    assert not Path(new[0]).exists()
    assert not Path(new[2]).exists()


async def _make_guest() -> None:
    import asyncpg

    from tests.stores.postgres_server import server

    connection = await asyncpg.connect(server().url)
    await connection.execute("drop role if exists guest; create role guest login")
    await connection.close()


async def _killed(*_: object) -> None:
    raise KilledError
