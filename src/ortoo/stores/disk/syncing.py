"""How bytes get onto the disk itself, on each system.

Linux has fdatasync, which leaves out what only concerns the file's times. The fsync of macOS hands bytes to the drive and does
not wait until they have left its cache; F_FULLFSYNC does, where the file system knows it.
"""

from __future__ import annotations

import errno
import fcntl
import os

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_UNKNOWN = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL)  # to a network's file system, for instance


def sync_data(number: int) -> None:
    """The bytes of an open file."""
    if _fully(number):
        return
    if hasattr(os, "fdatasync"):
        os.fdatasync(number)
    else:
        os.fsync(number)


def sync_all(number: int) -> None:
    """An open file or folder, with all that is known of it."""
    if not _fully(number):
        os.fsync(number)


def _fully(number: int) -> bool:
    if _FULL_SYNC is None:
        return False
    try:
        fcntl.fcntl(number, _FULL_SYNC)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        return False
    return True
