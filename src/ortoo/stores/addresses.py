"""Which names stand for databases. Nothing of those is loaded here."""

from __future__ import annotations

import re
from importlib.util import find_spec

from ortoo.model.errors import ConfigError

POSTGRES = ("postgres", "postgresql")
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def is_postgres(where: str) -> bool:
    """ConfigError where it is, and there is no client for it."""
    scheme = SCHEME.match(where)
    if scheme is None or scheme[1].lower() not in POSTGRES:
        return False
    if find_spec("asyncpg") is None:
        raise ConfigError("a store on PostgreSQL needs the package asyncpg; run: pip install 'ortoo[postgres]'")
    return True
