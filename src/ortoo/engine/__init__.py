"""The rules, as a pure state machine: no I/O, no clock, no randomness, no async.

`Engine.decide(command, now)` reads and returns records and a reply; `Engine.apply(record)` writes and never refuses;
`Engine.tick(now)` decides what time alone has made due; `Engine.next_deadline()` says when to call it again.

Hard state is what a fold over the records gives. Soft state is either derived from it lazily (which fresh messages have
been sorted into lanes already, see feed.py) or rebuilt by the living (consumers, see members.py).
"""

from .decision import Decision
from .engine import Engine

__all__ = ["Decision", "Engine"]
