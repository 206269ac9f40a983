"""Can only its owner look into a data directory, however the process makes files by default?"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import ortoo
from ortoo.app.repair import repair_directory
from ortoo.stores.disk.backup import back_up, restore
from tests.app.test_server import ANY_PORT, change, serving


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct, autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    old = os.umask(request.param)
    yield
    os.umask(old)


async def fill(path: Path) -> None:
    """With files of every kind: logs, history and a checkpoint."""
    async with ortoo.open(path, keys={"k": b"k" * 32}) as queue:
        await queue.create_topic("secrets", encrypted=True)
        await queue.publish_many("orders", [b"tea"] * 100)
        await queue.ack(await queue.lease("orders", max_messages=10))
        await queue._link.close(checkpoint=True)  # type: ignore[call-arg]


def modes(path: Path) -> set[tuple[str, str]]:
    found = [path, *path.rglob("*")]
    assert len(found) > 5
    return {("folder" if one.is_dir() else "file", oct(one.stat().st_mode & 0o777)) for one in found}


PRIVATE = {("folder", "0o700"), ("file", "0o600")}


async def test_a_directory_and_all_in_it_are_its_owners_alone(tmp_path: Path) -> None:
    await fill(tmp_path / "new" / "data")
    assert modes(tmp_path / "new" / "data") == PRIVATE


async def test_so_are_a_backup_what_is_restored_from_it_and_what_is_repaired(tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    back_up(tmp_path / "data", tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    repair_directory(tmp_path / "data", {"k": b"k" * 32})
    for name in ("backup", "restored", "data"):
        assert modes(tmp_path / name) == PRIVATE, name


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
async def test_a_directory_that_others_may_look_into_is_told_of_and_left_alone(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(mode)
    async with serving(change(ANY_PORT, data=str(data))) as server:
        [problem] = server.broker.problems()
        assert f"chmod 700 {data}" in problem
        assert [record.__dict__.get("problem") for record in caplog.records if "problem" in record.message] == [problem]
        assert data.stat().st_mode & 0o777 == mode
        data.chmod(0o700)
        assert server.broker.problems() == []


async def test_it_is_told_of_to_who_opens_it_without_a_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await fill(data)
    data.chmod(0o755)
    async with ortoo.open(data, keys={"k": b"k" * 32}) as queue:
        assert [problem for problem in (await queue.stats()).problems if "chmod 700" in problem]
