"""`ortoo buffer`: what may wait in a buffer is shown, and given up only when that was said."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

import ortoo
from ortoo.cli.main import run
from tests.stores.postgres_server import fresh_url, server


async def left_behind(url: str) -> None:
    """As a queue that was killed, whose Redis is gone."""
    async with ortoo.open(url) as queue:
        await queue.create_topic("t")
    there: Any = await asyncpg.connect(
        server().url, server_settings={"search_path": url.partition("schema=")[2], "ortoo.writer": "queue"}
    )
    await there.execute(
        "insert into buffer (name, era, is_open, first, known, term, token, node, place, run, identity, timeline) "
        "select 'b', 1, true, 5, 9, term, token, 'host:1', 'redis://cache:6379', '', "
        "(select system_identifier::text from pg_control_system()) || '/' || "
        "(select oid from pg_database where datname = current_database()) || '/' || "
        "(select oid from pg_namespace where nspname = current_schema()), '' from owner"
    )
    await there.close()


def test_what_waits_is_shown_and_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    url = fresh_url()
    asyncio.run(left_behind(url))
    assert run(["buffer", "show", url]) == 0
    told = capsys.readouterr().out
    assert "commits from 5 on may wait in buffer b at redis://cache:6379" in told
    assert "for certain" in told
    assert run(["buffer", "abandon", url]) == 2  # nobody said yes
    assert run(["buffer", "abandon", url, "--yes"]) == 0
    assert "given up" in capsys.readouterr().out
    assert run(["buffer", "show", url]) == 0
    assert "nothing waits" in capsys.readouterr().out
    assert run(["buffer", "abandon", url, "--yes"]) != 0


def test_only_databases_have_a_buffer() -> None:
    assert run(["buffer", "show", "./data"]) == 2
