"""The PostgreSQL store. docs/postgres.md tells how to use it and what its tables are; store.py how its parts work together."""

from .abandoning import abandon, find_mark
from .address import Address, parse_address
from .check import SchemaReport, check_schema
from .moving import PostgresSource, PostgresTarget
from .outside import OutsideSchema
from .store import PostgresStore, open_postgres

__all__ = [
    "Address",
    "OutsideSchema",
    "PostgresSource",
    "PostgresStore",
    "PostgresTarget",
    "SchemaReport",
    "abandon",
    "check_schema",
    "find_mark",
    "open_postgres",
    "parse_address",
]
