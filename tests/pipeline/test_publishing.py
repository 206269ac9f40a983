"""Does each row come into a table once, whatever step is the last one of a job?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from ortoo.model.errors import CorruptionError
from ortoo.pipeline.lake.compaction import compact, compact_folder
from ortoo.pipeline.lake.layout import MESSAGES, Lake
from ortoo.pipeline.lake.manifest import load

from .batches import Job, expected, ids, row, stage, write_rows
from .faults import Faults, Killed, full


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


def run(lake: Lake, upto: int) -> None:
    """A job from its start to its end, with files merged as soon as there are two."""
    job = Job(lake)
    for folder in job.archive(upto, files=3):
        compact_folder(lake, folder, few=1)


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("error", [Killed, full])
def test_any_step_may_be_the_last(
    tmp_path: Path, faults: Faults, is_after: bool, error: Callable[[], BaseException]
) -> None:
    due, is_hit = 0, True
    while is_hit:
        lake = Lake(tmp_path / f"lake-{due}")
        faults.set(None)
        run(lake, 10)
        faults.set(due, is_after, error)
        with suppress(Killed, OSError):
            run(lake, 30)
        is_hit = faults.steps > due
        faults.set(None)
        found = ids(lake)
        assert len(found) == len(set(found)), f"step {due}: seen twice before the next job"
        assert set(found) >= set(expected(10)), f"step {due}: what was archived is gone"
        run(lake, 30)
        assert ids(lake) == expected(30), f"step {due}"
        run(lake, 40)
        assert ids(lake) == expected(40), f"step {due}"
        due += 1
    assert due > 20


@pytest.mark.parametrize("is_after", [False, True])
def test_a_job_may_die_while_it_carries_on_what_another_began(tmp_path: Path, faults: Faults, is_after: bool) -> None:
    due, is_hit = 0, True
    while is_hit:
        lake = Lake(tmp_path / f"lake-{due}")
        faults.set(None)
        _die_at_second_move(faults, partial(Job(lake).archive, 9, files=4))
        faults.set(due, is_after)
        with suppress(Killed):
            Job(lake)
        is_hit = faults.steps > due
        faults.set(None)
        Job(lake)
        assert ids(lake) == expected(9), f"step {due}"
        due += 1
    assert due > 5


def _die_at_second_move(faults: Faults, publish: Callable[[], object]) -> None:
    moved = 0
    real = Path.replace

    def replace(source: Path, target: Path) -> Path:
        nonlocal moved
        moved += target.suffix == ".parquet"
        if moved == 2:
            raise Killed
        return real(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(Killed):
            publish()


def test_compacting_after_a_crash_first_carries_on_what_was_begun(lake: Lake, faults: Faults) -> None:
    """Else files of half a batch would be merged, and come again with the other half."""
    run(lake, 10)
    job = Job(lake)
    _die_at_second_move(faults, lambda: job.archive(20, files=4))
    Job(lake)
    compact(lake, grace=0)
    run(lake, 20)
    assert ids(lake) == expected(20)


def test_a_batch_that_runs_again_after_it_was_merged_changes_nothing(lake: Lake) -> None:
    run(lake, 10)
    run(lake, 20)
    compact(lake, grace=0)
    run(lake, 20)
    assert ids(lake) == expected(20)


def test_what_retention_removed_meanwhile_is_not_lost(lake: Lake, faults: Faults) -> None:
    """The batch counted from its journal on, though the log cannot give it again."""
    job = Job(lake)
    _die_at_second_move(faults, lambda: job.archive(20, files=4))
    again = Job(lake)
    assert again.manifest.end(MESSAGES, "orders", (7, 0)) == 20
    assert ids(lake) == expected(20)


def test_a_batch_that_was_only_staged_is_forgotten(lake: Lake) -> None:
    job = Job(lake)
    stage(lake, [row(7, 0, offset) for offset in range(5)])
    assert ids(lake) == []
    job = Job(lake)
    assert not (lake.own / "staging").exists()
    job.archive(5)
    assert ids(lake) == expected(5)


def test_what_given_up_attempts_left_is_not_published(lake: Lake) -> None:
    job = Job(lake)
    staging = stage(lake, [row(7, 0, offset) for offset in range(5)])
    left = staging / "_temporary" / "0" / "task" / "incarnation=7" / "date=2026-01-01" / "part-00000.parquet"
    write_rows(left, [row(7, 0, 0)])
    job.publisher.publish(MESSAGES, staging, {"7": "orders"}, {"orders": {"0": 5, "id": 7}})
    assert ids(lake) == expected(5)


def test_a_lake_can_be_moved_in_the_middle_of_a_batch(tmp_path: Path, lake: Lake, faults: Faults) -> None:
    job = Job(lake)
    _die_at_second_move(faults, lambda: job.archive(20, files=4))
    shutil.move(lake.root, tmp_path / "elsewhere")
    moved = Lake(tmp_path / "elsewhere")
    run(moved, 30)
    assert ids(moved) == expected(30)


def test_an_older_manifest_overwrites_nothing(lake: Lake) -> None:
    Job(lake).archive(10)
    older = (lake.own / "manifest.json").read_bytes()
    Job(lake).archive(20)
    (lake.own / "manifest.json").write_bytes(older)
    with pytest.raises(CorruptionError, match="older copy"):
        Job(lake).archive(20)
    assert ids(lake) == expected(20)


def test_a_staged_file_that_is_gone_is_an_error(lake: Lake, faults: Faults) -> None:
    job = Job(lake)
    _die_at_second_move(faults, lambda: job.archive(20, files=4))
    shutil.rmtree(lake.own / "staging")
    with pytest.raises(CorruptionError, match="is gone, which was to become"):
        Job(lake)


def test_a_damaged_journal_is_an_error(lake: Lake, faults: Faults) -> None:
    job = Job(lake)
    _die_at_second_move(faults, lambda: job.archive(20, files=4))
    (lake.own / "journal" / "messages.json").write_bytes(b"{")
    with pytest.raises(CorruptionError, match=r"journal.* is damaged"):
        Job(lake)


def test_an_empty_batch_is_noted(lake: Lake) -> None:
    """A log may begin anywhere: its first messages were removed before anyone archived them."""
    job = Job(lake)
    staging = lake.staging("messages")
    assert job.publisher.publish(MESSAGES, staging, {}, {"orders": {"0": 500, "id": 7}}) == []
    found = load(lake)
    assert found is not None
    assert found.end(MESSAGES, "orders", (7, 0)) == 500


def test_names_tell_the_order(lake: Lake) -> None:
    for upto in (10, 20, 30):
        Job(lake).archive(upto, files=3)
    names = [path.name for path in lake.files(MESSAGES)]
    assert names[:4] == [
        f"{0:012d}-{0:05d}.parquet",
        f"{0:012d}-{1:05d}.parquet",
        f"{0:012d}-{2:05d}.parquet",
        f"{1:012d}-{0:05d}.parquet",
    ]


def test_a_journal_that_comes_back_changes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its removal need not be durable; a power cut may undo it when its files are merged already."""
    job = Job(lake)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        job.archive(10)
    journal = lake.own / "journal" / "messages.json"
    left = journal.read_bytes()
    Job(lake).archive(20)
    compact(lake, grace=0)
    journal.write_bytes(left)
    run(lake, 30)
    assert ids(lake) == expected(30)
