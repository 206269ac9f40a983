"""Where a client's token comes from. A file is read anew for each connection, so that one that was renewed is picked up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ortoo.model.errors import ConfigError

VARIABLE, FILE_VARIABLE = "ORTOO_TOKEN", "ORTOO_TOKEN_FILE"
_CHARS_MAX = 64 * 1024


def token_source(token: str | None, file: str | Path | None = None) -> Callable[[], str | None]:
    """The token, or what the file has when somebody connects; without either what $ORTOO_TOKEN or $ORTOO_TOKEN_FILE say."""
    if token is None and file is not None:
        return lambda: read_token(file)
    return lambda: token or os.environ.get(VARIABLE) or _from_environment()


def _from_environment() -> str | None:
    path = os.environ.get(FILE_VARIABLE)
    return read_token(path, FILE_VARIABLE) if path else None


def read_token(path: str | Path, what: str = "the token file") -> str:
    """ConfigError unless the file has a token and nothing else; what it has instead is not repeated."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            token = file.read(_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{what} is {path}, which cannot be read: {error}") from None
    if not token or not token.isprintable() or not token.isascii() or " " in token:
        raise ConfigError(f"{what} is {path}, which does not have a token and nothing else")
    return token
