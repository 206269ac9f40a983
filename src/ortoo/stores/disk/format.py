"""The version of the directory as a whole. Every change of any file's layout raises it; docs/format.md tells the rest."""

from ortoo.model.errors import CorruptionError, UnavailableError

from .files import Disk

FORMAT = b"ortoo data directory, format 2\n"
_OLDER = (b"ortoo data directory, format 1\n",)  # all that they have, this format has, too
NAME = "FORMAT"
_WAL = "wal"
_FIRST = f"{_WAL}/{1:020d}.wal"
PIN_PREFIX, PIN_SUFFIX = "backup-", ".tmp"  # folders of links, in which a backup holds what it needs


def refuse_strangers(disk: Disk) -> None:
    """Refuses a directory that another version wrote, or that is not ours at all. Touches nothing."""
    present = disk.list("")
    if NAME in present:
        found = disk.read(NAME)
        if found == FORMAT or found in _OLDER:
            return
        if found.startswith(b"ortoo data directory, format "):
            raise UnavailableError(
                f"the file FORMAT has {found.decode(errors='replace').strip()!r}; this program reads formats 1 and 2"
            )
        raise CorruptionError("the file FORMAT of the data directory is damaged")
    if set(present) - {"LOCK", f"{NAME}.tmp", _WAL} or any(disk.read(f"{_WAL}/{name}") for name in disk.list(_WAL)):
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
    if NAME in disk.list("") and disk.read(NAME) == FORMAT:
        return
    disk.remove(f"{NAME}.tmp")
    file = disk.open(f"{NAME}.tmp")
    file.append(FORMAT)
    file.sync()
    file.close()
    disk.rename(f"{NAME}.tmp", NAME)
    disk.sync_dir("")
