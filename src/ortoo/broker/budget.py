"""How many bytes of requests may be held, through all doors together, and who waits until there is room.

Bytes count as they arrive, whole requests or not, until the request is done; what was merely announced costs nothing. Beyond
the bound, who holds much reads no further and stands in line. Whoever holds little, as those who settle do, goes on within a
reserve that the others cannot use. What is given back lets the line go on, the first first, whichever door it came through;
who holds little and nothing that is not whole has a line of its own.

Requests of which only a part has arrived could hold all there is, each waiting for the others. So when the first in line has
waited for a while, it goes on all the same: one at a time is held beyond the bound. And while somebody waits that long, those
are cut off that do not bring on what they have begun, the longest idle first:

- whom we read from: it is their turn, and they do not use it;
- for the line of small requests, also those in the other line that hold little: what is hardly begun is soon sent again.

Publishes that wait for room in a full topic hold what they brought for as long as they wait. They may have half of it all;
more of them do not wait but fail at once, so that those who make room always get through.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic

from ortoo.model.errors import TooManyError

SMALL_BYTES = 256 * 1024  # ten thousand receipts, and what a socket is read in; who holds no more may use the reserve
_RESERVE = 8  # the part of the bound that is kept for them, on top
_UNPACKING_MAX = 2
_LOOK_SECONDS = 0.05  # how often someone looks at the lines, while there is one
_STUCK_SECONDS = (
    1.0  # so long in line, and the first goes on all the same; so long idle, and others may be cut off for it
)
_PROGRESS_BYTES = 64 * 1024  # who brings so many more is not idle; fewer do not count
_TURN_SECONDS = 30.0  # in which a request has to come that goes on though there is no room


class Budget:
    """`bytes` are held now, of `bytes_max`; `parked` of them by publishes that wait for room."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.small_bytes = 0  # of them: what those hold that hold little
        self.parked = 0
        self.unpacking = asyncio.Semaphore(_UNPACKING_MAX)  # what becomes larger does so one after the other
        self._reserve = bytes_max // _RESERVE
        self._line: dict[Share, float] = {}  # who waits, and since when, in the order they came
        self._small_line: dict[Share, float] = {}  # the same of those that hold little, and no part of a request
        self._partial: dict[
            Share, float
        ] = {}  # the rest of a request is to come; since when nothing has, the first first
        self._favoured: Share | None = None  # goes on though there is no room
        self._favoured_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many wait for room."""
        return len(self._line) + len(self._small_line)

    def has_room(self, share: Share) -> bool:
        return self.bytes < self.bytes_max or share is self._favoured or (share.is_small and self._reserved() > 0)

    def _reserved(self) -> int:
        """Room for those that hold little: on top of what all may hold, and if that is taken, of what they hold themselves."""
        return max(self.bytes_max + self._reserve - self.bytes, self._reserve - self.small_bytes)

    def wait(self, share: Share) -> None:
        if share not in self._line and share not in self._small_line:
            is_small = share.is_small and share not in self._partial
            (self._small_line if is_small else self._line)[share] = monotonic()
        self._look_again()

    def leave(self, share: Share) -> None:
        self._line.pop(share, None)
        self._small_line.pop(share, None)
        self.unfavour(share)

    def freed(self, share: Share) -> None:
        self.unfavour(share)
        if (share in self._line or share in self._small_line) and self.has_room(share):
            self._go_on(share)
        self._let_go_on()

    def unfavour(self, share: Share) -> None:
        if share is self._favoured:
            self._favoured = None

    def expect(self, share: Share, rest: bool) -> None:
        if not rest:
            self._partial.pop(share, None)
        elif share not in self._partial:
            self._partial[share] = monotonic()

    def _let_go_on(self) -> None:
        """As many as there is room for, if each takes as much as a socket is read in; the next when this is looked at again."""
        room = self.bytes_max - self.bytes
        for line in (self._line, self._small_line):
            while line and room > 0:
                room -= SMALL_BYTES
                self._go_on(next(iter(line)))
        room = self._reserved()
        while self._small_line and room > 0:
            room -= SMALL_BYTES
            self._go_on(next(iter(self._small_line)))
        if self._favoured is None and self._is_stuck(self._line, now := monotonic()):
            self._favoured, self._favoured_since = next(iter(self._line)), now
            self._go_on(self._favoured)

    def _go_on(self, share: Share) -> None:
        self._line.pop(share, None)
        self._small_line.pop(share, None)
        self.progressed(share)  # only now it can bring on what it has begun
        share.resume()

    def progressed(self, share: Share) -> None:
        if self._partial.pop(share, None) is not None:
            self._partial[share] = monotonic()

    @staticmethod
    def _is_stuck(line: dict[Share, float], now: float) -> bool:
        return bool(line) and now - next(iter(line.values())) >= _STUCK_SECONDS

    def _look_again(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        self._cut_idle(monotonic())
        self._let_go_on()
        if self.waiting:
            self._look_again()

    def _cut_idle(self, now: float) -> None:
        """Makes room for those that have waited too long, as far as idle ones hold it."""
        excess = self.bytes - self.bytes_max + 1 if self._is_stuck(self._line, now) else 0
        small_excess = 1 - self._reserved() if self._is_stuck(self._small_line, now) else 0
        idle: list[Share] = []
        for share, since in self._partial.items():
            if now - since < _STUCK_SECONDS or (excess <= 0 and small_excess <= 0):
                break
            if (excess > 0 and share not in self._line) or (small_excess > 0 and share.is_small):
                excess -= share.bytes
                small_excess -= share.bytes if share.is_small else 0
                idle.append(share)
        for share in idle:
            self._cut(share)
        self._review_favour(now)

    def _review_favour(self, now: float) -> None:
        """One that brings nothing, or takes too long, has had its turn."""
        if self._favoured is not None and now - self._favoured_since >= _STUCK_SECONDS:
            if self._favoured not in self._partial:
                self._favoured = None
            elif now - self._favoured_since >= _TURN_SECONDS:
                self._cut(self._favoured)

    def _cut(self, share: Share) -> None:
        self._partial.pop(share, None)
        self.leave(share)
        share.cut()


class Share:
    """What one connection, or one request, holds of the budget.

    `resume` is called when it may read on after all, `cut` when it has to end: others need what it holds, see `expect`.
    """

    __slots__ = ("_brought", "_budget", "bytes", "cut", "resume")

    def __init__(
        self, budget: Budget, resume: Callable[[], None] = lambda: None, cut: Callable[[], None] = lambda: None
    ) -> None:
        self._budget = budget
        self.bytes = 0  # without those that are parked
        self.resume = resume
        self.cut = cut
        self._brought = 0  # since that counted as progress

    @property
    def is_small(self) -> bool:
        return self.bytes <= SMALL_BYTES

    @asynccontextmanager
    async def unpacking(self, seconds: float) -> AsyncIterator[None]:
        """Once it is its turn, and there is room; TooManyError when it was not so in time."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        try:
            async with asyncio.timeout_at(deadline):
                await self._budget.unpacking.acquire()
        except TimeoutError:
            raise self.crowded() from None
        try:
            await self.room(deadline - clock())
            yield
        finally:
            self._budget.unpacking.release()

    def take(self, size: int) -> None:
        """These are here already, so this does not ask; see `may_go_on`."""
        self._budget.bytes += size
        self._count(size)
        self._brought += size
        if self._brought >= _PROGRESS_BYTES:
            self._brought = 0
            self._budget.progressed(self)

    def give_back(self, size: int) -> None:
        if size:
            self._budget.bytes -= size
            self._count(-size)
            self._budget.freed(self)

    def become(self, size: int) -> None:
        """So much of it was part of a request that is whole now, and holds its bytes by itself."""
        self._budget.bytes -= size
        self._count(-size)
        self._budget.unfavour(self)

    def _count(self, change: int) -> None:
        before = self.bytes if self.is_small else 0
        self.bytes += change
        self._budget.small_bytes += (self.bytes if self.is_small else 0) - before

    def expect(self, rest: bool) -> None:
        """Whether we read on for the rest of a request. While others wait, who does not bring it is cut off."""
        self._budget.expect(self, rest)

    def may_go_on(self) -> bool:
        """Whether to read on. If not, it stands in line from now on."""
        if self._budget.has_room(self):
            return True
        self._budget.wait(self)
        return False

    async def room(self, seconds: float) -> None:
        """Returns when there is room to read on; TooManyError when there was none for so long."""
        if self._budget.has_room(self):
            return
        future = asyncio.get_running_loop().create_future()
        cut = self.cut
        self.resume = lambda: None if future.done() else future.set_result(None)
        self.cut = lambda: None if future.done() else future.set_exception(TimeoutError())
        try:
            async with asyncio.timeout(seconds):
                self._budget.wait(self)
                await future
        except TimeoutError:
            raise self.crowded() from None
        finally:
            self.cut = cut
            if not future.done() or future.cancelled():
                self._budget.leave(self)

    def crowded(self) -> TooManyError:
        return TooManyError(f"requests of {self._budget.bytes_max} bytes are being served already; try again")

    @contextmanager
    def parking(self, size: int, refusal: Exception) -> Iterator[None]:
        """While a publish of that size waits for room in its topic. `refusal` is raised when too much is waiting already."""
        if self._budget.parked + size > self._budget.bytes_max // 2:
            raise refusal
        self._park(size)
        try:
            yield
        finally:
            self._park(-size)

    def _park(self, size: int) -> None:
        self._count(-size)
        self._budget.parked += size

    def leave(self) -> None:
        """Reads no more; what it holds is given back when that is done."""
        self._budget.expect(self, False)
        self._budget.leave(self)

    def close(self) -> None:
        """Gives back what is left."""
        self.leave()
        self.give_back(self.bytes)
