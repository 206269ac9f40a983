"""Real processes that are killed at each step that changes the disk: `python -m tests.pipeline.killing WHAT FOLDER before`.

A process that has no threads yet makes one child for each step. The child writes, and kills itself before that step, or after it;
others read what is there then, as readers do that know nothing of journals, carry the writing on, and read again.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.dataset  # as pyarrow would do when it is needed, in each child
import pyarrow.parquet as pq

from ortoo.pipeline.durable import files
from ortoo.pipeline.flow import directory as flow_directory
from ortoo.pipeline.flow.directory import Directory
from ortoo.pipeline.lake import compaction
from ortoo.pipeline.lake.compaction import compact_folder
from ortoo.pipeline.lake.layout import MESSAGES, Lake

from .batches import Job, expected

ROWS = 6  # of a batch
QUERY = "0a1b2c3d-query"


class Case(NamedTuple):
    prepare: Callable[[Path], None]
    write: Callable[[Path], None]  # what is killed, and carried on
    read: Callable[[Path], list[int]]
    allowed: Callable[[list[int]], bool]  # after a kill
    whole: list[int]  # in the end


def numbers(upto: int) -> list[int]:
    return list(range(upto * ROWS))


def stage(directory: Directory, batch: int) -> Path:
    """As Spark writes a batch that is partitioned: two folders, three files, and what it leaves beside."""
    staged = directory.staging()
    for part in range(3):
        folder = staged / f"rest={part % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        rows = numbers(batch + 1)[batch * ROWS :][part::3]
        pq.write_table(pa.table({"n": rows}), folder / f"part-0000{part}-x.c000.snappy.parquet")
        (folder / f".part-0000{part}-x.c000.snappy.parquet.crc").touch()
    (staged / "_SUCCESS").touch()
    return staged


def add(home: Path, upto: int) -> None:
    """The last batch that is there comes again, as after a crash."""
    directory = Directory(home / "out", "out")
    directory.begin()
    done = len(list((home / "out").glob("batch=*")))
    for batch in range(max(done - 1, 0), upto):
        directory.add(QUERY, batch, stage(directory, batch))


def replace(home: Path, batch: int) -> None:
    directory = Directory(home / "out", "out")
    directory.begin()
    directory.replace(stage(directory, batch))


def read_directory(home: Path) -> list[int]:
    found = sorted(pq.read_table(home / "out")["n"].to_pylist())
    rows = duckdb.execute(f"SELECT n FROM read_parquet('{home}/out/**/*.parquet') ORDER BY n").fetchall()
    assert [row[0] for row in rows] == found
    return found


def archive(home: Path, upto: int) -> None:
    """With files merged as soon as there are two."""
    job = Job(Lake(home / "lake"))
    for folder in job.archive(upto, files=3):
        compact_folder(job.lake, folder, few=1)


def read_lake(home: Path) -> list[int]:
    table = Lake(home / "lake").table(MESSAGES)
    found = sorted(pq.read_table(table, columns=["offset"])["offset"].to_pylist())
    rows = duckdb.execute(f"SELECT \"offset\" FROM read_parquet('{table}/**/*.parquet') ORDER BY 1").fetchall()
    assert [row[0] for row in rows] == found
    return found


CASES = {
    "directory": Case(
        lambda home: add(home, 1),
        lambda home: add(home, 2),
        read_directory,
        lambda found: found in (numbers(1), numbers(2)),
        numbers(2),
    ),
    "whole directory": Case(
        lambda home: replace(home, 0),
        lambda home: replace(home, 1),
        read_directory,
        lambda found: found in (numbers(1), numbers(2)[ROWS:]),
        numbers(2)[ROWS:],
    ),
    "lake": Case(
        lambda home: archive(home, 10),
        lambda home: archive(home, 30),
        read_lake,
        lambda found: len(found) == len(set(found)) and set(range(10)) <= set(found) <= set(range(30)),
        list(range(len(expected(30)))),
    ),
}


def kill_at(due: int, is_after: bool) -> None:
    steps = 0

    def step(real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            is_due = steps == due
            steps += 1
            if is_due and not is_after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*args, **kwargs)
            if is_due:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return counted

    for owner, name, real in (
        (compaction, "exchange", files.exchange),
        (flow_directory, "exchange", files.exchange),
        (Path, "replace", Path.replace),
        (Path, "unlink", Path.unlink),
        (Path, "mkdir", Path.mkdir),
        (Path, "hardlink_to", Path.hardlink_to),
        (shutil, "rmtree", shutil.rmtree),
        (os, "fsync", os.fsync),
    ):
        setattr(owner, name, step(real))


def in_child(work: Callable[[], None]) -> int:
    """How it ended: the number of the signal, negative, or its code."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check(case: Case, home: Path, allowed: Callable[[list[int]], bool]) -> None:
    found = case.read(home)
    assert allowed(found), found


def main(what: str, folder: Path, is_after: bool) -> int:
    """How many steps there are."""
    case = CASES[what]
    template = folder / "template"
    template.mkdir()
    assert in_child(lambda: case.prepare(template)) == 0
    due, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        home = folder / str(due)
        shutil.copytree(template, home)

        def die(due: int = due, home: Path = home) -> None:
            kill_at(due, is_after)
            case.write(home)

        code = in_child(die)
        assert code in (0, -signal.SIGKILL), (due, code)
        for work in (
            partial(check, case, home, case.allowed),
            partial(case.write, home),
            partial(check, case, home, case.whole.__eq__),
        ):
            assert in_child(work) == 0, (due, work)
        shutil.rmtree(home)
        due += 1
    return due - 1


if __name__ == "__main__":
    sys.stdout.write(f"{main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] == 'after')}\n")
