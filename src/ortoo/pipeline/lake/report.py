"""What a job says while it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Archived(NamedTuple):
    """One batch that is safe."""

    table: str
    rows: int
    seconds: float
    topics: int


Report = Callable[[Archived | str], None]  # a batch, or a problem that does not end the job, in words
