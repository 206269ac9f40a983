"""One PostgreSQL for all tests of a process, and a fresh schema for each of them."""

import atexit
import shutil
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from ortoo.stores.disk import KeyRing
from ortoo.stores.postgres import PostgresStore, parse_address
from ortoo.testing.private_postgres import VERSION, PrivatePostgres

_numbers = count(1)


def server(version: int = VERSION) -> PrivatePostgres:
    return _server(version)


@cache
def _server(version: int) -> PrivatePostgres:
    """It loses what it holds with the machine's power: that is not what these tests are about."""
    folder = Path(mkdtemp(prefix="ortoo-postgres-"))
    found = PrivatePostgres(folder, version, {"fsync": "off", "shared_buffers": "64MB"})
    found.start()

    def end() -> None:
        found.kill()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return found


def fresh_url(version: int = VERSION) -> str:
    return f"{server(version).url}?schema=test{next(_numbers)}"


def store_at(url: str, ring: KeyRing | None = None, **options: Any) -> PostgresStore:
    return PostgresStore(parse_address(url), ring, **options)
