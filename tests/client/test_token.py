"""Does a client present the token that it was given, wherever that stands, and a renewed one when it connects again?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import ortoo
from ortoo.client.token import token_source
from ortoo.model.errors import ConfigError, InvalidError, UnauthenticatedError
from tests.doors.tcp.home import serving


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ORTOO_TOKEN", "ORTOO_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_what_is_given_comes_before_the_variable_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("from-file\n")
    assert token_source(None)() is None
    monkeypatch.setenv("ORTOO_TOKEN_FILE", str(tmp_path / "token"))
    assert token_source(None)() == "from-file"
    monkeypatch.setenv("ORTOO_TOKEN", "from-variable")
    assert token_source(None)() == "from-variable"
    assert token_source("given")() == "given"


async def test_every_client_takes_the_token_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("secret\n")
    async with serving(token="secret") as home:
        url = f"ortoo://127.0.0.1:{home.port}"
        with pytest.raises(UnauthenticatedError):
            await ortoo.connect(url).open()
        monkeypatch.setenv("ORTOO_TOKEN_FILE", str(tmp_path / "token"))
        async with ortoo.connect(url) as queue:
            await queue.publish("jobs", b"x")
        worker, values = ortoo.Worker(url), asyncio.Queue[bytes]()

        @worker.on("jobs")
        async def handle(message: ortoo.Received) -> None:
            await values.put(message.value)

        async with worker, asyncio.timeout(60):
            assert await values.get() == b"x"


async def test_a_renewed_token_is_presented_when_the_client_connects_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    path.write_text("wrong")
    monkeypatch.setenv("ORTOO_TOKEN_FILE", str(path))
    async with serving(token="secret") as home:
        queue = ortoo.connect(f"ortoo://127.0.0.1:{home.port}")
        with pytest.raises(UnauthenticatedError):
            await queue.open()
        path.write_text("secret")
        await queue.open()
        await queue.publish("jobs", b"x")
        await queue.close()


@pytest.mark.parametrize("content", [None, b"", b" \n", b"two words", b"\xff", b"t\xc3\xb6ken", b"a\nb"])
async def test_a_file_that_has_no_token_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("ORTOO_TOKEN_FILE", str(path))
    with pytest.raises(ConfigError, match=r"ORTOO_TOKEN_FILE is .*token, which") as caught:
        await ortoo.connect("ortoo://127.0.0.1:1").open()
    assert "two words" not in str(caught.value)


def test_a_file_that_is_named_wins_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTOO_TOKEN", "from the environment")
    (tmp_path / "named").write_text("one\n")
    source = token_source(None, tmp_path / "named")
    assert source() == "one"
    (tmp_path / "named").write_text("renewed\n")
    assert source() == "renewed"


def test_a_token_and_a_file_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="not both"):
        ortoo.connect(token="a", token_file=tmp_path / "b")


async def test_a_worker_reads_its_token_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    handled = asyncio.Event()
    async with serving(token="secret") as home:
        worker = ortoo.Worker(f"ortoo://127.0.0.1:{home.port}", token_file=tmp_path / "token")

        @worker.on("jobs")
        async def work(message: ortoo.Received) -> None:
            handled.set()

        async with worker, asyncio.timeout(60):
            await worker.queue.publish("jobs", b"x")
            await handled.wait()
