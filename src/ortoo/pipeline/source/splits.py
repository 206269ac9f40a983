"""Who reads what: ranges are cut where they are long and put together where they are short, always in the same way.

The same offsets always give the same splits, so that a micro-batch that runs again writes the same files.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import InputPartition

from .origin import Range

LARGE = 200_000  # more than this is cut
SMALL = 25_000  # less than this is not worth a task of its own
FEW = 8  # tasks, as long as they would be smaller than large


class Split(InputPartition):
    """What one task reads, in this order."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


def split(ranges: Iterable[Range], at_least: int | None = None) -> list[Split]:
    """All that is wanted, laid end to end and cut into equal pieces; `at_least` so many, unless there are fewer messages."""
    wanted = [one for one in ranges if one.end > one.start]
    total = sum(one.end - one.start for one in wanted)
    tasks = min(total, max(at_least or 1, -(-total // LARGE), min(FEW, -(-total // SMALL))))
    pieces: list[list[Range]] = [[] for _ in range(tasks)]
    at = which = 0  # how much is given out, and the task that gets the next
    for one in wanted:
        start = one.start
        while start < one.end:
            room = total * (which + 1) // tasks - at
            taken = min(room, one.end - start)
            pieces[which].append(one._replace(start=start, end=start + taken))
            start, at = start + taken, at + taken
            which += taken == room
    return [Split(tuple(piece)) for piece in pieces]
