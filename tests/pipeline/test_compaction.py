"""Do many small files become one, in order, without a reader ever seeing a row twice?"""

from __future__ import annotations

import ctypes
import errno
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ortoo.model.errors import UnavailableError
from ortoo.pipeline.lake import compaction
from ortoo.pipeline.lake.compaction import compact, compact_folder
from ortoo.pipeline.lake.layout import MESSAGES, Lake

from .batches import SCHEMA, Job, expected, ids, row, write_rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def filled(lake: Lake, batches: int, each: int = 5) -> Path:
    job = Job(lake)
    for number in range(batches):
        folders = job.archive((number + 1) * each, files=1)
    return folders[0]


def rows(lake: Lake) -> list[dict[str, Any]]:
    """In the order of names and of files."""
    return [one for path in lake.files(MESSAGES) for one in pq.ParquetFile(path).read().to_pylist()]


def test_small_files_become_one_in_order(lake: Lake) -> None:
    filled(lake, 20)
    before = rows(lake)
    assert compact(lake, grace=0)[:3] == (1, 20, 1)
    assert rows(lake) == before
    assert not any((lake.own / "staging").iterdir())


def test_rows_that_came_apart_lie_together(lake: Lake) -> None:
    filled(lake, 20)
    compact(lake, grace=0)
    (path,) = lake.files(MESSAGES)
    assert pq.read_metadata(path).num_row_groups == 1
    assert pq.read_schema(path).remove_metadata() == SCHEMA


def test_few_files_are_left_alone(lake: Lake) -> None:
    folder = filled(lake, 8)
    assert compact_folder(lake, folder).folders == 0
    filled(lake, 9)
    assert compact_folder(lake, folder).folders == 1


def test_a_merged_file_is_merged_again(lake: Lake) -> None:
    for batches in (3, 6, 9):
        filled(lake, batches)
        compact(lake, grace=0)
    assert len(lake.files(MESSAGES)) == 1
    assert ids(lake) == expected(45)


def test_a_merged_file_has_a_name_of_its_own(lake: Lake) -> None:
    """A reader that listed the folder before must not find it under one of the names that it listed."""
    names: set[str] = set()
    for batches in (3, 6, 9):
        filled(lake, batches)
        names |= {path.name for path in lake.files(MESSAGES)}
        compact(lake, grace=0)
        (path,) = lake.files(MESSAGES)
        assert path.name not in names
        names.add(path.name)


def test_large_files_stay_and_no_file_becomes_too_large(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(lake, 3)
    size = max(path.stat().st_size for path in folder.iterdir())
    write_rows(folder / "000000000003-00000.parquet", [row(7, 0, n, value=b"%d" % n**9 * 50) for n in range(15, 115)])
    for number in range(4, 10):
        write_rows(folder / f"{number:012d}-00000.parquet", [row(7, 0, 111 + number)])
    inode = (folder / "000000000003-00000.parquet").stat().st_ino
    monkeypatch.setattr(compaction, "SMALL_BYTES", size * 2)
    monkeypatch.setattr(compaction, "LARGE_BYTES", size * 4)
    before = [one["id"] for one in rows(lake)]
    compact(lake, grace=0)
    assert [one["id"] for one in rows(lake)] == before
    assert (folder / "000000000003-00000.parquet").stat().st_ino == inode
    assert 3 < len(lake.files(MESSAGES)) < 8


def test_files_with_other_columns_are_not_merged_with_these(lake: Lake) -> None:
    folder = filled(lake, 4)
    table = pq.ParquetFile(sorted(folder.iterdir())[2]).read()
    pq.write_table(table.append_column("more", pa.array([1] * len(table))), sorted(folder.iterdir())[2])
    assert compact(lake, grace=0)[:3] == (1, 4, 3)
    assert ids(lake) == expected(20)


def test_a_file_system_that_cannot_exchange_keeps_its_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(lake, 10)

    class Libc:
        def renameat2(self, *_: object) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Libc())
    with pytest.raises(
        UnavailableError, match="cannot exchange two folders in one step, so its files stay as they are"
    ):
        compact(lake, grace=0)
    assert ids(lake) == expected(50)
    assert not any((lake.own / "staging").iterdir())


def test_a_damaged_file_stops_it_and_nothing_is_lost(lake: Lake) -> None:
    folder = filled(lake, 10)
    damaged = sorted(folder.iterdir())[3]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(pa.ArrowInvalid):
        compact(lake, grace=0)
    damaged.write_bytes(whole)
    assert ids(lake) == expected(50)


def test_readers_see_every_row_once_all_the_time(lake: Lake) -> None:
    """Files may be gone between looking and opening: then the reader looks again."""
    filled(lake, 2)
    stop = threading.Event()
    wrong: list[object] = []
    passes = 0

    def read() -> None:
        nonlocal passes
        while not stop.is_set():
            archived = Job.end(lake)
            files = lake.files(MESSAGES)[::-1]  # the worst order: what is merged into is opened last
            try:
                found = [name for path in files for name in pq.ParquetFile(path).read(["id"])["id"].to_pylist()]
            except FileNotFoundError:
                continue
            passes += 1
            if len(found) != len(set(found)) or len(found) < archived:
                wrong.append((archived, len(found), len(set(found))))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for batches in range(3, 60):
            compact_folder(lake, filled(lake, batches), few=2)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert passes > 10
    assert ids(lake) == expected(59 * 5)
