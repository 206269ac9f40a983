"""Paths that a file names begin at the file; those with a scheme, as in s3a://, are left as they are."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def resolve(path: str, folder: Path) -> str:
    return path if _SCHEME.match(path) or not path else str(folder / Path(path).expanduser())
