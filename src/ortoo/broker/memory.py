"""What the server's process holds of the machine's memory."""

from __future__ import annotations

import sys
from pathlib import Path

from ortoo.model.live import ServerMemory

from .meters import Meters

_STATM = Path("/proc/self/statm")  # in pages: all that is mapped, then what is resident


def resident_bytes() -> int:
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        return _most_bytes()
    import resource

    return pages * resource.getpagesize()


def _most_bytes() -> int:
    """Where the system does not tell what is held now: the most that it ever was; 0 where it does not tell that either."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # macOS counts bytes


def memory_of(meters: Meters) -> ServerMemory:
    budget = meters.budget
    if budget is None:
        return ServerMemory(resident_bytes())
    return ServerMemory(resident_bytes(), budget.bytes, budget.bytes_max, budget.parked)
