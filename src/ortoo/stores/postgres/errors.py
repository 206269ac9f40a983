"""Whatever goes wrong between here and the database, as errors of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from ortoo.model.errors import ConfigError, NotOwnerError, StoreFailedError

NOT_OWNER = "OR001"  # the SQLSTATE with which the functions of a shard refuse an owner whose term is over
WENT_BACK = "OR002"  # with which they refuse what builds on something that is not there any more
_DISK_FULL = "53100"
_NO_ROOM = "53"  # class of SQLSTATE: of disk, of memory, for connections
_REFUSALS = ("22", "23", "42")  # classes of SQLSTATE: data, integrity, what is not there or not allowed


class DatabaseError(StoreFailedError, OSError):
    """The database is away, or refuses. For the broker it is what a disk that fails is: it recovers, and tries again."""

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.is_full = sqlstate == _DISK_FULL
        self.has_no_room = sqlstate is not None and sqlstate[:2] == _NO_ROOM
        self.is_refusal = (
            sqlstate is not None and sqlstate[:2] in _REFUSALS
        )  # of this very thing, and it would be again

    def __str__(self) -> str:
        return self.message


class WentBackError(DatabaseError):
    """The database does not have what it had: a backup was restored, or a standby was behind."""

    is_certain = True  # whatever was to be written builds on what is gone


@contextmanager
def failing_while(doing: str) -> Iterator[None]:
    """`doing`: what failed, in words."""
    try:
        yield
    except asyncpg.PostgresError as error:
        if error.sqlstate == NOT_OWNER:
            raise NotOwnerError(f"another owner has taken over: {error}") from error
        if error.sqlstate == WENT_BACK:
            raise WentBackError(f"the database went back while {doing}: {error}", error.sqlstate) from error
        raise DatabaseError(f"PostgreSQL failed while {doing}: {error}", error.sqlstate) from error
    except asyncpg.exceptions.ClientConfigurationError as error:
        raise ConfigError(f"the address of PostgreSQL is wrong: {error}") from None
    except TimeoutError:
        raise DatabaseError(f"PostgreSQL did not answer in time while {doing}") from None
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        if isinstance(error, DatabaseError):
            raise
        raise DatabaseError(f"PostgreSQL cannot be reached while {doing}: {error}") from error
