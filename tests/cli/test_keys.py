"""`ortoo keys`, on a data directory and against a server: from the first key file to the end of an old key."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ortoo

from .program import Done, Place, call, start


class Home:
    """A queue with a key file, and how commands are told of it."""

    def __init__(self, place: Place, keys: Path, with_keys: tuple[str, ...] = ()) -> None:
        self.place = place
        self.file = keys
        self._with_keys = with_keys

    def __call__(self, *arguments: str) -> Done:
        return self.place("keys", *arguments, *self._with_keys)

    def ok(self, *arguments: str) -> Any:
        done = self(*arguments, "--json")
        assert done.code == 0, done
        return done.json

    @property
    def names(self) -> list[str]:
        return [line.partition(":")[0] for line in self.file.read_text().splitlines()]


def fill(queue: ortoo.SyncQueue) -> None:
    queue.create_topic("secret", encrypted=True, partitions=2)
    queue.publish_many("secret", [ortoo.Message(b"%d" % number, key=f"k{number}") for number in range(50)])
    leased = queue.lease("secret", max_messages=10)
    queue.ack(leased[:5])
    queue.nack(leased[5:], error="not now", delay=3600)


def read(queue: ortoo.SyncQueue) -> list[bytes]:
    return sorted(message.value for message in queue.read("secret"))


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    done = call("keys", "generate", path, "--name", "old")
    assert done.code == 0, done
    return path


@pytest.fixture
def at_directory(tmp_path: Path, key_file: Path) -> Home:
    with ortoo.open_sync(tmp_path / "data", keys=f"file:{key_file}") as queue:
        fill(queue)
    return Home(Place("--data", str(tmp_path / "data")), key_file, ("--keys", f"file:{key_file}"))


@pytest.fixture
def at_server(tmp_path: Path, key_file: Path) -> Iterator[Home]:
    config = tmp_path / "ortoo.toml"
    config.write_text(f'encryption_keys = "file:{key_file}"\n')
    ports = ("--http-port", "0", "--tcp-port", "0")
    process = start("serve", "--config", config, "--data", tmp_path / "data", *ports)
    assert process.stdout is not None
    try:
        lines = iter(process.stdout)
        url = next(found[0].decode() for line in lines if (found := re.search(rb"ortoo://\S+", line)))
        with ortoo.connect_sync(url) as queue:
            fill(queue)
        yield Home(Place("--url", url), key_file)
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture(params=["at_directory", "at_server"])
def home(request: pytest.FixtureRequest) -> Home:
    found: Home = request.getfixturevalue(request.param)
    return found


def needs(info: Any) -> dict[str, set[str]]:
    """The topics that need each key."""
    return {key["name"]: {use["topic"] for use in info["uses"] if use["key"] == key["name"]} for key in info["keys"]}


def test_a_key_is_made_rotated_and_done_with(home: Home, tmp_path: Path) -> None:
    assert needs(home.ok("list")) == {"old": {"secret"}}
    rotated = home.ok("rotate", "new")
    assert (rotated["current"], rotated["previous"], rotated["is_made"]) == ("new", "old", True)
    assert home.names == ["old", "new"]
    assert home.file.stat().st_mode & 0o777 == 0o600
    assert needs(home.ok("list")) == {"old": {"secret"}, "new": set()}
    info = home.ok("reencrypt")
    assert info["reencryption"]["problems"] == []
    assert needs(info) == {"old": set(), "new": {"secret"}}
    listed = home("list")
    assert re.search(r"old +given .*nothing needs it; it may be removed", listed.out)
    assert re.search(r"new +current ", listed.out)


def test_after_it_the_old_key_may_be_removed_from_the_file(at_directory: Home, tmp_path: Path) -> None:
    at_directory.ok("rotate", "new")
    at_directory.ok("reencrypt")
    at_directory.file.write_text(at_directory.file.read_text().splitlines()[1])
    with ortoo.open_sync(tmp_path / "data", keys=f"file:{at_directory.file}") as queue:
        assert queue.stats().problems == []
        assert read(queue) == sorted(b"%d" % number for number in range(50))
        assert queue.group("secret").delayed == 5


def test_a_server_encrypts_with_the_new_key_at_once(at_server: Home) -> None:
    at_server.ok("rotate", "new")
    with ortoo.connect_sync(at_server.place.where[1]) as queue:
        queue.publish("secret", b"after")
        uses = [use for use in queue.keys().uses or [] if use.key == "new"]
    assert [use.blocks for use in uses] == [1]


def test_a_server_re_encrypts_in_the_background(at_server: Home) -> None:
    at_server.ok("rotate", "new")
    done = at_server("reencrypt", "secret", "--rate", "1GiB", "--no-wait")
    assert (done.code, "has begun" in done.out) == (0, True)
    assert at_server.ok("reencrypt")["reencryption"]["is_running"] is False
    assert needs(at_server.ok("list"))["old"] == set()


def test_a_name_is_made_up_and_none_is_used_twice(home: Home) -> None:
    made = home.ok("rotate")["current"]
    assert re.fullmatch(r"\d{8}-[0-9a-f]{8}", made)
    done = home("rotate", "old")
    assert (done.code, "give the new one another name" in done.err) == (1, True)
    assert home.names == ["old", made]
    done = home("rotate", "a:b")
    assert (done.code, "letters, digits" in done.err) == (1, True)


def test_a_topic_that_is_not_encrypted_or_not_there_is_an_error(home: Home) -> None:
    home.place.ok("topics", "create", "plain")
    done = home("reencrypt", "plain")
    assert (done.code, "is not encrypted" in done.err) == (1, True)
    assert home("reencrypt", "nowhere").code == 3


def test_keys_are_given_to_a_directory_only(at_server: Home) -> None:
    done = call("keys", "list", "--keys", "file:x", *at_server.place.where)
    assert (done.code, "encryption_keys" in done.err) == (2, True)
    done = call("keys", "reencrypt", "--no-wait", "--data", "somewhere")
    assert done.code == 2


def key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


def test_keys_of_a_command_are_read_again_and_it_says_what_to_do(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"old:{key()}\n")
    source = f"command:cat {keys}"
    with ortoo.open_sync(tmp_path / "data", keys=source) as queue:
        fill(queue)
        same = queue.rotate_key()
        assert (same.current, same.previous, same.is_made) == ("old", "old", False)
        assert "have the key command print one more key" in same.advice
        keys.write_text(keys.read_text() + f"new:{key()}\n")
        rotated = queue.rotate_key()
        assert (rotated.current, rotated.previous, rotated.is_made) == ("new", "old", False)
    done = call("keys", "rotate", "--data", tmp_path / "data", "--keys", source)
    assert (done.code, "have the key command print one more key" in done.out) == (1, True)


def test_keys_of_the_environment_cannot_be_read_again_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTOO_ENCRYPTION_KEYS", f"old:{key()}")
    with ortoo.open_sync(tmp_path / "data") as queue:
        fill(queue)
    done = call("keys", "rotate", "--data", tmp_path / "data")
    assert (done.code, "at the end of ORTOO_ENCRYPTION_KEYS" in done.out) == (1, True)
    assert "restart" in done.out


def test_the_environment_may_name_a_key_file(tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTOO_ENCRYPTION_KEYS", f"file:{key_file}")
    with ortoo.open_sync(tmp_path / "data") as queue:
        fill(queue)
    assert call("keys", "rotate", "new", "--data", tmp_path / "data").code == 0
    assert [line.partition(":")[0] for line in key_file.read_text().splitlines()] == ["old", "new"]


def test_a_queue_in_memory_has_no_keys() -> None:
    with ortoo.open_sync() as queue, pytest.raises(ortoo.ConfigError, match="in memory"):
        queue.keys()


def test_generate_makes_a_file_for_its_owner_alone_and_never_touches_one_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    assert call("keys", "generate", path).code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_text()
    name, _, secret = before.strip().partition(":")
    assert (name, len(base64.b64decode(secret))) == ("first", 32)
    done = call("keys", "generate", path)
    assert (done.code, "exists" in done.err) == (1, True)
    assert path.read_text() == before


def test_generate_without_a_file_prints_a_key() -> None:
    lines = [call("keys", "generate", "--name", "n").out for _ in range(2)]
    assert all(re.fullmatch(r"n:[A-Za-z0-9+/]{43}=\n", line) for line in lines)
    assert lines[0] != lines[1]
