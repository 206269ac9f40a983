"""The key file: made once, added to when a key is rotated. Whatever happens, no key that was in it is lost."""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ortoo.model.errors import ConfigError, ExistsError

from .crypto import KEY_BYTES, parse_keys
from .files import sync
from .syncing import sync_all


def new_line(name: str) -> str:
    """A new random key, as it stands in a key file."""
    return f"{name}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}\n"


def make_key_file(path: Path, name: str) -> None:
    """With one key. A file that is there is never touched: it may be all that can read somebody's data."""
    try:
        _write(path, new_line(name))
    except FileExistsError:
        raise ExistsError(f"{path} exists; `ortoo keys rotate` adds a key to the file of a queue") from None
    except OSError as error:
        raise ConfigError(f"the key file cannot be made: {error}") from None
    sync(path.parent)


def add_key(path: Path, name: str) -> None:
    """A new key behind the others. A draft, synced, takes the place of the file; one of that name stays what it is."""
    path = path.resolve()  # the file itself, where the path is a link to it
    try:
        with _alone(path.parent):
            text, status = path.read_text(), path.stat()
            if name in parse_keys(text):
                return
            draft = path.with_name(f"{path.name}.tmp")
            draft.unlink(missing_ok=True)  # of one that was killed
            _write(draft, (text if not text or text.endswith("\n") else f"{text}\n") + new_line(name))
            with suppress(PermissionError):  # who may read the old one may read the new one
                os.chown(draft, status.st_uid, status.st_gid)
            draft.rename(path)
            sync(path.parent)
    except OSError as error:
        raise ConfigError(
            f"a key cannot be added to the key file: {error}; let the queue write there, or add a line yourself "
            "(`ortoo keys generate` makes one) and rotate again with its name"
        ) from None


def _write(path: Path, text: str) -> None:
    """Synced; for its owner alone, from the first byte on."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
        file.flush()
        sync_all(fd)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two queues that share a key file must not undo each other's keys. The file itself is replaced, so its folder is locked."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
