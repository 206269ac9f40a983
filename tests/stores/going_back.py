"""A database that goes back: as after a backup was restored below a queue that runs, or a standby that was behind took over."""

import asyncio
from collections.abc import Callable
from typing import Any

HANGS_S = 120
TABLES = ("owner", "commits", "batches", "history", "checkpoints", "snapshots", "encryption_keys")
Backup = dict[str, list[Any]]


async def back_up(sql: Any) -> Backup:
    return {table: [tuple(row) for row in await sql.fetch(f"select * from {table}")] for table in TABLES}


async def restore(sql: Any, backup: Backup) -> None:
    """Every connection ends, and whoever connects again finds what was there then."""
    schema = await sql.fetchval("select current_schema()")
    async with sql.transaction():
        await sql.execute(f"lock table {', '.join(TABLES)} in access exclusive mode")
        await sql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ortoo' and pid <> pg_backend_pid()"
        )
        for table, rows in backup.items():
            await sql.execute(f"delete from {table}")
            await sql.copy_records_to_table(table, records=rows, schema_name=schema)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANGS_S):
        while not condition():  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)
