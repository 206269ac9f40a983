"""Which store a name stands for: nothing for memory, a folder, or the URL of a database."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ortoo.model.errors import ConfigError
from ortoo.model.settings import Settings
from ortoo.ports import Store
from ortoo.stores.addresses import POSTGRES, SCHEME, is_postgres
from ortoo.stores.disk import open_directory
from ortoo.stores.memory import MemoryStore

SPILL_BYTES = Settings().spill_bytes


def open_store(
    where: str | Path | None,
    keys: str | dict[str, bytes] | None = None,
    spill: str | Path | None = None,
    spill_bytes: int = SPILL_BYTES,
) -> Store:
    """An unknown scheme is an error, and never the name of a folder. `spill`: a folder for what a database does not take while
    it is away."""
    if where is None:
        return MemoryStore()
    if isinstance(where, str) and is_postgres(where):
        return _open_postgres(where, keys, spill, spill_bytes)
    refuse_unknown_store(where)
    return open_directory(Path(where), keys)


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


def _open_postgres(url: str, keys: str | dict[str, bytes] | None, spill: str | Path | None, spill_bytes: int) -> Store:
    from ortoo.stores.postgres import open_postgres

    return open_postgres(url, keys, spill, spill_bytes)
