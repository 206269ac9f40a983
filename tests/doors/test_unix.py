"""Unix sockets: HTTP and TCP through them, who may connect, and what becomes of the file."""

import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import httpx
import pytest

import ortoo
from ortoo.app.server import Server
from ortoo.client.address import parse_url
from ortoo.doors.unix import UnixListening
from ortoo.model.errors import ConfigError, InvalidError, UnavailableError
from ortoo.model.mqtt_settings import MqttSettings
from ortoo.model.settings import GomqSettings, HttpSettings, Settings, TcpSettings


@pytest.fixture
def folder() -> Iterator[Path]:
    """A name of a socket has at most 107 bytes, so pytest's own folders may be too deep."""
    with TemporaryDirectory(prefix="ortoo-") as name:
        yield Path(name)


def server_at(folder: Path, mode: Literal["600", "660"] = "600") -> Server:
    return Server(
        Settings(
            data="memory",
            http=HttpSettings(host=f"unix:{folder}/http", socket_mode=mode, dialects=[]),
            tcp=TcpSettings(host=f"unix:{folder}/t cp", socket_mode=mode),
            mqtt=MqttSettings(enabled=False),
            gomq=GomqSettings(enabled=False),
        )
    )


async def test_a_server_is_reached_through_its_sockets(folder: Path) -> None:
    server = server_at(folder, "660")
    await server.start()
    try:
        assert server.addresses["http"] == (f"unix:{folder}/http", 0)
        assert stat.S_IMODE((folder / "http").stat().st_mode) == 0o660
        url = f"ortoo+unix://{folder}/t%20cp"
        async with ortoo.connect(url) as queue:
            await queue.publish("orders", b"tea")
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=f"{folder}/http")) as client:
            answer = await client.get("http://localhost/v1/topics")
            assert [topic["name"] for topic in answer.json()["topics"]] == ["orders"]
        with pytest.raises(ConfigError, match="another process listens"):
            await server_at(folder).start()
        assert (folder / "http").exists()
    finally:
        await server.stop()
    assert not (folder / "http").exists()
    assert not (folder / "t cp").exists()
    with pytest.raises(UnavailableError, match="No such file"):
        async with ortoo.connect(url, timeout=0) as queue:
            await queue.stats()


async def test_what_a_killed_server_left_is_replaced(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "http"))
    server = server_at(folder)
    await server.start()
    await server.stop()


async def test_what_is_in_use_or_no_socket_is_left_alone(folder: Path) -> None:
    path = folder / "s"
    with socket.socket(socket.AF_UNIX) as other:  # of a program that knows nothing of our lock
        other.bind(str(path))
        other.listen()
        with pytest.raises(OSError, match="another process listens"):
            UnixListening(str(path), 0o600, 1)
    path.unlink()
    path.write_text("notes")
    with pytest.raises(OSError, match="no socket"):
        UnixListening(str(path), 0o600, 1)
    assert path.read_text() == "notes"


def test_a_socket_that_another_put_there_stays(folder: Path) -> None:
    path = folder / "s"
    mine = UnixListening(str(path), 0o600, 1)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        mine.close()
        assert path.exists()


@pytest.mark.parametrize("url", ["ortoo+unix://", "ortoo+unix:///", "ortoo+unix://run/x", "ortoo+unix:/run/x"])
def test_a_url_names_the_whole_path(url: str) -> None:
    with pytest.raises(InvalidError):
        ortoo.connect(url)


def test_a_url_of_a_socket_may_carry_the_token() -> None:
    address = parse_url("ortoo+unix://user:se%40cret@/run/a%20b")
    assert (address.servers, address.token, str(address)) == (
        [("unix:/run/a b", 0)],
        "se@cret",
        "ortoo+unix:///run/a%20b",
    )


@pytest.mark.parametrize(
    ("path", "hint"),
    [("", "needs a path"), ("a\0b", "needs a path"), ("@ortoo", "abstract"), ("x" * 108, "at most 107 bytes")],
)
async def test_a_path_that_cannot_be_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, hint: str
) -> None:
    monkeypatch.chdir(folder)
    settings = Settings(
        data="memory",
        http=HttpSettings(host=f"unix:{path}", dialects=[]),
        tcp=TcpSettings(enabled=False),
        mqtt=MqttSettings(enabled=False),
        gomq=GomqSettings(enabled=False),
    )
    with pytest.raises(ConfigError, match=hint):
        await Server(settings).start()
    assert list(folder.iterdir()) == []


def test_a_link_in_the_place_of_the_lock_makes_no_file_elsewhere(folder: Path) -> None:
    (folder / "http.lock").symlink_to(folder / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        UnixListening(str(folder / "http"), 0o600, 1)
    assert not (folder / "elsewhere").exists()
