"""Where a shard is: a URL of PostgreSQL, in which `schema` names the shard's schema.

postgres://queue@db1/q                  the schema ortoo
postgres://queue@db1,db2/q?schema=jobs&target_session_attrs=primary
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ortoo.model.errors import ConfigError

SCHEMES = ("postgres", "postgresql")
SCHEMA = "ortoo"
_SCHEMA_BYTES_MAX = 63  # PostgreSQL cuts longer names


class Address(NamedTuple):
    dsn: str  # as PostgreSQL's clients know it
    schema: str
    shown: str  # without a password


def parse_address(url: str) -> Address:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ConfigError(f"a PostgreSQL store is named as postgres://USER@HOST/DATABASE, not {url!r}")
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for name, value in query if name == "schema"), SCHEMA)
    if not schema or len(schema.encode()) > _SCHEMA_BYTES_MAX or not schema.isprintable() or schema.startswith("pg_"):
        raise ConfigError(
            f"schema={schema!r} is no name for a schema: it has 1 to {_SCHEMA_BYTES_MAX} bytes, and does not begin with pg_"
        )
    rest = urlencode([(name, value) for name, value in query if name != "schema"])
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, rest, ""))
    credentials, at, hosts = parts.netloc.rpartition("@")
    user = credentials.partition(":")[0]
    shown = urlunsplit(("postgres", f"{user}{at}{hosts}", parts.path, "", ""))
    return Address(dsn, schema, shown if schema == SCHEMA else f"{shown}?schema={schema}")
