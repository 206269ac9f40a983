"""What the server's process holds of the machine's memory."""

from __future__ import annotations

import resource
from pathlib import Path

from ortoo.model.live import ServerMemory

from .meters import Meters

_STATM = Path("/proc/self/statm")  # in pages: all that is mapped, then what is resident


def resident_bytes() -> int:
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:  # where there is none: the most that it ever was
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_of(meters: Meters) -> ServerMemory:
    budget = meters.budget
    if budget is None:
        return ServerMemory(resident_bytes())
    return ServerMemory(resident_bytes(), budget.bytes, budget.bytes_max, budget.parked)
