"""Where a client's token comes from. A file is read anew for each connection, so that one that was renewed is picked up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ortoo.model.errors import ConfigError

VARIABLE, FILE_VARIABLE = "ORTOO_TOKEN", "ORTOO_TOKEN_FILE"
_CHARS_MAX = 64 * 1024


def token_source(token: str | None) -> Callable[[], str | None]:
    """The token that was given, or else what $ORTOO_TOKEN or the file $ORTOO_TOKEN_FILE has when somebody connects."""
    return lambda: token or os.environ.get(VARIABLE) or _from_file(os.environ.get(FILE_VARIABLE))


def _from_file(path: str | None) -> str | None:
    if not path:
        return None
    try:
        with Path(path).open(encoding="utf-8") as file:
            token = file.read(_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{FILE_VARIABLE} is {path}, which cannot be read: {error}") from None
    if not token or not token.isprintable() or not token.isascii() or " " in token:
        raise ConfigError(f"{FILE_VARIABLE} is {path}, which does not have a token and nothing else")
    return token
