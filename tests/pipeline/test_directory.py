"""Does a reader of a pipeline's directory, or of a lake, find each batch whole and once, whatever was killed when?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ortoo.model.errors import ConfigError, CorruptionError, UnavailableError
from ortoo.pipeline.durable.files import locked
from ortoo.pipeline.flow import directory as flow_directory
from ortoo.pipeline.flow.directory import Directory

from .killing import CASES, QUERY, add, numbers, read_directory, replace, stage


@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.soak)])
@pytest.mark.parametrize("what", CASES)
def test_a_process_may_be_killed_at_any_step(what: str, when: str, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.pipeline.killing", what, str(tmp_path), when]
    ran = subprocess.run(
        program, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=500
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 10


def test_batches_have_numbers_and_their_folders_are_all_there_is(tmp_path: Path) -> None:
    add(tmp_path, 3)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["batch=0", "batch=1", "batch=2"]
    assert {path.suffix for path in (tmp_path / "out").rglob("*") if path.is_file()} == {".parquet"}
    assert set(pq.read_table(tmp_path / "out").column_names) == {"n", "batch", "rest"}
    assert not list((tmp_path / ".out.ortoo" / "staging").iterdir())


def test_an_empty_batch_leaves_no_folder_and_is_not_taken_twice(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "out", "out")
    for batch, rows in enumerate((0, 3)):
        staged = directory.staging()
        staged.mkdir(parents=True)
        pq.write_table(pa.table({"n": list(range(rows))}), staged / "part-0.parquet")
        directory.add(QUERY, batch, staged)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["batch=0"]
    directory.add(QUERY, 1, stage(directory, 1))
    assert pq.read_table(tmp_path / "out").num_rows == 3


def test_two_queries_may_write_to_one_directory(tmp_path: Path) -> None:
    add(tmp_path, 1)
    other = Directory(tmp_path / "out", "other")
    other.add("another-query", 0, stage(other, 1))
    assert read_directory(tmp_path) == numbers(2)


def test_an_older_checkpoint_is_an_error(tmp_path: Path) -> None:
    add(tmp_path, 3)
    directory = Directory(tmp_path / "out", "out")
    with pytest.raises(CorruptionError, match="batches up to 2 of this checkpoint, which gives batch 0 again"):
        directory.add(QUERY, 0, stage(directory, 0))


def test_a_lost_manifest_is_an_error(tmp_path: Path) -> None:
    add(tmp_path, 1)
    (tmp_path / ".out.ortoo" / "manifest.json").unlink()
    with pytest.raises(CorruptionError, match=r"manifest\.json, which tells whose they are, is missing"):
        add(tmp_path, 2)
    (tmp_path / ".out.ortoo" / "manifest.json").write_text("{")
    with pytest.raises(CorruptionError, match="is damaged"):
        add(tmp_path, 2)
    (tmp_path / ".out.ortoo" / "manifest.json").write_text('{"version": 9}')
    with pytest.raises(ConfigError, match="of version 9"):
        add(tmp_path, 2)
    assert read_directory(tmp_path) == numbers(1)


def test_files_of_others_are_neither_replaced_nor_mixed_with_ours(tmp_path: Path) -> None:
    theirs = tmp_path / "out" / "precious.parquet"
    theirs.parent.mkdir()
    theirs.write_bytes(b"x")
    for write in (add, replace):
        with pytest.raises(ConfigError, match="has files that no pipeline wrote"):
            write(tmp_path, 1)
    theirs.unlink()
    replace(tmp_path, 0)
    theirs.write_bytes(b"x")
    with pytest.raises(ConfigError, match="would be deleted, and no pipeline wrote it"):
        replace(tmp_path, 1)
    assert theirs.read_bytes() == b"x"


def test_a_directory_is_of_one_kind(tmp_path: Path) -> None:
    replace(tmp_path, 0)
    with pytest.raises(ConfigError, match="was written as a whole"):
        add(tmp_path, 1)


def test_another_that_writes_for_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_directory, "_LOCK_SECONDS", 0.0)
    with (
        locked(tmp_path / ".out.ortoo" / "lock", "", 0.0),
        pytest.raises(UnavailableError, match="another pipeline has been writing"),
    ):
        add(tmp_path, 1)
