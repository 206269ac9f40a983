"""Does the manifest alone decide what is archived still, and say so when it cannot?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ortoo.model.errors import ConfigError, CorruptionError, NotFoundError, UnavailableError
from ortoo.pipeline.lake.layout import HISTORY, MESSAGES, Lake, folder_name
from ortoo.pipeline.lake.manifest import Manifest, load, load_or_new, save

from .batches import Job, row, write_rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def noted(upto: int, topic_id: int = 7) -> Manifest:
    manifest = Manifest("default")
    manifest.note(MESSAGES, 0, {"orders": {"0": upto, "1": 3, "id": topic_id}})
    return manifest


def test_it_is_read_as_it_was_saved(lake: Lake) -> None:
    manifest = noted(10)
    manifest.note(HISTORY, 4, {"a / b %": {"0": 99, "id": 8}})
    save(lake, manifest)
    assert load(lake) == manifest
    assert manifest.batches == {MESSAGES: 1, HISTORY: 5}


def test_ends_never_go_back() -> None:
    manifest = noted(10)
    manifest.note(MESSAGES, 1, {"orders": {"0": 4, "id": 7}})
    assert manifest.end(MESSAGES, "orders", (7, 0)) == 10


def test_incarnations_are_kept_apart() -> None:
    manifest = noted(10)
    manifest.note(MESSAGES, 1, {"orders": {"0": 2, "id": 9}})
    assert manifest.messages == {"orders": {7: {0: 10, 1: 3}, 9: {0: 2}}}


@pytest.mark.parametrize(
    ("offsets", "covered"),
    [
        ({}, True),
        ({"orders": {"0": 10, "1": 3, "id": 7}}, True),
        ({"orders": {"0": 9, "id": 7}}, True),
        ({"orders": {"0": 11, "id": 7}}, False),
        ({"orders": {"0": 10, "2": 1, "id": 7}}, False),
        ({"orders": {"0": 10, "id": 8}}, False),
        ({"orders": {"0": 10, "id": 7}, "new": {"0": 1, "id": 9}}, False),
        ({"new": {"0": 0, "id": 9}}, True),
    ],
)
def test_a_batch_is_covered_when_all_of_it_is_archived(offsets: dict[str, dict[str, int]], covered: bool) -> None:
    assert noted(10).covers(MESSAGES, offsets) is covered


def test_what_a_batch_would_bring_again_is_known() -> None:
    manifest = noted(10)
    end = {"orders": {"0": 20, "1": 5, "id": 7}, "new": {"0": 3, "id": 9}}
    assert manifest.ahead(MESSAGES, {"orders": {"0": 10, "1": 3, "id": 7}}, end) == {}
    assert manifest.ahead(MESSAGES, {"orders": {"0": 4, "1": 3, "id": 7}}, end) == {(7, 0): 10}
    assert manifest.ahead(MESSAGES, {}, end) == {(7, 0): 10, (7, 1): 3}


def test_a_checkpoint_beyond_the_manifest_is_an_error() -> None:
    with pytest.raises(CorruptionError, match="older copy"):
        noted(10).check(MESSAGES, {"orders": {"0": 11, "id": 7}}, {"orders": {"0": 12, "id": 7}})


def test_a_log_that_became_shorter_is_an_error() -> None:
    with pytest.raises(CorruptionError, match="a second time; archive it to a new lake"):
        noted(10).check(MESSAGES, {"orders": {"0": 10, "id": 7}}, {"orders": {"0": 8, "id": 7}})


def test_an_older_checkpoint_and_a_deleted_topic_are_none() -> None:
    manifest = noted(10)
    manifest.check(MESSAGES, {"orders": {"0": 5, "id": 7}}, {"orders": {"0": 8, "id": 7}})
    manifest.check(MESSAGES, {"orders": {"0": 10, "id": 7}}, {})
    manifest.check(MESSAGES, {"orders": {"0": 10, "id": 7}}, {"orders": {"0": 1, "id": 9}})


@pytest.mark.parametrize(
    "text", ["", "{", '{"namespace": 3}', '{"namespace": "default", "messages": {"o": {"x": {}}}}']
)
def test_a_damaged_one_is_an_error(lake: Lake, text: str) -> None:
    lake.own.mkdir(parents=True)
    (lake.own / "manifest.json").write_text(text)
    with pytest.raises(CorruptionError, match=r"manifest.json is damaged.*restore it from a backup"):
        load_or_new(lake, "default")


def test_one_of_a_newer_program_is_an_error(lake: Lake) -> None:
    save(lake, Manifest("default", version=2))
    with pytest.raises(ConfigError, match="version 2"):
        load(lake)


def test_one_namespace_has_a_lake(lake: Lake) -> None:
    load_or_new(lake, "default")
    with pytest.raises(ConfigError, match="holds namespace 'default'; give 'shop' a lake of its own"):
        load_or_new(lake, "shop")


def test_a_lost_one_is_an_error_where_there_are_files(lake: Lake) -> None:
    Job(lake).archive(5)
    (lake.own / "manifest.json").unlink()
    with pytest.raises(CorruptionError, match="holds an archive, but no"):
        load_or_new(lake, "default")


def test_a_lost_one_is_an_error_where_there_is_a_checkpoint(lake: Lake) -> None:
    load_or_new(lake, "default")
    lake.checkpoint(MESSAGES).mkdir(parents=True)
    (lake.own / "manifest.json").unlink()
    with pytest.raises(CorruptionError, match="holds an archive, but no"):
        load_or_new(lake, "default")


def test_a_new_one_is_saved_at_once(lake: Lake) -> None:
    load_or_new(lake, "shop")
    assert load(lake) == Manifest("shop")


def test_one_job_at_a_time(lake: Lake) -> None:
    with (
        lake.alone("archiving"),
        pytest.raises(UnavailableError, match=r"another job is at work.*compacting waits for nobody"),
        lake.alone("compacting"),
    ):
        pass
    with lake.alone("compacting"):
        pass


def test_a_lake_is_a_directory(tmp_path: Path) -> None:
    assert Lake(f"file://{tmp_path}").root == tmp_path
    with pytest.raises(ConfigError, match="s3://bucket/lake is neither"):
        Lake("s3://bucket/lake")
    with pytest.raises(NotFoundError, match="is not a lake; `ortoo pipeline archive --to"):
        Lake.existing(tmp_path)


LONG = "ü/" * 85


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "orders"),
        ("a/b=c%d", "a%2Fb%3Dc%25d"),
        ("grün ß.", "grün ß."),
        ("__HIVE_DEFAULT_PARTITION__", "%5F_HIVE_DEFAULT_PARTITION__"),
        ("x" * 249, "x" * 249),
    ],
)
def test_a_folder_has_the_name_of_its_topic(topic: str, name: str) -> None:
    assert folder_name(topic) == name


def test_a_name_too_long_for_a_folder_is_cut(lake: Lake) -> None:
    names = [folder_name("x" * 250), folder_name("x" * 255), folder_name(LONG), folder_name("/" * 255)]
    assert len(set(names)) == 4
    assert all(len(f"topic={name}".encode()) <= 255 for name in names)
    for topic in ("x" * 255, LONG):
        write_rows(lake.topic(MESSAGES, topic) / "date=2026-01-01" / "0.parquet", [row(1, 0, 0)])
        assert len(lake.files(MESSAGES, topic)) == 1
