"""The schema of a shard, made and brought up to date: versions are numbered, and only ever go forward.

A file `sql/NNNN.sql` leads from the version before it to its own; it is never changed once it was released. A queue that is
older than the schema refuses to open it. One that still runs when a newer one has migrated is refused by the fence, because
whoever migrates then claims.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from ortoo.model.errors import ConfigError, NotFoundError, UnavailableError
from ortoo.model.version import __version__

from .address import Address
from .errors import failing_while

_LOCK_CLASS = 0x4F72744D  # "OrtM"
_IS_OURS = """
    select count(*) = 3 from pg_attribute a
    join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relname = 'migrations' and c.relkind = 'r' and a.attname in ('version', 'at', 'by_version')
"""
_STRANGERS = """
    select exists (select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1)
        or exists (select 1 from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = $1)
        or exists (select 1 from pg_type t join pg_namespace n on n.oid = t.typnamespace where n.nspname = $1)
"""


def known_versions() -> list[int]:
    return sorted(
        int(file.name[:4]) for file in files(__package__).joinpath("sql").iterdir() if file.name[:4].isdigit()
    )


def _read(version: int) -> str:
    return files(__package__).joinpath("sql", f"{version:04d}.sql").read_text(encoding="utf-8")


async def migrate(connection: Any, address: Address, is_copied: bool = False) -> None:
    """All or nothing, one queue at a time. `is_copied`: what is there need not be whole, for a copy is made of it."""
    with failing_while(f"preparing the schema {address.schema}"):
        async with connection.transaction():
            await connection.execute("select pg_advisory_xact_lock($1, hashtext($2))", _LOCK_CLASS, address.schema)
            found = await _version(connection, address)
            _refuse_newer(found, address)
            if not is_copied:
                await _refuse_half(connection, address)
            for version in known_versions():
                if version > found:
                    await connection.execute(_read(version))
                    await connection.execute(
                        "insert into migrations (version, by_version) values ($1, $2)", version, __version__
                    )


async def refuse_unready(connection: Any, address: Address, is_copied: bool = False) -> None:
    """For those who only read: there has to be a queue, as this version writes it."""
    with failing_while(f"looking at the schema {address.schema}"):
        if not await connection.fetchval("select to_regclass('migrations') is not null"):
            raise NotFoundError(
                f"{address.shown} has no queue in the schema {address.schema!r}; another one is named with ?schema=NAME"
            )
        found: int = await connection.fetchval("select coalesce(max(version), 0) from migrations")
        _refuse_newer(found, address)
        if found < known_versions()[-1]:
            raise ConfigError(
                f"the schema {address.schema!r} of {address.shown} has version {found}, and this queue ({__version__}) writes "
                f"{known_versions()[-1]}: open it once with `ortoo serve` or ortoo.open, which brings it up to date"
            )
        if not is_copied:
            await _refuse_half(connection, address)


def _refuse_newer(found: int, address: Address) -> None:
    newest = known_versions()[-1]
    if found > newest:
        raise ConfigError(
            f"the schema {address.schema!r} of {address.shown} has version {found}, and this queue ({__version__}) knows "
            f"versions up to {newest}: it was written by a newer one; update this one"
        )


async def _refuse_half(connection: Any, address: Address) -> None:
    if await connection.fetchval("select to_regclass('incoming') is not null"):
        raise UnavailableError(
            f"the schema {address.schema!r} of {address.shown} is half a copy, by a migration that was never finished; run "
            "`ortoo migrate` or `ortoo shards move` again, which goes on or begins anew, or drop the schema"
        )


async def _version(connection: Any, address: Address) -> int:
    """0 where there is nothing yet; then at least the table for versions is there afterwards."""
    if not await connection.fetchval("select to_regnamespace(quote_ident($1)) is not null", address.schema):
        # An identifier cannot be a parameter, so the server quotes it.
        await connection.execute("select set_config('ortoo.schema', $1, true)", address.schema)
        await connection.execute(
            "do $$ begin execute format('create schema %I', current_setting('ortoo.schema')); end $$"
        )
    elif not await connection.fetchval(_IS_OURS, address.schema) and await connection.fetchval(
        _STRANGERS, address.schema
    ):
        raise ConfigError(
            f"the schema {address.schema!r} of {address.shown} has tables or functions that are not a queue's; name another "
            "one: ?schema=NAME"
        )
    await connection.execute(
        "create table if not exists migrations "
        "(version int primary key, at timestamptz not null default now(), by_version text not null)"
    )
    found: int = await connection.fetchval("select coalesce(max(version), 0) from migrations")
    return found
