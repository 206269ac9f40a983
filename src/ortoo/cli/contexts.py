"""Contexts: servers with names of their own, kept in a file of the user. A token is never in it, only the path of its file."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

import msgspec

from ortoo.model.errors import ConfigError, InvalidError, NotFoundError

VARIABLE = "ORTOO_CONTEXT"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BYTES_MAX = 1 << 20


class Context(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a queue is, and how it is reached."""

    url: str
    namespace: str | None = None
    token_file: str | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None


class Contexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file has."""

    contexts: dict[str, Context] = {}
    current: str | None = None

    def get(self, name: str) -> Context:
        found = self.contexts.get(name)
        if found is None:
            near = get_close_matches(name, self.contexts, 1)
            advice = (
                f"did you mean {near[0]}?" if near else "`ortoo context list` shows them, `ortoo context add` adds one"
            )
            raise NotFoundError(f"there is no context {name!r}; {advice}")
        return found

    def with_context(self, name: str, context: Context) -> Contexts:
        return Contexts({**self.contexts, name: context}, self.current)

    def using(self, name: str) -> Contexts:
        self.get(name)
        return Contexts(self.contexts, name)

    def without(self, name: str) -> Contexts:
        self.get(name)
        left = {other: context for other, context in self.contexts.items() if other != name}
        return Contexts(left, None if self.current == name else self.current)


def contexts_path(environ: Mapping[str, str] = os.environ) -> Path:
    """In the user's configuration, as XDG has it; a relative path there is to be ignored."""
    named = Path(environ.get("XDG_CONFIG_HOME", ""))
    return (named if named.is_absolute() else Path("~/.config").expanduser()) / "ortoo" / "contexts.json"


def load_contexts() -> Contexts:
    path = contexts_path()
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX)
    except FileNotFoundError:
        return Contexts()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"the contexts in {path} cannot be read: {error}") from None
    try:
        return msgspec.json.decode(data, type=Contexts)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is damaged: {error}; mend or remove it") from None


def change_contexts(change: Callable[[Contexts], Contexts]) -> None:
    """Reads, changes and writes them while nobody else does, so that no entry is lost. The file is replaced as a whole."""
    path = contexts_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path.parent):
            _save(path, change(load_contexts()))
    except OSError as error:
        raise ConfigError(
            f"contexts cannot be kept in {path}: {error.strerror}; XDG_CONFIG_HOME names another folder"
        ) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Until it is released, or this process ends."""
    try:
        import fcntl
    except ImportError:  # Windows: the last writer wins
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _save(path: Path, contexts: Contexts) -> None:
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".contexts-")  # only its owner may read it
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise


def check_context_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidError(f"a context's name has letters, digits and . _ - only, 100 at most; {name!r} has not")
    return name


def chosen_context(name: str | None) -> Context | None:
    """The one that is named, or else the one in use; None without either."""
    if name:
        return load_contexts().get(name)
    contexts = load_contexts()
    return None if contexts.current is None else contexts.get(contexts.current)
