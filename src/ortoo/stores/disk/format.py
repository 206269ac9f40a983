"""The version of the directory as a whole. Every change of any file's layout raises it; docs/format.md tells the rest."""

import re

from ortoo.model.errors import CorruptionError, UnavailableError

from .contents import WAL_FILES, list_files
from .files import Disk, read_file

FORMAT = b"ortoo data directory, format 2\n"
_OLDER = (b"ortoo data directory, format 1\n",)  # all that they have, this format has, too
_VERSION = re.compile(rb"ortoo data directory, format [0-9]+\n")
NAME = "FORMAT"
UNFINISHED = f"{NAME}.partial"  # its name while a backup, or a restore, is on its way
_WAL = "wal"
_FIRST = f"{_WAL}/{1:020d}.wal"
PIN_PREFIX, PIN_SUFFIX = "backup-", ".tmp"  # folders of links, in which a backup holds what it needs


def refuse_unknown(disk: Disk) -> None:
    """Refuses what can be neither opened nor repaired: a copy that was never finished, and what a newer version wrote."""
    present = disk.list("")
    if UNFINISHED in present and NAME not in present:
        raise UnavailableError(
            f"{disk} is half a copy, by a backup or a restore that was never finished; remove it, and copy again"
        )
    found = read_file(disk, NAME).data if NAME in present else FORMAT
    if found != FORMAT and found not in _OLDER and _VERSION.fullmatch(found):
        raise UnavailableError(
            f"the file FORMAT has {found.decode().strip()!r}; this program reads formats 1 and 2: use a newer one"
        )


def refuse_strangers(disk: Disk) -> None:
    """Refuses a directory that another version wrote, or that is not ours at all. Touches nothing."""
    refuse_unknown(disk)
    present = disk.list("")
    if NAME in present:
        if read_file(disk, NAME).data not in (FORMAT, *_OLDER):
            raise CorruptionError("the file FORMAT of the data directory is damaged; repair it")
        return
    logs = list_files(disk, _WAL, WAL_FILES)
    is_new = set(present) <= {"LOCK", f"{NAME}.tmp", _WAL} and disk.list(_WAL) == logs
    if not is_new or any(read_file(disk, f"{_WAL}/{name}").data for name in logs):
        raise UnavailableError(f"{disk} has files, but none of Ortoo's; give an empty or a new one")


def check_format(disk: Disk) -> None:
    """Writes the version into a new directory, and into one of an older format; refuses a stranger's.

    In a new one the first file of the write-ahead log comes before it. So where there is a version, there is a log: one that
    is gone is missed, and not taken for a directory in which nothing has happened yet.
    """
    refuse_strangers(disk)
    if NAME not in disk.list(""):
        disk.make_dir(_WAL)
        disk.open(_FIRST).close()
        disk.sync_dir(_WAL)
    for name in disk.list(""):
        if name.startswith(PIN_PREFIX) and name.endswith(PIN_SUFFIX):
            disk.remove_dir(name)  # of a backup that was killed; one that is under way begins anew
    if NAME in disk.list("") and read_file(disk, NAME).data == FORMAT:
        return
    disk.remove(f"{NAME}.tmp")
    file = disk.open(f"{NAME}.tmp")
    file.append(FORMAT)
    file.sync()
    file.close()
    disk.rename(f"{NAME}.tmp", NAME)
    disk.sync_dir("")
