"""How many bytes of requests may be held, through all doors together, and who waits until there is room.

Bytes count as they arrive, whole requests or not, until the request is done; what was merely announced costs nothing. Beyond
the bound, who holds much reads no further and stands in line; whoever holds little, as those who settle do, goes on within a
reserve. What is given back lets the line go on, the first first, whichever door it came through.

Requests of which only a part has arrived could hold all there is, each waiting for the others. So when nothing was given back
for a while, the first in line goes on all the same: one at a time is held beyond the bound.

Publishes that wait for room in a full topic hold what they brought for as long as they wait. They may have half of it all;
more of them do not wait but fail at once, so that those who make room always get through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ortoo.model.errors import TooManyError

SMALL_BYTES = 256 * 1024  # ten thousand receipts, and what a socket is read in; who holds no more may use the reserve
_RESERVE = 8  # the part of the bound that is kept for them, on top
_UNPACKING_MAX = 2
_LOOK_SECONDS = 0.05  # how often someone looks at the line, while there is one
_PROGRESS_BYTES = 64 * 1024  # what the first has to bring in that time to be kept as the first
_STUCK_LOOKS = 20  # so often in vain, and the first goes on all the same


class Budget:
    """`bytes` are held now, of `bytes_max`; `parked` of them by publishes that wait for room."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.parked = 0
        self.unpacking = asyncio.Semaphore(_UNPACKING_MAX)  # what becomes larger does so one after the other
        self._reserve = bytes_max // _RESERVE
        self._line: dict[Share, None] = {}  # who waits, in the order they came
        self._favoured: Share | None = None  # goes on though there is no room
        self._favoured_bytes = 0  # what it held when last looked at
        self._quiet_looks = 0  # since something was given back
        self._is_stuck = False  # those in line wait for each other; until there is room again, they go on one by one
        self._timer: asyncio.TimerHandle | None = None

    def has_room(self, share: Share) -> bool:
        room = self.bytes_max + (self._reserve if share.bytes <= SMALL_BYTES else 0)
        return self.bytes < room or share is self._favoured

    def wait(self, share: Share) -> None:
        self._line[share] = None
        self._look_again()

    def leave(self, share: Share) -> None:
        self._line.pop(share, None)
        self.unfavour(share)

    def freed(self, share: Share) -> None:
        self._quiet_looks = 0
        self.unfavour(share)
        if share in self._line and self.has_room(share):
            self._go_on(share)
        self._let_go_on()

    def unfavour(self, share: Share) -> None:
        if share is self._favoured:
            self._favoured = None

    def _let_go_on(self) -> None:
        """As many as there is room for, if each takes as much as a socket is read in; the next when this is looked at again."""
        room = self.bytes_max - self.bytes
        while self._line and room > 0:
            room -= SMALL_BYTES
            self._is_stuck = False
            self._go_on(next(iter(self._line)))
        if self._line and self._is_stuck and self._favoured is None:
            self._favoured = next(iter(self._line))
            self._favoured_bytes = self._favoured.bytes
            self._go_on(self._favoured)

    def _go_on(self, share: Share) -> None:
        del self._line[share]
        share.resume()

    def _look_again(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._line:
            return
        self._quiet_looks += 1
        if self._quiet_looks % _STUCK_LOOKS == 0:
            self._is_stuck = True
            self._review_favour()
        self._let_go_on()
        if self._line:
            self._look_again()

    def _review_favour(self) -> None:
        """One that brings next to nothing has had its turn: a byte now and then would keep it for ever."""
        if self._favoured is not None and self._favoured.bytes - self._favoured_bytes < _PROGRESS_BYTES:
            self._favoured = None
        elif self._favoured is not None:
            self._favoured_bytes = self._favoured.bytes


class Share:
    """What one connection, or one request, holds of the budget. `resume` is called when it may read on after all."""

    __slots__ = ("_budget", "bytes", "resume")

    def __init__(self, budget: Budget, resume: Callable[[], None] = lambda: None) -> None:
        self._budget = budget
        self.bytes = 0  # without those that are parked
        self.resume = resume

    @property
    def unpacking(self) -> asyncio.Semaphore:
        return self._budget.unpacking

    def take(self, size: int) -> None:
        """These are here already, so this does not ask; see `may_go_on`."""
        self.bytes += size
        self._budget.bytes += size

    def give_back(self, size: int) -> None:
        if size:
            self.bytes -= size
            self._budget.bytes -= size
            self._budget.freed(self)

    def become(self, size: int) -> None:
        """So much of it was part of a request that is whole now, and holds its bytes by itself."""
        self.bytes -= size
        self._budget.bytes -= size
        self._budget.unfavour(self)

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
        self.resume = lambda: None if future.done() else future.set_result(None)
        try:
            async with asyncio.timeout(seconds):
                self._budget.wait(self)
                await future
        except TimeoutError:
            most = self._budget.bytes_max
            self._budget.leave(self)
            raise TooManyError(f"requests of {most} bytes are being served already; try again") from None
        except asyncio.CancelledError:
            self._budget.leave(self)
            raise

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
        self.bytes -= size
        self._budget.parked += size

    def leave(self) -> None:
        """Reads no more; what it holds is given back when that is done."""
        self._budget.leave(self)

    def close(self) -> None:
        """Gives back what is left."""
        self.leave()
        self.give_back(self.bytes)
