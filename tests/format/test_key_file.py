"""A key is added to the key file whole, or not at all, and none that was there is lost."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ortoo.model.errors import ConfigError
from ortoo.stores.disk.crypto import parse_keys
from ortoo.stores.disk.key_file import add_key, make_key_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_key_file(tmp_path / "keys", "old")
    return tmp_path / "keys"


def test_a_key_is_added_behind_the_others(path: Path) -> None:
    before = parse_keys(path.read_text())
    add_key(path, "new")
    after = parse_keys(path.read_text())
    assert list(after) == ["old", "new"]
    assert after["old"] == before["old"]
    assert after["new"] != after["old"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["keys"]


@pytest.mark.parametrize("end", ["", "\n", "\n\n", ",", " "])
def test_however_the_file_ends(path: Path, end: str) -> None:
    path.write_text(path.read_text().strip() + end)
    add_key(path, "new")
    assert list(parse_keys(path.read_text())) == ["old", "new"]


def test_a_key_that_is_there_stays_what_it_is(path: Path) -> None:
    """It was added by one who was killed before he could say so."""
    add_key(path, "new")
    before = path.read_text()
    add_key(path, "new")
    assert path.read_text() == before


def test_a_link_stays_one(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    add_key(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert list(parse_keys(path.read_text())) == ["old", "new"]


def test_what_was_killed_while_it_wrote_is_in_nobodys_way(path: Path) -> None:
    (path.parent / "keys.tmp").write_text("half a k")
    add_key(path, "new")
    assert list(parse_keys(path.read_text())) == ["old", "new"]


@pytest.mark.parametrize("broken", ["fsync", "rename"])
def test_a_failure_leaves_the_file_as_it_was(path: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_text()

    def fail(*_: object) -> None:
        raise OSError("simulated: it fails")

    monkeypatch.setattr(*((os, "fsync", fail) if broken == "fsync" else (Path, "rename", fail)))
    with pytest.raises(ConfigError, match="add a line yourself"):
        add_key(path, "new")
    assert path.read_text() == before


def test_queues_that_share_a_file_do_not_undo_each_others_keys(path: Path) -> None:
    threads = [threading.Thread(target=add_key, args=(path, f"key{number}")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(parse_keys(path.read_text())) == {"old", *(f"key{number}" for number in range(8))}
