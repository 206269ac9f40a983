"""The instants of decisions: wall-clock time that never runs backwards and never stands still for long.

The machine's clock may be set back, or may have been ahead when something was published. Until it has caught up, time goes
on from the last instant at nine tenths of the pace of the monotonic clock: leases still run out, delays still come due, none
of them early, and the two clocks meet again.
"""

from __future__ import annotations

from ortoo.ports import Clock

_SLEW = 9, 10  # the pace while the machine's clock is behind
_NOTABLE_MS = 5_000  # what an operator should know of; less is how clocks are kept in step
_TOLD_MS = 3_600_000  # how long a jump ahead is told


class Timekeeper:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0
        self._anchor: tuple[int, int] | None = None  # (instant, monotonic) since when the machine's clock is behind
        self._behind = 0  # the most it was, since then
        self._looked: tuple[int, int] | None = None  # what both clocks showed when they were last read
        self._jump: tuple[int, int] | None = None  # (by how much, monotonic) the machine's clock was set ahead

    def now(self) -> int:
        wall = self._clock.now_ms()
        if wall == self._last and self._anchor is None:  # the same millisecond, as mostly under load
            return wall
        looked = self._looked
        monotonic = self._read(wall)
        if wall >= self._last:
            self._last, self._anchor, self._behind = wall, None, 0
        else:
            since, mark = self._anchor = self._anchor or (self._last, looked[1] if looked else monotonic)
            self._last = max(wall, since + (monotonic - mark) * _SLEW[0] // _SLEW[1])
            self._behind = max(self._behind, self._last - wall)
        return self._last

    def _read(self, wall: int) -> int:
        monotonic = self._clock.monotonic_ms()
        if self._looked is not None:
            ahead = (wall - self._looked[0]) - (monotonic - self._looked[1])
            if ahead >= _NOTABLE_MS and wall > self._last:
                self._jump = (ahead, monotonic)
        self._looked = (wall, monotonic)
        return monotonic

    def not_before(self, instant: int) -> None:
        """What the store remembers was decided by then."""
        if instant > self._last:
            self._last, self._anchor = instant, None

    def problems(self) -> list[str]:
        """What an operator should know of the machine's clock."""
        self.now()
        found = []
        if self._behind >= _NOTABLE_MS:
            found.append(
                f"the system clock was {self._behind / 1000:.0f} s behind the queue's time and has not caught up: it was set "
                "back, or was ahead before; until then instants lie ahead of it, and time runs at nine tenths of its pace"
            )
        if self._jump is not None and self._clock.monotonic_ms() - self._jump[1] < _TOLD_MS:
            found.append(
                f"the system clock jumped ahead by {self._jump[0] / 1000:.0f} s within the last hour: "
                "leases, delays and retention took that time as passed"
            )
        return found
