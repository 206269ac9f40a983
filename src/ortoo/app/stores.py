"""Which store a name stands for: nothing for memory, a folder, or the URL of a database."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ortoo.model.errors import ConfigError
from ortoo.model.settings import Settings
from ortoo.ports import Store
from ortoo.ports.buffer import CommitBuffer
from ortoo.stores.addresses import POSTGRES, SCHEME, is_postgres
from ortoo.stores.memory import MemoryStore

SPILL_BYTES, BUFFER_BYTES = Settings().spill_bytes, Settings().buffer_bytes


class Ahead(NamedTuple):
    """What takes commits before a database does."""

    spill: str | Path | None = None  # a folder, for while the database is away
    spill_bytes: int = SPILL_BYTES
    buffer: str | None = None  # the URL of a Redis that commits are confirmed from
    buffer_bytes: int = BUFFER_BYTES


def open_store(
    where: str | Path | None,
    keys: str | dict[str, bytes] | None = None,
    ahead: Ahead = Ahead(),  # noqa: B008  it is a value
) -> Store:
    """An unknown scheme is an error, and never the name of a folder."""
    if where is None:
        return MemoryStore()
    if isinstance(where, str) and is_postgres(where):
        return _open_postgres(where, keys, ahead)
    refuse_unknown_store(where)
    return _open_directory(Path(where), keys)


def _open_directory(path: Path, keys: str | dict[str, bytes] | None) -> Store:
    try:
        import fcntl  # noqa: F401 - it locks the directory
    except ModuleNotFoundError:
        raise ConfigError(
            f"a queue on disk ({path}) needs Linux or macOS; here, keep it in memory with ortoo.open(), or connect to a server "
            "with ortoo.connect()"
        ) from None
    from ortoo.stores.disk import open_directory

    return open_directory(path, keys)


def refuse_buffer_without_database(buffer: str | None, where: Sequence[str | Path | None]) -> None:
    if buffer is not None and not any(isinstance(one, str) and is_postgres(one) for one in where):
        raise ConfigError("a buffer is for a store on PostgreSQL: name one, or leave the buffer out")


def refuse_unknown_store(where: str | Path) -> None:
    """What is left is a folder."""
    if not str(where) or "\0" in str(where):
        raise ConfigError(f"{str(where)!r} is no name for a store; name a folder, or postgres://USER@HOST/DATABASE")
    scheme = SCHEME.match(str(where))
    if scheme is None:
        return
    if scheme[1].lower() in ("ortoo", "ortoos"):
        raise ConfigError(f"{where} is a server: reach it with ortoo.connect({str(where)!r})")
    raise ConfigError(
        f"there is no store for {scheme[1]}:// addresses; give a folder, or postgres://USER@HOST/DATABASE as a string"
    )


def shown_store(where: str) -> str:
    """Without a password."""
    scheme = SCHEME.match(where)
    if scheme is None or scheme[1].lower() not in POSTGRES or find_spec("asyncpg") is None:
        return where
    from ortoo.stores.postgres import parse_address

    return parse_address(where).shown


def place_of(where: str) -> str:
    """The same for every way to write one store, as far as names tell."""
    if is_postgres(where):
        return shown_store(where)
    refuse_unknown_store(where)
    return str(Path(where).resolve())


def _open_postgres(url: str, keys: str | dict[str, bytes] | None, ahead: Ahead) -> Store:
    from ortoo.stores.postgres import open_postgres

    buffer = None if ahead.buffer is None else _open_buffer(ahead.buffer)
    return open_postgres(url, keys, ahead.spill, ahead.spill_bytes, buffer, ahead.buffer_bytes)


def _open_buffer(url: str) -> CommitBuffer:
    if find_spec("redis") is None:
        raise ConfigError("a buffer in Redis needs the package redis; run: pip install 'ortoo[redis]'")
    from ortoo.stores.redis import RedisBuffer, RedisConnection, parse_address

    return RedisBuffer(RedisConnection(parse_address(url)))
