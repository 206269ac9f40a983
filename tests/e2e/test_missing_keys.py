"""A key that is missing, or is not the one it was: what is told, and that nothing is damaged by it; the same for backups."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

import ortoo
from ortoo.app.repair import repair_directory
from ortoo.stores.disk import open_ring
from ortoo.stores.disk.backup import back_up, restore
from ortoo.stores.disk.check import Report, check_directory
from ortoo.stores.disk.view import ViewDisk

OLD, NEW, OTHER = b"1" * 32, b"2" * 32, b"3" * 32
MISSING = "encryption key 'old' is missing; add it to the key file {file}, and reopen"
REPLACED = "encryption key 'old' is not the one this directory was written with; give that one back"


class Home:
    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.file = folder / "keys"

    def give(self, **keys: bytes) -> str:
        """A key file with these."""
        self.file.write_text("".join(f"{name}:{base64.b64encode(key).decode()}\n" for name, key in keys.items()))
        return f"file:{self.file}"

    def check(self, path: Path | None = None) -> Report:
        return check_directory(ViewDisk(path or self.data), open_ring(f"file:{self.file}"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """What the old key encrypted, and a topic that is not encrypted."""
    home = Home(tmp_path)
    with ortoo.open_sync(home.data, keys=home.give(old=OLD)) as queue:
        queue.create_topic("secret", encrypted=True, partitions=1)
        queue.publish_many("secret", [ortoo.Message(b"%d" % number, key="k") for number in range(5)])
        queue.ack(queue.lease("secret"))
        queue.publish("plain", b"open")
    return home


def assert_all_there(queue: ortoo.SyncQueue) -> None:
    assert queue.stats().problems == []
    assert [message.value for message in queue.read("secret")] == [b"%d" % number for number in range(5)]
    assert queue.group("secret").backlog == 4


WRONG = {"none": ({}, MISSING), "a new one": ({"new": NEW}, MISSING), "another": ({"old": OTHER}, REPLACED)}


@pytest.mark.parametrize("which", WRONG)
def test_an_error_names_the_key_and_the_topic_and_says_what_to_do(home: Home, which: str) -> None:
    keys, told = WRONG[which]
    told = told.format(file=home.file)
    with ortoo.open_sync(home.data, keys=home.give(**keys)) as queue:
        assert any(problem.startswith(f"topic 'secret' is quarantined: {told}") for problem in queue.stats().problems)
        for attempt in (
            lambda: queue.publish("secret", b"x"),
            lambda: queue.lease("secret"),
            lambda: queue.purge("secret"),
        ):
            with pytest.raises(ortoo.UnavailableError) as caught:
                attempt()
            assert "topic 'secret' is quarantined" in str(caught.value)
            assert told in str(caught.value)
        queue.publish("plain", b"goes on")
        assert [message.value for message in queue.read("plain")] == [b"open", b"goes on"]
        [key] = [key for key in queue.keys().keys if key.name == "old"]
        assert key.is_given == (which == "another")
        assert not key.is_current
    with ortoo.open_sync(home.data, keys=home.give(old=OLD)) as queue:
        assert_all_there(queue)


@pytest.mark.parametrize("which", WRONG)
def test_a_check_does_not_call_it_damage_and_a_repair_refuses(home: Home, which: str) -> None:
    """A repair would make a directory without what it cannot read."""
    home.give(**WRONG[which][0])
    report = home.check()
    assert report.problems
    assert not report.damaged
    with pytest.raises(ortoo.UnavailableError, match="'old'"):
        repair_directory(home.data, f"file:{home.file}")
    with ortoo.open_sync(home.data, keys=home.give(old=OLD)) as queue:
        assert_all_there(queue)


def test_a_backup_is_made_and_restored_without_the_key_and_its_topic_waits_for_it(home: Home, tmp_path: Path) -> None:
    home.give()
    back_up(home.data, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    with ortoo.open_sync(tmp_path / "restored", keys=f"file:{home.file}") as queue:
        with pytest.raises(
            ortoo.UnavailableError, match="topic 'secret' is quarantined: encryption key 'old' is missing"
        ):
            queue.lease("secret")
        queue.publish("plain", b"goes on")
    assert not home.check(tmp_path / "restored").damaged
    with ortoo.open_sync(tmp_path / "restored", keys=home.give(old=OLD)) as queue:
        assert_all_there(queue)


def test_a_backup_from_before_a_re_encryption_needs_the_key_of_its_time(home: Home, tmp_path: Path) -> None:
    back_up(home.data, tmp_path / "backup")
    with ortoo.open_sync(home.data, keys=f"file:{home.file}") as queue:
        queue.rotate_key("new")
        queue.reencrypt()
        while (state := queue.keys(with_uses=False).reencryption) is None or state.is_running:
            pass
    old, new = home.file.read_text().splitlines()
    restore(tmp_path / "backup", tmp_path / "restored")
    home.file.write_text(new)
    with ortoo.open_sync(tmp_path / "restored", keys=f"file:{home.file}") as queue:
        assert any("'old' is missing" in problem for problem in queue.stats().problems)
    home.file.write_text(f"{old}\n{new}")
    with ortoo.open_sync(tmp_path / "restored", keys=f"file:{home.file}") as queue:
        assert_all_there(queue)


def test_what_needs_a_key_that_is_missing_is_listed(home: Home) -> None:
    with ortoo.open_sync(home.data, keys=home.give(old=OLD)) as queue:  # so that something lies in segments, too
        queue.rotate_key("new")
        queue.reencrypt()
        while (state := queue.keys(with_uses=False).reencryption) is None or state.is_running:
            pass
    with ortoo.open_sync(home.data, keys=home.give(old=OLD)) as queue:
        info = queue.keys()
    assert [(key.name, key.is_given) for key in info.keys] == [("old", True), ("new", False)]
    [use] = [use for use in info.uses or [] if use.segments]
    assert (use.topic, use.key) == ("secret", "new")
