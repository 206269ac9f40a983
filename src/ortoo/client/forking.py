"""What becomes of queues in a child process that was forked: its threads, event loop and connections stay the parent's.

The child must not touch a connection that it shares with its parent, nor wait for a thread that it does not have. So each
queue is told of the fork, in the child, before anything else runs there.
"""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import WeakSet

from ortoo.model.errors import ClosedError


class Forked(Protocol):
    def _forked(self) -> None:
        """Called in the child. Must not block, nor use anything of the parent's."""


_alive: WeakSet[Forked] = WeakSet()
_kept: list[Any] = []  # what is the parent's, and must not be closed here by the garbage collector


def tell_of_forks(one: Forked) -> None:
    _alive.add(one)


def keep(*inherited: object) -> None:
    _kept.extend(inherited)


def refusal() -> ClosedError:
    return ClosedError(
        "the queue was opened before this process was forked, and belongs to the parent; open or connect it in the child"
    )


def _after_fork() -> None:
    for one in list(_alive):
        one._forked()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing is forked
    os.register_at_fork(after_in_child=_after_fork)
