"""What event loops and signals differ in from system to system."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

STOPPING: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster loop where there is one: not on Windows."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@contextmanager
def heard(numbers: Sequence[signal.Signals], tell: Callable[[signal.Signals], None]) -> Iterator[None]:
    """While this is entered, in the main thread, `tell` is called in the running loop for each of these signals."""
    loop = asyncio.get_running_loop()
    before = {}
    for number in numbers:
        try:
            loop.add_signal_handler(number, tell, number)
        except NotImplementedError:  # the loops of Windows have none; what waits there is woken by the call
            before[number] = signal.signal(
                number, lambda got, _frame: loop.call_soon_threadsafe(tell, signal.Signals(got))
            )
    try:
        yield
    finally:
        for number in numbers:
            if number in before:
                signal.signal(number, before[number])
            else:
                loop.remove_signal_handler(number)
