"""Which names in a data directory are Ortoo's: numbers, written in one way. Whatever else lies there, of a file manager or an
archiver, say, is told and otherwise left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ortoo.model.errors import CorruptionError

from .files import Disk
from .frame import UnreadableError

_DRAFT = ".tmp"
_TOLD_MAX = 5
IGNORED = "what is not Ortoo's in the data directory is ignored; move it elsewhere"


class Kind(NamedTuple):
    digits: int
    suffixes: tuple[str, ...]

    def has(self, name: str) -> bool:
        return any(name.endswith(end) and _is_number(name.removesuffix(end), self.digits) for end in self.suffixes)


WAL_FILES = Kind(20, (".wal",))
CHECKPOINT_FILES = Kind(20, (".ckpt",))
SEGMENT_FILES = Kind(20, (".log", ".seg"))
HISTORY_FILES = Kind(10, (".hist",))

# By folder: how many levels of numbered folders it has, and the files below them.
_LAYOUT = {
    "wal": (0, WAL_FILES),
    "checkpoint": (0, CHECKPOINT_FILES),
    "logs": (2, SEGMENT_FILES),
    "history": (2, HISTORY_FILES),
}


def _is_number(text: str, digits: int) -> bool:
    return text.isascii() and text.isdecimal() and text == f"{int(text):0{digits}d}"


def _entries(disk: Disk, folder: str) -> dict[str, bool]:
    try:
        return disk.entries(folder)
    except UnreadableError as error:
        raise CorruptionError(f"the folder {folder} is damaged: {error.reason}") from None


def list_files(disk: Disk, folder: str, kind: Kind, drafts: bool = False) -> list[str]:
    """Names of the files of that kind, in the order of their numbers; `drafts`: also of those that were not finished."""
    names = [name for name, is_folder in _entries(disk, folder).items() if not is_folder]
    return [name for name in names if kind.has(name.removesuffix(_DRAFT) if drafts else name)]


def list_folders(disk: Disk, folder: str) -> list[str]:
    """Names of the folders of topics, or of a topic's partitions."""
    return [name for name, is_folder in _entries(disk, folder).items() if is_folder and _is_number(name, 1)]


def tell_strays(disk: Disk) -> list[str]:
    """A problem, when there is anything that is not ours."""
    found = [path for folder, (depth, kind) in _LAYOUT.items() for path in _strays(disk, folder, depth, kind)]
    if not found:
        return []
    more = f" and {len(found) - _TOLD_MAX} more" if len(found) > _TOLD_MAX else ""
    return [f"{IGNORED}: {', '.join(found[:_TOLD_MAX])}{more}"]


def _readable_entries(disk: Disk, folder: str) -> dict[str, bool]:
    """None where the folder is damaged: whoever needs what is in it tells that."""
    try:
        return _entries(disk, folder)
    except CorruptionError:
        return {}


def _strays(disk: Disk, folder: str, depth: int, kind: Kind) -> Iterator[str]:
    """By one look at each folder: what a running queue adds after it is not looked at, and so is never a stranger."""
    for name, is_folder in _readable_entries(disk, folder).items():
        has_our_form = _is_number(name, 1) if depth else kind.has(name.removesuffix(_DRAFT))
        if is_folder != bool(depth) or not has_our_form:
            yield f"{folder}/{name}"
        elif depth:
            yield from _strays(disk, f"{folder}/{name}", depth - 1, kind)
