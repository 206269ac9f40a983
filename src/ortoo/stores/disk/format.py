"""The version of the directory as a whole, and its salt. Every change of any file's layout raises the version; docs/format.md
tells the rest."""

import re
from zlib import crc32

from ortoo.model.errors import CorruptionError, UnavailableError

from .contents import WAL_FILES, list_files
from .files import Disk, read_file
from .frame import Salt

_OLDER = (b"ortoo data directory, format 1\n", b"ortoo data directory, format 2\n")  # their frames have no salt
_FORMAT = re.compile(
    rb"(ortoo data directory, format [3456]\nsalt ([0-9a-f]{16})\n(has older files\n)?)check ([0-9a-f]{8})\n"
)
_VERSION = re.compile(rb"ortoo data directory, format ([0-9]{1,9})\n")
NEWEST = 6
NAME = "FORMAT"
UNFINISHED = f"{NAME}.partial"  # its name while a backup, a restore or a migration is on its way
_WAL = "wal"
_AUTH = "auth"  # keys of tokens: not the store's, and there before it when a token was made first
_FIRST = f"{_WAL}/{1:020d}.wal"
PIN_PREFIX, PIN_SUFFIX = "backup-", ".tmp"  # folders of links, in which a backup holds what it needs


def _encode(salt: Salt) -> bytes:
    older = "has older files\n" if salt.has_older else ""
    told = f"ortoo data directory, format {NEWEST}\nsalt {salt.value:016x}\n{older}"
    return f"{told}check {crc32(told.encode()):08x}\n".encode()


def _decode(found: bytes) -> Salt | None:
    """None when it is not a FORMAT."""
    if found in _OLDER:
        return Salt()
    match = _FORMAT.fullmatch(found)
    if match is None or crc32(match[1]) != int(match[4], 16):
        return None
    return Salt(int(match[2], 16), match[3] is not None)


def refuse_unknown(disk: Disk) -> None:
    """Refuses what can be neither opened nor repaired: a copy that was never finished, and what a newer version wrote."""
    present = disk.list("")
    if UNFINISHED in present and NAME not in present:
        raise UnavailableError(
            f"{disk} is half a copy, by a backup, a restore or a migration that was never finished; remove it, and copy again "
            "(ortoo migrate and ortoo shards move continue, or start over, by themselves)"
        )
    found = read_file(disk, NAME).data if NAME in present else b""
    version = _VERSION.match(found)
    if version is not None and not 1 <= int(version[1]) <= NEWEST:
        told = found.splitlines()[0].decode()
        raise UnavailableError(
            f"the file FORMAT has {told!r}; this program reads formats 1 to {NEWEST}: use a newer one"
        )
    disk.salt = _decode(found) or Salt()


def refuse_strangers(disk: Disk) -> None:
    """Refuses a directory that another version wrote, or that is not ours at all. Touches nothing."""
    refuse_unknown(disk)
    present = disk.list("")
    if NAME in present:
        if _decode(read_file(disk, NAME).data) is None:
            raise CorruptionError("the file FORMAT of the data directory is damaged; repair it")
        return
    logs = list_files(disk, _WAL, WAL_FILES)
    is_new = set(present) <= {"LOCK", f"{NAME}.tmp", _WAL, _AUTH} and disk.list(_WAL) == logs
    if not is_new or any(read_file(disk, f"{_WAL}/{name}").data for name in logs):
        raise UnavailableError(f"{disk} has files, but none of Ortoo's; give an empty or a new one")


def check_format(disk: Disk) -> None:
    """Writes the version into a new directory, and into one of an older format; refuses a stranger's.

    In a new one the first file of the write-ahead log comes before it. So where there is a version, there is a log: one that
    is gone is missed, and not taken for a directory in which nothing has happened yet.
    """
    refuse_strangers(disk)
    is_new = NAME not in disk.list("")
    found = b"" if is_new else read_file(disk, NAME).data
    if is_new:
        disk.make_dir(_WAL)
        disk.open(_FIRST).close()
        disk.sync_dir(_WAL)
    for name in disk.list(""):
        if name.startswith(PIN_PREFIX) and name.endswith(PIN_SUFFIX):
            disk.remove_dir(name)  # of a backup that was killed; one that is under way begins anew
    salt = disk.salt if disk.salt.value else Salt(disk.new_salt(), has_older=not is_new)
    if found == _encode(salt):
        return
    disk.remove(f"{NAME}.tmp")
    file = disk.open(f"{NAME}.tmp")
    file.append(_encode(salt))
    file.sync()
    file.close()
    disk.rename(f"{NAME}.tmp", NAME)
    disk.sync_dir("")
    disk.salt = salt
